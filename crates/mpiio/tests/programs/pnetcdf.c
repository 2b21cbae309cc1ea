/* PnetCDF: a variable of two dimensions and one of records, written by all, read back, compared. */
#include "check.h"
#include <pnetcdf.h>

#define NC(call)                                                             \
    do {                                                                     \
        int code_ = (call);                                                  \
        if (code_ != NC_NOERR) {                                             \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, rank, #call, \
                ncmpi_strerror(code_));                                      \
            MPI_Abort(MPI_COMM_WORLD, 1);                                    \
        }                                                                    \
    } while (0)

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int file, dims[2], records[2], plain, steps;
    double out[6][5], back[6][5];
    int row[5], row_back[5];
    NC(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    NC(ncmpi_def_dim(file, "y", 6, &dims[0]));
    NC(ncmpi_def_dim(file, "x", 5 * size, &dims[1]));
    NC(ncmpi_def_dim(file, "time", NC_UNLIMITED, &records[0]));
    records[1] = dims[1];
    NC(ncmpi_def_var(file, "plain", NC_DOUBLE, 2, dims, &plain));
    NC(ncmpi_def_var(file, "steps", NC_INT, 2, records, &steps));
    NC(ncmpi_enddef(file));
    MPI_Offset start[2] = { 0, 5 * rank }, count[2] = { 6, 5 };
    for (int i = 0; i < 30; i++)
        out[i / 5][i % 5] = rank * 100 + i;
    NC(ncmpi_put_vara_double_all(file, plain, start, count, &out[0][0]));
    for (int step = 0; step < 3; step++) {
        MPI_Offset at[2] = { step, 5 * rank }, one[2] = { 1, 5 };
        for (int i = 0; i < 5; i++)
            row[i] = step * 1000 + rank * 10 + i;
        NC(ncmpi_put_vara_int_all(file, steps, at, one, row));
    }
    NC(ncmpi_sync(file));
    NC(ncmpi_get_vara_double_all(file, plain, start, count, &back[0][0]));
    CHECK(!memcmp(out, back, sizeof out));
    MPI_Offset at[2] = { 2, 5 * rank }, one[2] = { 1, 5 };
    NC(ncmpi_get_vara_int_all(file, steps, at, one, row_back));
    CHECK(!memcmp(row, row_back, sizeof row));
    NC(ncmpi_close(file));
    if (argc > 2) {
        /* Again, as another program would: the library looks at the file by itself first. */
        memset(back, 0, sizeof back);
        NC(ncmpi_open(MPI_COMM_WORLD, path, NC_WRITE, MPI_INFO_NULL, &file));
        NC(ncmpi_inq_varid(file, "plain", &plain));
        NC(ncmpi_get_vara_double_all(file, plain, start, count, &back[0][0]));
        CHECK(!memcmp(out, back, sizeof out));
        NC(ncmpi_put_vara_double_all(file, plain, start, count, &out[0][0]));
        NC(ncmpi_close(file));
    }
    return finish();
}
