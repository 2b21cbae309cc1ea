/* An I/O server goes away while the file is open: every way to move bytes is an error then, for all
   processes, and none hangs. Arguments: file, a file to make when ready, a file to wait for. */
#include "check.h"
#include <unistd.h>

static char bytes[1 << 20];

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Request request;
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset mine = (MPI_Offset)rank * sizeof bytes;
    OK(MPI_File_write_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fclose(fopen(argv[2], "w"));
        while (access(argv[3], F_OK))
            usleep(10000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int code = MPI_File_write_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_IO);
    code = MPI_File_read_at(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_IO);
    OK(MPI_File_iwrite_at(file, mine, bytes, sizeof bytes, MPI_BYTE, &request));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS);
    MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    return finish();
}
