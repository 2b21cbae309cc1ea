/* The MPI-IO program of `trireme bench patterns`: the same patterns through ROMIO on a local file
 * (`--against romio`), or through trireme's own library (`--via mpi`).
 *
 *   job PATH OP MODE BYTES RECORD SEED DIMENSIONS (LENGTH DISTRIBUTION GRID)...
 *   -> ready PID      type, view, open file and buffer are prepared: all this is outside the clock
 *   go
 *   -> done           the one read or write call has returned
 *   check
 *   -> verified 1     every byte was compared
 *
 * OP is r or w. MODE is collective, sieving or independent. DISTRIBUTION is n, b or c; DIMENSIONS 0
 * gives every rank the whole file. The word at offset 8 k of a file has the value k * MIX + SEED, as
 * in bench/words.rs.
 *
 * The view is one subarray of the whole matrix where a rank has one block, and one darray where its
 * records are dealt out. A darray of one period, repeated by ROMIO, was tried:
 * it is no faster. PATTERNS_CB_NODES, PATTERNS_CB_BUFFER and PATTERNS_SPIN are there to see what the
 * settings are worth; PATTERNS_LARGE_PAGES gives the buffers the large pages that a program under
 * trireme gets from its library and under ROMIO only if its author asks for them.
 */
#include "squad.h"
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MPICH_VERSION
#error "this is another MPI: the benchmark's peer is MPICH with its ROMIO"
#endif

#define MIX 0x9e3779b97f4a7c15ull
#define POISON 0xa5
/* Bytes of a large page. */
#define LARGE (2u << 20)

struct dimension {
    uint64_t length;
    char distribution;
    int grid;
};

struct job {
    char path[4096], op, mode[16];
    uint64_t bytes, record, seed;
    int dimensions;
    struct dimension dimension[2];
};

static int read_job(struct job *job)
{
    char line[8192];
    int at = 0;
    if (!fgets(line, sizeof line, jobs) || strncmp(line, "job ", 4))
        return 0;
    if (sscanf(line + 4, "%4095s %c %15s %lu %lu %lu %d%n", job->path, &job->op, job->mode,
               &job->bytes, &job->record, &job->seed, &job->dimensions, &at) != 7)
        fail("a job cannot be read");
    if (job->dimensions < 0 || job->dimensions > 2)
        fail("a job has more than two dimensions");
    for (int i = 0, used = 0; i < job->dimensions; i++, at += used) {
        struct dimension *d = &job->dimension[i];
        if (sscanf(line + 4 + at, " %lu %c %d%n", &d->length, &d->distribution, &d->grid, &used) != 3)
            fail("a dimension cannot be read");
    }
    return 1;
}

/* Coordinate of this rank in each dimension of the process grid; ranks beyond the grid own nothing. */
static int coordinates(const struct job *job, int *at)
{
    int cells = 1, rest = rank;
    for (int i = 0; i < job->dimensions; i++)
        cells *= job->dimension[i].grid;
    if (rank >= cells)
        return 0;
    for (int i = job->dimensions - 1; i >= 0; i--) {
        at[i] = rest % job->dimension[i].grid;
        rest /= job->dimension[i].grid;
    }
    return 1;
}

/* The records of one dimension that coordinate `at` owns: `count` runs of `run`, `step` apart. */
struct runs {
    uint64_t first, run, step, count;
};

static struct runs runs_of(const struct dimension *d, uint64_t at)
{
    uint64_t block = (d->length + d->grid - 1) / d->grid;
    if (d->distribution == 'c')
        return (struct runs){at, 1, d->grid, at < d->length ? (d->length - at - 1) / d->grid + 1 : 0};
    if (d->distribution == 'n')
        return (struct runs){0, d->length, d->length, 1};
    if (at * block >= d->length)
        return (struct runs){0, 0, 1, 0};
    uint64_t rest = d->length - at * block;
    return (struct runs){at * block, rest < block ? rest : block, d->length, 1};
}

