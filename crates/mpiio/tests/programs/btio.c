/* The shape of the NAS benchmark BT-IO, written step by step, collectively, then read back and compared.
   Arguments: file, grid size, steps. The number of processes is a square. */
#include "check.h"
#include "../../../cli/mpi/bt.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int grid = atoi(argv[2]), steps = atoi(argv[3]);
    struct bt bt;
    CHECK(bt_make(&bt, grid, rank, size));
    uint64_t *words = malloc(bt.total), *back = malloc(bt.total);
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 0, MPI_DOUBLE, bt.filetype, "native", MPI_INFO_NULL));
    for (int step = 0; step < steps; step++) {
        bt_fill(&bt, words, rank, step, 7);
        OK(MPI_File_write_at_all(file, step * bt.each, words, 1, bt.memory, MPI_STATUS_IGNORE));
    }
    for (int step = 0; step < steps; step++) {
        bt_fill(&bt, words, rank, step, 7);
        memset(back, 0, bt.total);
        OK(MPI_File_read_at_all(file, step * bt.each, back, 1, bt.memory, MPI_STATUS_IGNORE));
        CHECK(bt_same(&bt, back, words));
    }
    MPI_Offset length;
    OK(MPI_File_get_size(file, &length));
    CHECK(length == (MPI_Offset)grid * grid * grid * BT_CELL * steps);
    OK(MPI_File_close(&file));
    bt_free(&bt);
    return finish();
}
