/* The MPI program of `trireme bench btio`: the I/O of BT-IO ("full MPI-IO") through whatever MPI-IO it
 * is run with: trireme's library, ROMIO or OMPIO.
 *
 *   job PATH GRID STEPS SEED
 *   -> ready PID              the file is new and open, view and buffers are prepared
 *   go
 *   -> done                   all steps are written, the file closed, opened again, read and compared
 *   check
 *   -> verified 1 WRITE READ  this rank's seconds in the collective writes and the close after them,
 *                             and in the collective reads
 *
 * As BT-IO does, it makes the vector of a step, writes it, makes the next: between two calls the
 * processes meet, so that a rank's time in a call is not another's time in computing.
 */
#include "squad.h"
#include "bt.h"

static MPI_File opened(const char *path, int mode, const struct bt *bt)
{
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    tune_romio(info);
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, info, &file), path);
    check(MPI_File_set_view(file, 0, MPI_DOUBLE, bt->filetype, "native", info), "set a view");
    MPI_Info_free(&info);
    return file;
}

static double now_together(void)
{
    meet();
    return MPI_Wtime();
}

static void run(const char *path, int grid, int steps, uint64_t seed)
{
    struct bt bt;
    char line[128];
    int same = 1;
    double start, writing = 0, reading = 0;
    if (!bt_make(&bt, grid, rank, size))
        fail("BT needs a square number of processes");
    uint64_t *words = malloc(bt.total), *back = malloc(bt.total);
    if (!words || !back)
        fail("no memory");
    memset(words, 0, bt.total);
    memset(back, 0, bt.total);
    if (rank == 0)
        MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File file = opened(path, MPI_MODE_CREATE | MPI_MODE_RDWR, &bt);
    get_ready();
    for (int step = 0; step < steps; step++) {
        bt_fill(&bt, words, rank, step, seed);
        start = now_together();
        check(MPI_File_write_at_all(file, step * bt.each, words, 1, bt.memory, MPI_STATUS_IGNORE), "write");
        writing += MPI_Wtime() - start;
    }
    start = now_together();
    check(MPI_File_close(&file), "close");
    writing += MPI_Wtime() - start;
    file = opened(path, MPI_MODE_RDONLY, &bt);
    for (int step = 0; step < steps; step++) {
        bt_fill(&bt, words, rank, step, seed);
        memset(back, 0, bt.total);
        start = now_together();
        check(MPI_File_read_at_all(file, step * bt.each, back, 1, bt.memory, MPI_STATUS_IGNORE), "read");
        reading += MPI_Wtime() - start;
        same &= bt_same(&bt, back, words);
    }
    get_done();
    MPI_Offset length;
    check(MPI_File_get_size(file, &length), "size");
    same &= length == (MPI_Offset)grid * grid * grid * BT_CELL * steps;
    check(MPI_File_close(&file), "close");
    if (rank == 0)
        check(MPI_File_delete(path, MPI_INFO_NULL), "delete");
    free(words);
    free(back);
    bt_free(&bt);
    snprintf(line, sizeof line, "verified %d %.9f %.9f", same, writing, reading);
    answer(line);
}

int main(int argc, char **argv)
{
    char line[8192], path[4096];
    int grid, steps;
    uint64_t seed;
    begin(&argc, &argv);
    while (fgets(line, sizeof line, jobs)) {
        if (sscanf(line, "job %4095s %d %d %lu", path, &grid, &steps, &seed) != 4)
            fail("a job cannot be read");
        run(path, grid, steps, seed);
    }
    MPI_Finalize();
    return 0;
}
