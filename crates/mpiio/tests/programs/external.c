/* external32: big-endian in the file, with the sizes of the standard's table whatever this machine has. */
#include "check.h"
#include <stddef.h>
#include <wchar.h>

static MPI_File file;
static MPI_Status status;

/* The bytes of the file from `place` on. */
static unsigned char *raw(MPI_Offset place, int count)
{
    static unsigned char bytes[256];
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, place, bytes, count, MPI_BYTE, &status));
    CHECK(items(&status, MPI_BYTE) == count);
    return bytes;
}

/* Writes three numbers, each process at its own place, and compares the middle one's bytes. */
static void three(MPI_Datatype type, int here, const void *numbers, int there, const char *middle)
{
    static MPI_Offset page;
    MPI_Offset place = page += 4096;
    MPI_Aint extent;
    char again[48];
    place += 256 * rank;
    OK(MPI_File_set_view(file, place, type, type, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, type, &extent));
    CHECK(extent == there);
    OK(MPI_File_write_at_all(file, 0, numbers, 3, type, &status));
    CHECK(items(&status, type) == 3);
    OK(MPI_File_read_at_all(file, 0, again, 3, type, &status));
    CHECK(items(&status, type) == 3);
    if (type == MPI_LONG_DOUBLE) /* whose padding is nobody's */
        for (int i = 0; i < 3; i++)
            CHECK(((long double *)again)[i] == ((long double *)numbers)[i]);
    else
        CHECK(!memcmp(again, numbers, 3 * here));
    CHECK(!memcmp(raw(place + there, there), middle, there));
    MPI_Barrier(MPI_COMM_WORLD);
}

struct record {
    char letter;
    long number;
    double pair[2];
};

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);

    three(MPI_SHORT, sizeof(short), (short[]){ 1, -2, 3 }, 2, "\xff\xfe");
    three(MPI_INT, sizeof(int), (int[]){ 1, 0x01020304, 3 }, 4, "\1\2\3\4");
    three(MPI_LONG, sizeof(long), (long[]){ 5, -2, 0x01020304 }, 4, "\xff\xff\xff\xfe");
    three(MPI_UNSIGNED_LONG, sizeof(long), (unsigned long[]){ 5, 0xfffffffe, 0 }, 4, "\xff\xff\xff\xfe");
    three(MPI_LONG_LONG, sizeof(long long), (long long[]){ 5, -2, 7 }, 8, "\xff\xff\xff\xff\xff\xff\xff\xfe");
    three(MPI_WCHAR, sizeof(wchar_t), (wchar_t[]){ L'a', 0x20ac, L'b' }, 2, "\x20\xac");
    three(MPI_FLOAT, sizeof(float), (float[]){ 0, -1.5, 1e9 }, 4, "\xbf\xc0\0\0");
    three(MPI_DOUBLE, sizeof(double), (double[]){ 0, 1.5, 1e300 }, 8, "\x3f\xf8\0\0\0\0\0\0");
    three(MPI_LONG_DOUBLE, sizeof(long double), (long double[]){ 1, -1.5L, 1e4000L }, 16,
        "\xbf\xff\x80\0\0\0\0\0\0\0\0\0\0\0\0\0");
    three(MPI_2INT, 2 * sizeof(int), (int[]){ 1, 2, 3, 4, 5, 6 }, 8, "\0\0\0\3\0\0\0\4");

    /* structures with gaps, in memory and in the file; nonblocking and split as well */
    MPI_Datatype packed, type;
    MPI_Aint places[] = { offsetof(struct record, letter), offsetof(struct record, number), offsetof(struct record, pair) };
    OK(MPI_Type_create_struct(3, (int[]){ 1, 1, 2 }, places, (MPI_Datatype[]){ MPI_CHAR, MPI_LONG, MPI_DOUBLE }, &packed));
    OK(MPI_Type_create_resized(packed, 0, sizeof(struct record), &type));
    OK(MPI_Type_commit(&type));
    struct record records[2] = { { 'a' + rank, -rank - 1, { 0.5, 2.0 } }, { 'z', 77, { -1e10, rank } } }, back[2];
    OK(MPI_File_set_view(file, 200000 + 1000 * rank, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    MPI_Request request;
    OK(MPI_File_iwrite_at(file, 0, records, 2, type, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(items(&status, type) == 2);
    for (int way = 0; way < 3; way++) {
        memset(back, 0, sizeof back);
        if (way == 0) {
            OK(MPI_File_iread_at_all(file, 0, back, 2, type, &request));
            OK(MPI_Wait(&request, &status));
        } else if (way == 1) {
            OK(MPI_File_read_at_all_begin(file, 0, back, 2, type));
            OK(MPI_File_read_at_all_end(file, back, &status));
        } else
            OK(MPI_File_read_at(file, 0, back, 2, type, &status));
        CHECK(items(&status, type) == 2);
        for (int i = 0; i < 2; i++)
            CHECK(back[i].letter == records[i].letter && back[i].number == records[i].number
                && back[i].pair[0] == records[i].pair[0] && back[i].pair[1] == records[i].pair[1]);
    }
    unsigned char *bytes = raw(200000 + 1000 * rank, 42);
    CHECK(bytes[0] == 'a' + rank && bytes[1] == 0xff && bytes[4] == 0xff - rank && bytes[5] == 0x3f);
    CHECK(bytes[21] == 'z' && bytes[25] == 77);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&packed));

    /* a file type whose items are smaller there */
    MPI_Datatype sparse;
    long numbers[3] = { 5, -2, 0x01020304 }, numbers_again[3] = { 0 };
    MPI_Offset place;
    OK(MPI_Type_vector(3, 1, 2, MPI_LONG, &sparse));
    OK(MPI_Type_commit(&sparse));
    OK(MPI_File_set_view(file, 300000 + 64 * rank, MPI_LONG, sparse, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, numbers, 3, MPI_LONG, &status));
    CHECK(items(&status, MPI_LONG) == 3);
    OK(MPI_File_get_position(file, &place));
    CHECK(place == 3);
    OK(MPI_File_read_at_all(file, 0, numbers_again, 3, MPI_LONG, &status));
    CHECK(!memcmp(numbers, numbers_again, sizeof numbers));
    CHECK(!memcmp(raw(300000 + 64 * rank + 16, 4), "\1\2\3\4", 4));
    OK(MPI_Type_free(&sparse));

    /* a number that does not fit there: nothing is written */
    long large = 1L << 40, small = 9, found = 0;
    OK(MPI_File_set_view(file, 400000 + 4 * rank, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_at(file, 0, &small, 1, MPI_LONG, &status));
    CHECK(class_of(MPI_File_write_at(file, 0, &large, 1, MPI_LONG, &status)) == MPI_ERR_CONVERSION);
    OK(MPI_File_read_at(file, 0, &found, 1, MPI_LONG, &status));
    CHECK(found == small);

    OK(MPI_File_close(&file));
    return finish();
}
