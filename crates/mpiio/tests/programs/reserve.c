/* Reserves space and writes nothing; the test looks at what is stored. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_WRONLY);
    MPI_Offset bytes;
    OK(MPI_File_preallocate(file, 8 << 20));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 8 << 20);
    /* Shorter: the file stays as long as it is. */
    OK(MPI_File_preallocate(file, 1000));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 8 << 20);
    /* More than any disk has: an error, and nothing changed. */
    CHECK(class_of(MPI_File_preallocate(file, 1LL << 44)) == MPI_ERR_NO_SPACE);
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 8 << 20);
    OK(MPI_File_close(&file));
    return finish();
}
