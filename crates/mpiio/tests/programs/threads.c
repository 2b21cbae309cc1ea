/* Threads of each process, each with a communicator and a file of its own, move bytes at the same time:
   nonblocking collectives that overlap with computing, blocking ones, and calls on a file they share. */
#include "check.h"
#include <pthread.h>

#define THREADS 3
#define ROUNDS 12
#define WORDS 5000

static MPI_Comm comms[THREADS];
static MPI_File shared;

struct work {
    int thread;
    char name[4096];
};

static int word(int thread, int round, int owner, int at)
{
    return ((thread * 131 + round) * 17 + owner) * WORDS + at;
}

static void *run(void *argument)
{
    struct work *work = argument;
    MPI_File file;
    MPI_Status status;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    OK(MPI_File_open(comms[work->thread], work->name, mode, MPI_INFO_NULL, &file));
    static __thread int out[WORDS], back[WORDS];
    double sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        MPI_Offset at = (MPI_Offset)rank * sizeof out;
        for (int i = 0; i < WORDS; i++)
            out[i] = word(work->thread, round, rank, i);
        if (round % 3 == 2) {
            OK(MPI_File_write_at_all(file, at, out, WORDS, MPI_INT, &status));
        } else {
            OK(MPI_File_iwrite_at_all(file, at, out, WORDS, MPI_INT, &request));
            for (int i = 1; i < 20000; i++)
                sum += 1.0 / i;
            OK(MPI_Wait(&request, &status));
        }
        CHECK(items(&status, MPI_INT) == WORDS);
        /* Another process's part: all have written. */
        int owner = (rank + round) % size;
        at = (MPI_Offset)owner * sizeof out;
        OK(MPI_File_iread_at_all(file, at, back, WORDS, MPI_INT, &request));
        /* On a file that all threads of all processes share, each at a place of its own. */
        int mine = word(work->thread, round, rank, 0), seen = -1;
        MPI_Offset own = (rank * THREADS + work->thread) * sizeof mine;
        OK(MPI_File_write_at(shared, own, &mine, 1, MPI_INT, &status));
        OK(MPI_File_read_at(shared, own, &seen, 1, MPI_INT, &status));
        CHECK(seen == mine);
        OK(MPI_Wait(&request, &status));
        CHECK(items(&status, MPI_INT) == WORDS);
        for (int i = 0; i < WORDS; i++)
            CHECK(back[i] == word(work->thread, round, owner, i));
        /* Nobody writes the next round before all have read this one. */
        OK(MPI_Barrier(comms[work->thread]));
    }
    CHECK(sum > 0);
    OK(MPI_File_close(&file));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = argv[1];
    if (provided < MPI_THREAD_MULTIPLE) {
        if (rank == 0)
            printf("this MPI has no MPI_THREAD_MULTIPLE\n");
        return finish();
    }
    shared = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    pthread_t threads[THREADS];
    struct work works[THREADS];
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        works[i].thread = i;
        snprintf(works[i].name, sizeof works[i].name, "%s.%d", path, i);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, run, &works[i]));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(MPI_File_close(&shared));
    return finish();
}
