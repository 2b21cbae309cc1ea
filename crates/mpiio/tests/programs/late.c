/* Rank 0 calls a collective, and the others compute for a while before they do: longer than TRIREME_TIMEOUT,
   which the test makes short. Before they come they send rank 0 a message, which it must take meanwhile. */
#include "check.h"
#include <unistd.h>

#define COUNT 30000
#define LONG (1 << 20) /* too long a message to be sent before it is taken */

static int mine[COUNT], back[COUNT];
static char message[LONG];
static MPI_Request taking;

static MPI_File named(const char *end)
{
    char name[4096];
    MPI_File file;
    snprintf(name, sizeof name, "%s.%s", path, end);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    return file;
}

static void fill(int round)
{
    for (int i = 0; i < COUNT; i++)
        mine[i] = round * 1000000 + rank * COUNT + i;
}

/* What the rank after this one wrote in a round. */
static void check(int round)
{
    for (int i = 0; i < COUNT; i++)
        CHECK(back[i] == round * 1000000 + (rank + 1) % size * COUNT + i);
    memset(back, 0, sizeof back);
}

static void compute(int seconds)
{
    if (rank == 1)
        OK(MPI_Ssend(message, LONG, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
    if (rank > 0)
        sleep(seconds);
}

static void before(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    taking = MPI_REQUEST_NULL;
    if (rank == 0)
        OK(MPI_Irecv(message, LONG, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &taking));
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, getenv("LATE_ALONE") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = argv[1];
    MPI_File written = named("written"), read = named("read");
    MPI_Offset at = (MPI_Offset)rank * sizeof mine, next = (MPI_Offset)((rank + 1) % size) * sizeof mine;
    MPI_Request requests[2];
    MPI_Status status;
    fill(0);
    OK(MPI_File_write_at_all(read, at, mine, COUNT, MPI_INT, MPI_STATUS_IGNORE));

    /* Two at once, on two files, each waited for. */
    before();
    compute(5);
    fill(1);
    OK(MPI_File_iwrite_at_all(written, at, mine, COUNT, MPI_INT, &requests[0]));
    OK(MPI_File_iread_at_all(read, next, back, COUNT, MPI_INT, &requests[1]));
    OK(MPI_Wait(&requests[0], &status));
    CHECK(items(&status, MPI_INT) == COUNT);
    OK(MPI_Wait(&requests[1], &status));
    CHECK(items(&status, MPI_INT) == COUNT);
    check(0);
    OK(MPI_Wait(&taking, MPI_STATUS_IGNORE));

    /* Both on one file, one after the other, waited for together. */
    before();
    compute(3);
    fill(2);
    OK(MPI_File_seek(written, at, MPI_SEEK_SET));
    OK(MPI_File_iwrite_all(written, mine, COUNT, MPI_INT, &requests[0]));
    OK(MPI_File_iread_at_all(written, next, back, COUNT, MPI_INT, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check(2);
    OK(MPI_Wait(&taking, MPI_STATUS_IGNORE));

    /* One that blocks behind one that does not. */
    before();
    compute(3);
    OK(MPI_File_iwrite_at_all(written, at, mine, COUNT, MPI_INT, &requests[0]));
    OK(MPI_File_read_at_all(written, next, back, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    check(2);
    OK(MPI_Wait(&taking, MPI_STATUS_IGNORE));

    /* The others come because the first has told them that it has begun. */
    before();
    fill(4);
    if (rank > 0)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite_at_all(written, at, mine, COUNT, MPI_INT, &requests[0]));
    for (int other = 1; rank == 0 && other < size; other++)
        OK(MPI_Send(NULL, 0, MPI_BYTE, other, 1, MPI_COMM_WORLD));
    compute(0);
    for (int done = 0; !done;)
        OK(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&taking, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(written, next, back, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    check(4);

    /* A split one. */
    before();
    compute(3);
    fill(3);
    OK(MPI_File_write_at_all_begin(written, at, mine, COUNT, MPI_INT));
    OK(MPI_File_write_at_all_end(written, mine, &status));
    CHECK(items(&status, MPI_INT) == COUNT);
    OK(MPI_Wait(&taking, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(written, next, back, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    check(3);
    OK(MPI_File_close(&written));
    OK(MPI_File_close(&read));
    return finish();
}
