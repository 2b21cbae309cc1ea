/* The shape of the NAS benchmark BT-IO: a solution vector of five doubles per cell of a cube, of which
 * each process owns several blocks on the diagonals (multi-partitioning), with ghost cells around them
 * in memory. One step's vector is one item of `memory`, written through one copy of `filetype`.
 */
#include <mpi.h>
#include <stdint.h>
#include <string.h>

#define BT_SIDE 16
#define BT_GHOST 2
#define BT_CELL 40

struct bt {
    int side;
    /* Cells of each block along z, y and x, and the first word of each in memory. */
    int sizes[BT_SIDE][3];
    MPI_Aint bases[BT_SIDE];
    /* Bytes of memory with ghost cells; items of the view in one step. */
    MPI_Aint total;
    MPI_Offset each;
    MPI_Datatype filetype, memory;
};

/* The blocks of one process; 0 if the number of processes is no square, or too large. */
static int bt_make(struct bt *bt, int grid, int rank, int processes)
{
    MPI_Datatype cell, parts[BT_SIDE], memories[BT_SIDE];
    int ones[BT_SIDE], side = 1;
    MPI_Aint zeros[BT_SIDE], places[BT_SIDE];
    while (side * side < processes)
        side++;
    if (side * side != processes || side > BT_SIDE)
        return 0;
    bt->side = side;
    bt->total = 0;
    bt->each = 0;
    MPI_Type_contiguous(5, MPI_DOUBLE, &cell);
    /* One block per diagonal: in slab c along z, at ((row + c) mod side, (column + c) mod side). */
    int row = rank % side, column = rank / side;
    for (int c = 0; c < side; c++) {
        int where[3] = { c, (column + c) % side, (row + c) % side }, starts[3], padded[3];
        int full[3] = { grid, grid, grid }, inner[3] = { BT_GHOST, BT_GHOST, BT_GHOST };
        int *sizes = bt->sizes[c];
        for (int d = 0; d < 3; d++) {
            starts[d] = grid * where[d] / side;
            sizes[d] = grid * (where[d] + 1) / side - starts[d];
            padded[d] = sizes[d] + 2 * BT_GHOST;
        }
        MPI_Type_create_subarray(3, full, sizes, starts, MPI_ORDER_C, cell, &parts[c]);
        MPI_Type_create_subarray(3, padded, sizes, inner, MPI_ORDER_C, cell, &memories[c]);
        ones[c] = 1;
        zeros[c] = 0;
        places[c] = bt->total;
        bt->bases[c] = bt->total / 8;
        bt->total += (MPI_Aint)padded[0] * padded[1] * padded[2] * BT_CELL;
        bt->each += (MPI_Offset)sizes[0] * sizes[1] * sizes[2] * 5;
    }
    MPI_Type_create_struct(side, ones, zeros, parts, &bt->filetype);
    MPI_Type_create_struct(side, ones, places, memories, &bt->memory);
    MPI_Type_commit(&bt->filetype);
    MPI_Type_commit(&bt->memory);
    for (int c = 0; c < side; c++) {
        MPI_Type_free(&parts[c]);
        MPI_Type_free(&memories[c]);
    }
    MPI_Type_free(&cell);
    return 1;
}

static void bt_free(struct bt *bt)
{
    MPI_Type_free(&bt->filetype);
    MPI_Type_free(&bt->memory);
}

/* One step's vector, ghost cells included: every word tells process, step and place. */
static void bt_fill(const struct bt *bt, uint64_t *words, int rank, int step, uint64_t seed)
{
    uint64_t key = (uint64_t)(step + 1) << 40 | (uint64_t)rank << 32;
    for (MPI_Aint i = 0; i < bt->total / 8; i++)
        words[i] = (key + (uint64_t)i) * 0x9e3779b97f4a7c15ull + seed;
}

/* Whether a vector that was read into zeros is the one filled, and its ghost cells are still zero. */
static int bt_same(const struct bt *bt, const uint64_t *back, const uint64_t *words)
{
    for (int c = 0; c < bt->side; c++) {
        const int *n = bt->sizes[c];
        for (int z = 0; z < n[0]; z++)
            for (int y = 0; y < n[1]; y++) {
                MPI_Aint line = (MPI_Aint)(z + BT_GHOST) * (n[1] + 2 * BT_GHOST) + y + BT_GHOST;
                MPI_Aint at = bt->bases[c] + (line * (n[2] + 2 * BT_GHOST) + BT_GHOST) * 5;
                if (memcmp(back + at, words + at, (size_t)n[2] * BT_CELL))
                    return 0;
                if (back[at - 1] || back[at + n[2] * 5])
                    return 0;
            }
    }
    return 1;
}
