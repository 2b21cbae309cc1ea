/* A cluster that is not there is an error of the class for I/O, for all processes. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file;
    int code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_IO);
    CHECK(file == MPI_FILE_NULL);
    return finish();
}
