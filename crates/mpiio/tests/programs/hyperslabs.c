/* Parallel HDF5 by its C library: hyperslabs of a contiguous and of a chunked dataset, written and read
   collectively and independently, gaps in memory included. */
#include "check.h"
#include <hdf5.h>

#define H5(call)                                                              \
    ({                                                                        \
        hid_t code_ = (call);                                                 \
        if (code_ < 0) {                                                      \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #call); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                     \
        }                                                                     \
        code_;                                                                \
    })

#define ROWS 24
#define COLUMNS 35

/* The value of a cell, for each dataset another. */
static int value(int row, int column, int which)
{
    return which * 1000000 + row * 1000 + column;
}

/* Rows rank, rank + size, ... of columns 3 to 33 in pairs with a gap: 10 blocks of 2, 3 apart. */
static hid_t mine_in_file(hid_t dataset)
{
    hid_t space = H5(H5Dget_space(dataset));
    hsize_t start[2] = { rank, 3 }, stride[2] = { size, 3 };
    hsize_t count[2] = { ROWS / size, 10 }, block[2] = { 1, 2 };
    H5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block));
    return space;
}

/* The same cells in memory, one column of rubbish before each row. */
static hid_t mine_in_memory(void)
{
    hsize_t shape[2] = { ROWS / size, 21 }, start[2] = { 0, 1 }, count[2] = { ROWS / size, 20 };
    hid_t space = H5(H5Screate_simple(2, shape, NULL));
    H5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    return space;
}

static hid_t way(H5FD_mpio_xfer_t how)
{
    hid_t list = H5(H5Pcreate(H5P_DATASET_XFER));
    H5(H5Pset_dxpl_mpio(list, how));
    return list;
}

static void cycle(hid_t file, const char *name, int which, hid_t creation, H5FD_mpio_xfer_t how)
{
    hsize_t shape[2] = { ROWS, COLUMNS };
    hid_t whole = H5(H5Screate_simple(2, shape, NULL));
    hid_t dataset = H5(H5Dcreate2(file, name, H5T_STD_I32BE, whole, H5P_DEFAULT, creation, H5P_DEFAULT));
    hid_t in_file = mine_in_file(dataset), in_memory = mine_in_memory(), list = way(how);
    int rows = ROWS / size, out[ROWS * 21], back[ROWS * 21];
    for (int i = 0; i < rows * 21; i++)
        out[i] = back[i] = -1;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < 20; i++)
            out[row * 21 + 1 + i] = value(rank + row * size, 3 + i / 2 * 3 + i % 2, which);
    H5(H5Dwrite(dataset, H5T_NATIVE_INT, in_memory, in_file, list, out));
    H5(H5Fflush(file, H5F_SCOPE_GLOBAL));
    H5(H5Dread(dataset, H5T_NATIVE_INT, in_memory, in_file, list, back));
    CHECK(!memcmp(out, back, rows * 21 * sizeof(int)));
    H5Pclose(list);
    H5Sclose(in_memory);
    H5Sclose(in_file);
    H5Sclose(whole);
    H5Dclose(dataset);
}

/* Everybody reads everything: what was selected has its value, the rest was filled. */
static void all_of(hid_t file, const char *name, int which)
{
    int back[ROWS][COLUMNS];
    hid_t dataset = H5(H5Dopen2(file, name, H5P_DEFAULT)), list = way(H5FD_MPIO_COLLECTIVE);
    H5(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, list, back));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int written = column >= 3 && column < 33 && column % 3 != 2;
            CHECK(back[row][column] == (written ? value(row, column, which) : -7));
        }
    H5Pclose(list);
    H5Dclose(dataset);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(ROWS % size == 0);
    int fill = -7;
    hsize_t chunk[2] = { 5, 8 };
    hid_t access = H5(H5Pcreate(H5P_FILE_ACCESS));
    H5(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t contiguous = H5(H5Pcreate(H5P_DATASET_CREATE)), chunked;
    H5(H5Pset_obj_track_times(contiguous, 0));
    H5(H5Pset_fill_value(contiguous, H5T_NATIVE_INT, &fill));
    H5(H5Pset_alloc_time(contiguous, H5D_ALLOC_TIME_EARLY));
    chunked = H5(H5Pcopy(contiguous));
    H5(H5Pset_chunk(chunked, 2, chunk));
    hid_t file = H5(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    cycle(file, "contiguous", 1, contiguous, H5FD_MPIO_COLLECTIVE);
    cycle(file, "contiguous-alone", 2, contiguous, H5FD_MPIO_INDEPENDENT);
    cycle(file, "chunked", 3, chunked, H5FD_MPIO_COLLECTIVE);
    cycle(file, "chunked-alone", 4, chunked, H5FD_MPIO_INDEPENDENT);
    H5(H5Fclose(file));
    file = H5(H5Fopen(path, H5F_ACC_RDONLY, access));
    all_of(file, "contiguous", 1);
    all_of(file, "contiguous-alone", 2);
    all_of(file, "chunked", 3);
    all_of(file, "chunked-alone", 4);
    H5(H5Fclose(file));
    H5Pclose(access);
    H5Pclose(contiguous);
    H5Pclose(chunked);
    return finish();
}
