/* Every way to read and write: places, company, nonblocking, split, shared, ordered. */
#include "check.h"

#define N 1000

static int out[N], in[N];

static void fill(int seed)
{
    for (int i = 0; i < N; i++) {
        out[i] = seed * 1000003 + rank * 7919 + i;
        in[i] = -1;
    }
}

static void same(void)
{
    CHECK(!memcmp(in, out, sizeof in));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Status status;
    MPI_Request request, two[2];
    MPI_Offset place, mine = (MPI_Offset)rank * N;
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));

    /* explicit offsets */
    fill(1);
    OK(MPI_File_write_at(file, mine, out, N, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == N);
    OK(MPI_File_read_at(file, mine, in, N, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == N);
    same();
    fill(2);
    OK(MPI_File_write_at_all(file, mine, out, N, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == N);
    OK(MPI_File_read_at_all(file, mine, in, N, MPI_INT, MPI_STATUS_IGNORE));
    same();

    /* individual pointers, different sizes, none */
    fill(3);
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_write(file, out, N / 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write_all(file, out + N / 2, rank % 2 ? N / 2 : 0, MPI_INT, MPI_STATUS_IGNORE));
    if (rank % 2 == 0)
        OK(MPI_File_write(file, out + N / 2, N / 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_get_position(file, &place));
    CHECK(place == mine + N);
    OK(MPI_File_seek(file, -N, MPI_SEEK_CUR));
    OK(MPI_File_read(file, in, N / 4, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_all(file, in + N / 4, N - N / 4, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == N - N / 4);
    same();
    OK(MPI_File_get_byte_offset(file, 17, &place));
    CHECK(place == 17 * 4);
    MPI_Barrier(MPI_COMM_WORLD);

    /* the end of the file */
    OK(MPI_File_seek(file, -1, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &place));
    CHECK(place == (MPI_Offset)size * N - 1);
    OK(MPI_File_read(file, in, N, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == 1);
    OK(MPI_File_read(file, in, N, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == 0);
    OK(MPI_File_read_at_all(file, (MPI_Offset)size * N - 3, in, N, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == 3);

    /* nonblocking */
    fill(4);
    OK(MPI_File_iwrite_at(file, mine, out, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(items(&status, MPI_INT) == N);
    OK(MPI_File_iread_at(file, mine, in, N, MPI_INT, &request));
    int done = 0;
    while (!done)
        OK(MPI_Test(&request, &done, &status));
    CHECK(items(&status, MPI_INT) == N);
    same();
    fill(5);
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_iwrite(file, out, N / 2, MPI_INT, &two[0]));
    OK(MPI_File_iwrite(file, out + N / 2, N / 2, MPI_INT, &two[1]));
    OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_iread(file, in, N, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    same();
    fill(6);
    OK(MPI_File_iwrite_at_all(file, mine, out, N / 2, MPI_INT, &two[0]));
    OK(MPI_File_iwrite_at_all(file, mine + N / 2, out + N / 2, N / 2, MPI_INT, &two[1]));
    OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
    OK(MPI_File_iread_at_all(file, mine, in, N, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(items(&status, MPI_INT) == N);
    same();
    fill(7);
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_iwrite_all(file, out, N, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_iread_all(file, in, N, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    same();

    /* split collectives */
    fill(8);
    OK(MPI_File_write_at_all_begin(file, mine, out, N, MPI_INT));
    CHECK(MPI_File_write_all_begin(file, out, N, MPI_INT) != MPI_SUCCESS);
    CHECK(MPI_File_read_at_all_end(file, in, &status) != MPI_SUCCESS);
    OK(MPI_File_write_at_all_end(file, out, &status));
    CHECK(items(&status, MPI_INT) == N);
    CHECK(MPI_File_write_at_all_end(file, out, &status) != MPI_SUCCESS);
    OK(MPI_File_read_at_all_begin(file, mine, in, N, MPI_INT));
    OK(MPI_File_read_at_all_end(file, in, &status));
    CHECK(items(&status, MPI_INT) == N);
    same();
    fill(9);
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_write_all_begin(file, out, N, MPI_INT));
    OK(MPI_File_write_all_end(file, out, &status));
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(file, in, N, MPI_INT));
    OK(MPI_File_read_all_end(file, in, &status));
    same();

    /* the shared pointer: everybody gets a block of its own */
    int one = rank + 1, sum = 0, expected = 0;
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < 5; i++)
        OK(MPI_File_write_shared(file, &one, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &place));
    CHECK(place == 5 * size);
    OK(MPI_File_read_at(file, 0, in, 5 * size, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5 * size; i++)
        sum += in[i];
    for (int i = 0; i < size; i++)
        expected += 5 * (i + 1);
    CHECK(sum == expected);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_iread_shared(file, &one, 1, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(one >= 1 && one <= size);
    MPI_Barrier(MPI_COMM_WORLD);

    /* in the order of ranks, each with another size */
    fill(10);
    OK(MPI_File_seek_shared(file, 3, MPI_SEEK_SET));
    OK(MPI_File_write_ordered(file, out, rank + 1, MPI_INT, &status));
    CHECK(items(&status, MPI_INT) == rank + 1);
    OK(MPI_File_write_ordered_begin(file, out, 1, MPI_INT));
    OK(MPI_File_write_ordered_end(file, out, &status));
    OK(MPI_File_get_position_shared(file, &place));
    CHECK(place == 3 + size * (size + 1) / 2 + size);
    OK(MPI_File_read_at(file, 3 + rank * (rank + 1) / 2, in, rank + 1, MPI_INT, &status));
    CHECK(!memcmp(in, out, (rank + 1) * sizeof(int)));
    OK(MPI_File_seek_shared(file, 3, MPI_SEEK_SET));
    in[0] = -1;
    OK(MPI_File_read_ordered(file, in, rank + 1, MPI_INT, &status));
    CHECK(!memcmp(in, out, (rank + 1) * sizeof(int)));
    OK(MPI_File_read_ordered_begin(file, in, 1, MPI_INT));
    OK(MPI_File_read_ordered_end(file, in, &status));
    CHECK(in[0] == out[0]);

    /* atomic mode: one of the overlapping writes wins as a whole */
    int flag;
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag);
    for (int i = 0; i < N; i++)
        out[i] = rank;
    OK(MPI_File_write_at_all(file, 0, out, N, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 0, in, N, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 1; i < N; i++)
        CHECK(in[i] == in[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_sync(file));

    /* sequential files have only the shared pointer */
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    CHECK(class_of(MPI_File_read_at(file, 0, in, 1, MPI_INT, &status)) == MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_read_shared(file, in, 1, MPI_INT, &status));
    OK(MPI_File_close(&file));

    /* a file for each process, then what the next rank wrote, in its file and in the shared one */
    char own[4096];
    int next = (rank + 1) % size;
    fill(11);
    snprintf(own, sizeof own, "%s.%d", path, rank);
    OK(MPI_File_open(MPI_COMM_SELF, own, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at_all(file, 0, out, sizeof out, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDWR);
    OK(MPI_File_write_at_all(file, mine * 4, out, sizeof out, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        out[i] = 11 * 1000003 + next * 7919 + i;
    OK(MPI_File_read_at(file, (MPI_Offset)next * sizeof in, in, sizeof in, MPI_BYTE, &status));
    same();
    OK(MPI_File_close(&file));
    snprintf(own, sizeof own, "%s.%d", path, next);
    OK(MPI_File_open(MPI_COMM_SELF, own, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    memset(in, 0, sizeof in);
    OK(MPI_File_read_at_all(file, 0, in, sizeof in, MPI_BYTE, &status));
    same();
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_delete(own, MPI_INFO_NULL));
    return finish();
}
