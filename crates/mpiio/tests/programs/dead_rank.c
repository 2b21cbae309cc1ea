/* A process dies before a collective that the others are in. */
#include "check.h"
#include <signal.h>

static char bytes[1 << 20];

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset mine = (MPI_Offset)rank * sizeof bytes;
    OK(MPI_File_write_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    if (rank == 1)
        raise(SIGKILL);
    MPI_File_write_at_all(file, mine, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    return finish();
}