/* Calls `each` with file offset and length of every run of records that this rank owns. */
static void walk(const struct job *job, void (*each)(void *, uint64_t, uint64_t), void *to)
{
    static const struct dimension one_row = {1, 'n', 1};
    int at[2] = {0, 0};
    if (job->dimensions == 0) {
        each(to, 0, job->bytes);
        return;
    }
    if (!coordinates(job, at))
        return;
    int two = job->dimensions == 2;
    const struct dimension *rows = two ? &job->dimension[0] : &one_row;
    const struct dimension *columns = &job->dimension[two];
    struct runs r = runs_of(rows, two ? at[0] : 0), c = runs_of(columns, at[two]);
    for (uint64_t i = 0; i < r.count; i++)
        for (uint64_t row = r.first + i * r.step; row < r.first + i * r.step + r.run; row++)
            for (uint64_t k = 0; k < c.count; k++)
                each(to, (row * columns->length + c.first + k * c.step) * job->record,
                     c.run * job->record);
}

struct filling {
    uint64_t *words, seed;
};

static void fill(void *to, uint64_t offset, uint64_t length)
{
    struct filling *filling = to;
    for (uint64_t k = offset / 8; k < (offset + length) / 8; k++)
        *filling->words++ = k * MIX + filling->seed;
}

struct comparison {
    const uint64_t *words;
    uint64_t seed;
    int same;
};

static void compare(void *to, uint64_t offset, uint64_t length)
{
    struct comparison *comparison = to;
    for (uint64_t k = offset / 8; k < (offset + length) / 8; k++)
        comparison->same &= *comparison->words++ == k * MIX + comparison->seed;
}

static void add(void *to, uint64_t offset, uint64_t length)
{
    (void)offset;
    *(uint64_t *)to += length;
}

/* The filetype of this rank's view. */
static MPI_Datatype view(const struct job *job, MPI_Datatype record)
{
    int at[2], lengths[2], kinds[2], arguments[2], grid[2], cells = 1;
    int starts[2], sizes[2], cyclic = 0;
    MPI_Datatype type;
    if (job->dimensions == 0 || !coordinates(job, at)) {
        check(MPI_Type_dup(record, &type), "copy a type");
        return type;
    }
    for (int i = 0; i < job->dimensions; i++) {
        const struct dimension *d = &job->dimension[i];
        lengths[i] = (int)d->length;
        kinds[i] = d->distribution == 'b'   ? MPI_DISTRIBUTE_BLOCK
                   : d->distribution == 'c' ? MPI_DISTRIBUTE_CYCLIC
                                            : MPI_DISTRIBUTE_NONE;
        arguments[i] = MPI_DISTRIBUTE_DFLT_DARG;
        grid[i] = d->grid;
        cells *= d->grid;
        int block = d->distribution == 'b' ? (lengths[i] + d->grid - 1) / d->grid : lengths[i];
        starts[i] = at[i] * block;
        sizes[i] = lengths[i] - starts[i] < block ? lengths[i] - starts[i] : block;
        /* A darray can say that there is nothing, a subarray cannot. */
        cyclic |= d->distribution == 'c' || sizes[i] <= 0;
    }
    if (!cyclic) {
        check(MPI_Type_create_subarray(job->dimensions, lengths, sizes, starts, MPI_ORDER_C, record,
                                       &type),
              "make a subarray");
        return type;
    }
    check(MPI_Type_create_darray(cells, rank, job->dimensions, lengths, kinds, arguments, grid,
                                 MPI_ORDER_C, record, &type),
          "make a darray");
    return type;
}

static MPI_Info hints(const struct job *job)
{
    MPI_Info info;
    int collective = !strcmp(job->mode, "collective"), sieving = !strcmp(job->mode, "sieving");
    const char *sieve = collective ? "automatic" : sieving ? "enable" : "disable";
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", collective ? "enable" : "disable");
    MPI_Info_set(info, "romio_cb_read", collective ? "enable" : "disable");
    MPI_Info_set(info, "romio_ds_write", sieve);
    MPI_Info_set(info, "romio_ds_read", sieve);
    tune_romio(info);
    return info;
}

