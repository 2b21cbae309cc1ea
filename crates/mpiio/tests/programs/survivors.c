/* A process dies, and its launcher lets the others live, or it is cut off the cluster: the collective that they are in is an error by
   the file's handler, so is the next one, at once; what each does alone still works.
   Arguments: file, the start of the names of files to make at the end, "dies" or "cut-off". */
#include "cut_off.h"
#include <signal.h>

static char bytes[1 << 16];
static int handled;

static void handle(MPI_File *file, int *code, ...)
{
    (void)file;
    (void)code;
    handled++;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Errhandler handler;
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset mine = (MPI_Offset)rank * sizeof bytes;
    OK(MPI_File_create_errhandler(handle, &handler));
    OK(MPI_File_set_errhandler(file, handler));
    OK(MPI_File_write_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && !strcmp(argv[3], "dies"))
        raise(SIGKILL);
    if (rank == 1) {
        cut_off();
        wait_for_the_others(argv[2]);
    }
    int code = MPI_File_write_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_IO);
    CHECK(handled == 1);
    double start = MPI_Wtime();
    code = MPI_File_read_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_IO);
    CHECK(handled == 2 && MPI_Wtime() - start < 10);
    OK(MPI_File_read_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    survived(argv[2]);
}
