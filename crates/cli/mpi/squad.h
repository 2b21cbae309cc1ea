/* What the MPI programs of the benchmarks share: the conversation with the benchmark, errors, waiting.
 *
 * A program is compiled with mpicc and started once with mpiexec; it then does one job after the other.
 * Rank r reads its jobs from DIR/job.r and answers on DIR/answer.r (named pipes), not through MPI,
 * because an idle MPI rank spins and would take the processors from whoever is measured meanwhile.
 * `bench/squad.rs` tells what is said.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static FILE *jobs, *answers;

/* Gives the processor to others, after `rounds` rounds in vain. */
static inline void give_way(int rounds)
{
    if (rounds < 50)
        sched_yield();
    else
        usleep(20);
}

#ifdef MPICH_VERSION
/* Debian's MPICH polls without end while it waits. With more ranks than processors a waiting rank
 * then keeps the processor from the one it waits for. MPICH asks UCX for news in every round of that
 * loop; here an empty round gives the processor away, and after many a rank sleeps a little: mpiexec
 * starts each rank in a session of its own, and yielding alone does not reach beyond a session. (Open MPI
 * has a setting for it, and one session.) */
unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*next)(void *);
    static int yields = -1, empty;
    if (!next) {
        next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
        yields = getenv("PATTERNS_SPIN") == NULL;
        if (!next)
            abort();
    }
    unsigned news = next(worker);
    if (news || !yields)
        empty = 0;
    else
        give_way(empty++);
    return news;
}
#endif

static void fail(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(int code, const char *what)
{
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
}

static void answer(const char *text)
{
    fprintf(answers, "%s\n", text);
    fflush(answers);
}

/* Returns when all ranks have called it; a rank that waits does not keep others from working. */
static inline void meet(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int round = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done; round++)
        give_way(round);
}

/* Everything is prepared: says so, and returns when the clock runs. */
static void get_ready(void)
{
    char line[64];
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(line, sizeof line, "ready %d", (int)getpid());
    answer(line);
    if (!fgets(line, sizeof line, jobs) || strncmp(line, "go", 2))
        exit(1);
}

/* The job is done: says so, and returns when all have done theirs. */
static void get_done(void)
{
    char line[64];
    answer("done");
    if (!fgets(line, sizeof line, jobs) || strncmp(line, "check", 5))
        exit(1);
}

/* Whether a path is one of trireme's, which ordinary calls cannot open. */
static inline int is_ours(const char *path)
{
    return !strncmp(path, "trireme:", 8);
}

static void set_hint(MPI_Info info, const char *hint, const char *variable, const char *value)
{
    MPI_Info_set(info, hint, getenv(variable) ? getenv(variable) : value);
}

/* By default one rank per host does all of ROMIO's file I/O, through a buffer of 16 MB. On one host
 * every rank may, and a buffer that stays in the cache is up to three times faster. */
static void tune_romio(MPI_Info info)
{
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", size);
    MPI_Info_set(info, "cb_config_list", "*:*");
    set_hint(info, "cb_nodes", "PATTERNS_CB_NODES", ranks);
    set_hint(info, "cb_buffer_size", "PATTERNS_CB_BUFFER", "1048576");
}

/* Starts MPI and opens the pipes. */
static void begin(int *argc, char ***argv)
{
    char path[4096];
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (*argc != 2)
        fail("usage: PROGRAM DIR");
    snprintf(path, sizeof path, "%s/job.%d", (*argv)[1], rank);
    jobs = fopen(path, "r");
    snprintf(path, sizeof path, "%s/answer.%d", (*argv)[1], rank);
    answers = fopen(path, "w");
    if (!jobs || !answers)
        fail("the named pipes cannot be opened");
}
