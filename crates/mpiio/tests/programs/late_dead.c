/* A process that the others wait for in a nonblocking collective computes for longer than TRIREME_TIMEOUT,
   and then dies, or is cut off the cluster: only that is an error for them.
   Arguments: file, the start of the names of files to make at the end, "dies" or "cut-off". */
#include "cut_off.h"
#include <signal.h>

static char bytes[1 << 16];

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = argv[1];
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset mine = (MPI_Offset)rank * sizeof bytes;
    MPI_Request request;
    if (rank == 1) {
        sleep(4);
        if (!strcmp(argv[3], "dies"))
            raise(SIGKILL);
        cut_off();
        wait_for_the_others(argv[2]);
    }
    double start = MPI_Wtime();
    OK(MPI_File_iwrite_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, &request));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_IO);
    CHECK(MPI_Wtime() - start > 3);
    OK(MPI_File_read_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    survived(argv[2]);
}
