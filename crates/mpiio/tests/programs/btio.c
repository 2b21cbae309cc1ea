/* The shape of the NAS benchmark BT-IO: a solution vector of five doubles per cell of a cube, of which
   each process owns several blocks on the diagonals (multi-partitioning), with ghost cells around them
   in memory. Written step by step, collectively, then read back and compared.
   Arguments: file, grid size, steps. The number of processes is a square. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int grid = atoi(argv[2]), steps = atoi(argv[3]);
    int side = 1;
    while (side * side < size)
        side++;
    CHECK(side * side == size);
    int row = rank % side, column = rank / side, ghost = 2;

    /* One block per diagonal: in slab c along z, at ((row + c) mod side, (column + c) mod side). */
    MPI_Datatype cell, parts[16], memories[16], filetype, memory;
    OK(MPI_Type_contiguous(5, MPI_DOUBLE, &cell));
    CHECK(side <= 16);
    int ones[16];
    MPI_Aint zeros[16], places[16], total = 0, bases[16];
    int starts[16][3], sizes[16][3];
    for (int c = 0; c < side; c++) {
        int where[3] = { c, (column + c) % side, (row + c) % side };
        int full[3] = { grid, grid, grid }, padded[3], inner[3] = { ghost, ghost, ghost };
        for (int d = 0; d < 3; d++) {
            starts[c][d] = grid * where[d] / side;
            sizes[c][d] = grid * (where[d] + 1) / side - starts[c][d];
            padded[d] = sizes[c][d] + 2 * ghost;
        }
        OK(MPI_Type_create_subarray(3, full, sizes[c], starts[c], MPI_ORDER_C, cell, &parts[c]));
        OK(MPI_Type_create_subarray(3, padded, sizes[c], inner, MPI_ORDER_C, cell, &memories[c]));
        ones[c] = 1;
        zeros[c] = 0;
        places[c] = total;
        bases[c] = total / 8;
        total += (MPI_Aint)padded[0] * padded[1] * padded[2] * 40;
    }
    OK(MPI_Type_create_struct(side, ones, zeros, parts, &filetype));
    OK(MPI_Type_create_struct(side, ones, places, memories, &memory));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_Type_commit(&memory));

    double *u = malloc(total), *back = malloc(total);
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 0, MPI_DOUBLE, filetype, "native", MPI_INFO_NULL));
    MPI_Offset each = 0;
    for (int c = 0; c < side; c++)
        each += (MPI_Offset)sizes[c][0] * sizes[c][1] * sizes[c][2] * 5;
    double clock = 0;
    for (int step = 0; step < steps; step++) {
        for (MPI_Aint i = 0; i < total / 8; i++)
            u[i] = step * 1e6 + rank * 1e5 + i;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        OK(MPI_File_write_at_all(file, step * each, u, 1, memory, MPI_STATUS_IGNORE));
        clock += MPI_Wtime() - start;
    }
    for (int step = 0; step < steps; step++) {
        for (MPI_Aint i = 0; i < total / 8; i++)
            u[i] = step * 1e6 + rank * 1e5 + i;
        memset(back, 0, total);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        OK(MPI_File_read_at_all(file, step * each, back, 1, memory, MPI_STATUS_IGNORE));
        clock += MPI_Wtime() - start;
        for (int c = 0; c < side; c++) {
            int *n = sizes[c];
            for (int z = 0; z < n[0]; z++)
                for (int y = 0; y < n[1]; y++) {
                    MPI_Aint at = bases[c] + (((MPI_Aint)(z + ghost) * (n[1] + 2 * ghost) + y + ghost)
                        * (n[2] + 2 * ghost) + ghost) * 5;
                    CHECK(!memcmp(back + at, u + at, n[2] * 40));
                    CHECK(back[at - 1] == 0 && back[at + n[2] * 5] == 0);
                }
        }
    }
    MPI_Offset length;
    OK(MPI_File_get_size(file, &length));
    CHECK(length == (MPI_Offset)grid * grid * grid * 40 * steps);
    OK(MPI_File_close(&file));
    double longest;
    MPI_Reduce(&clock, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d^3 cells, %d steps, %d processes: %.3f s of I/O, %.1f MB/s\n", grid, steps, size,
            longest, 2.0 * length / longest / 1e6);
    return finish();
}
