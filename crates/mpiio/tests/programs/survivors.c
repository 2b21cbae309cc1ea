/* A process dies, and its launcher lets the others live: the collective that they are in is an error by
   the file's handler, so is the next one, at once; what each does alone still works.
   Arguments: file, the start of the names of files to make at the end. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

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
    if (rank == 1)
        raise(SIGKILL);
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
    printf("rank %d survived\n", rank);
    fflush(stdout);
    /* MPI_Finalize would wait for the dead one, and a launcher may end all when one ends without it. */
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank);
    fclose(fopen(name, "w"));
    for (int other = 0; other < size; other++) {
        snprintf(name, sizeof name, "%s.%d", argv[2], other);
        while (other != 1 && access(name, F_OK))
            usleep(10000);
    }
    _exit(0);
}