/* After a write: this rank's even share of the file, read by ordinary calls, or by MPI's where those do
 * not reach. */
static int share_is_right(const struct job *job)
{
    MPI_File ours = MPI_FILE_NULL;
    uint64_t from = job->bytes / 8 * rank / size * 8, to = job->bytes / 8 * (rank + 1) / size * 8;
    uint64_t chunk = 1 << 20;
    uint64_t *words = malloc(chunk);
    int file = is_ours(job->path) ? -1 : open(job->path, O_RDONLY), same = words != NULL;
    if (is_ours(job->path))
        check(MPI_File_open(MPI_COMM_SELF, job->path, MPI_MODE_RDONLY, MPI_INFO_NULL, &ours), job->path);
    for (uint64_t at = from; same && at < to; at += chunk) {
        uint64_t length = to - at < chunk ? to - at : chunk;
        struct comparison comparison = {words, job->seed, 1};
        memset(words, POISON, length);
        if (ours != MPI_FILE_NULL)
            check(MPI_File_read_at(ours, (MPI_Offset)at, words, (int)length, MPI_BYTE, MPI_STATUS_IGNORE), "check");
        if (ours == MPI_FILE_NULL && pread(file, words, length, (off_t)at) != (ssize_t)length)
            same = 0;
        else
            compare(&comparison, at, length), same = comparison.same;
    }
    free(words);
    if (ours != MPI_FILE_NULL)
        check(MPI_File_close(&ours), "close");
    else if (file >= 0)
        close(file);
    return same;
}

static void run(const struct job *job)
{
    MPI_Datatype record, type;
    MPI_File file;
    static void *buffer;
    static uint64_t room;
    uint64_t own = 0;
    walk(job, add, &own);
    if (own > room) {
        free(buffer);
        buffer = own >= LARGE ? aligned_alloc(LARGE, (own + LARGE - 1) / LARGE * LARGE) : malloc(own);
        if (own >= LARGE && getenv("PATTERNS_LARGE_PAGES"))
            madvise(buffer, own, MADV_HUGEPAGE);
        room = own;
    }
    if (own && !buffer)
        fail("no memory");
    if (job->op == 'w')
        walk(job, fill, &(struct filling){buffer, job->seed});
    else
        memset(buffer, POISON, own);
    check(MPI_Type_contiguous((int)(job->record / 8), MPI_UINT64_T, &record), "make a record");
    check(MPI_Type_commit(&record), "commit a record");
    type = view(job, record);
    check(MPI_Type_commit(&type), "commit a view");
    MPI_Info info = hints(job);
    check(MPI_File_open(MPI_COMM_WORLD, job->path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file), job->path);
    check(MPI_File_set_view(file, 0, record, type, "native", info), "set a view");
    get_ready();
    int together = !strcmp(job->mode, "collective"), count = (int)(own / job->record);
    MPI_Status status;
    if (job->op == 'w' && together)
        check(MPI_File_write_at_all(file, 0, buffer, count, record, &status), "write");
    else if (job->op == 'w')
        check(MPI_File_write_at(file, 0, buffer, count, record, &status), "write");
    else if (together)
        check(MPI_File_read_at_all(file, 0, buffer, count, record, &status), "read");
    else
        check(MPI_File_read_at(file, 0, buffer, count, record, &status), "read");
    get_done();
    check(MPI_File_close(&file), "close");
    MPI_Type_free(&type);
    MPI_Type_free(&record);
    MPI_Info_free(&info);
    struct comparison comparison = {buffer, job->seed, 1};
    if (job->op == 'r')
        walk(job, compare, &comparison);
    else
        comparison.same = share_is_right(job);
    answer(comparison.same ? "verified 1" : "verified 0");
}

int main(int argc, char **argv)
{
    struct job job;
    begin(&argc, &argv);
    while (read_job(&job))
        run(&job);
    MPI_Finalize();
    return 0;
}
