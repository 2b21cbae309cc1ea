/* Views and buffers of all kinds of types, collective and alone, against a model kept in memory: all
   processes write through their views into one file, read it back, and rank 0 compares the file with
   what MPI_Pack says should be there. */
#include "check.h"

#define BYTES (1 << 16)

static unsigned char model[BYTES], got[BYTES], buffer[BYTES], back[BYTES], packed[BYTES];

/* Types for this process; every process's bytes are apart from the others'. */
static MPI_Datatype filetype(int kind)
{
    MPI_Datatype type, inner, other;
    switch (kind) {
    case 0: { /* every size-th block of 3 ints */
        OK(MPI_Type_vector(5, 3, 3 * size, MPI_INT, &inner));
        OK(MPI_Type_create_resized(inner, 0, 15 * size * 4, &type));
        OK(MPI_Type_free(&inner));
        break;
    }
    case 1: { /* a block of a matrix of doubles */
        int sizes[2] = { 8, 6 * size }, sub[2] = { 8, 6 }, starts[2] = { 0, 6 * rank };
        OK(MPI_Type_create_subarray(2, sizes, sub, starts, MPI_ORDER_C, MPI_DOUBLE, &type));
        break;
    }
    case 2: { /* the same in Fortran's order */
        int sizes[2] = { 6 * size, 8 }, sub[2] = { 6, 8 }, starts[2] = { 6 * rank, 0 };
        OK(MPI_Type_create_subarray(2, sizes, sub, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type));
        break;
    }
    case 3: { /* a distributed array, block by cyclic */
        int sizes[2] = { 12, 4 * size }, how[2] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC };
        int args[2] = { MPI_DISTRIBUTE_DFLT_DARG, 2 }, grid[2] = { 1, size };
        OK(MPI_Type_create_darray(size, rank, 2, sizes, how, args, grid, MPI_ORDER_C, MPI_INT, &type));
        break;
    }
    case 4: { /* irregular blocks, shifted by rank */
        int lengths[4] = { 2, 1, 5, 3 }, places[4] = { 0, 4, 7, 14 };
        OK(MPI_Type_indexed(4, lengths, places, MPI_SHORT, &inner));
        MPI_Aint place = rank * 40;
        int one = 1;
        OK(MPI_Type_create_hindexed(1, &one, &place, inner, &other));
        OK(MPI_Type_create_resized(other, 0, 40 * size, &type));
        OK(MPI_Type_free(&inner));
        OK(MPI_Type_free(&other));
        break;
    }
    case 5: { /* a structure of structures, padded by MPI */
        int lengths[2] = { 1, 1 };
        MPI_Aint places[2] = { 0, 8 };
        MPI_Datatype parts[2] = { MPI_DOUBLE, MPI_INT };
        OK(MPI_Type_create_struct(2, lengths, places, parts, &inner));
        OK(MPI_Type_contiguous(3, inner, &other));
        places[0] = rank * 64;
        OK(MPI_Type_create_hindexed(1, lengths, places, other, &parts[0]));
        OK(MPI_Type_create_resized(parts[0], 0, 64 * size, &type));
        OK(MPI_Type_free(&inner));
        OK(MPI_Type_free(&other));
        OK(MPI_Type_free(&parts[0]));
        break;
    }
    default: { /* blocks of one length */
        int places[3] = { 0, 5, 9 };
        OK(MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &inner));
        MPI_Aint place = rank * 64;
        OK(MPI_Type_create_hindexed_block(1, 1, &place, inner, &other));
        OK(MPI_Type_create_resized(other, 0, 64 * size, &type));
        OK(MPI_Type_free(&inner));
        OK(MPI_Type_free(&other));
        break;
    }
    }
    OK(MPI_Type_commit(&type));
    return type;
}

/* Types for memory of which `count` hold `bytes` bytes (a multiple of 240). */
static MPI_Datatype memtype(int kind, int bytes, int *count)
{
    MPI_Datatype type, inner;
    switch (kind) {
    case 0:
        *count = bytes;
        return MPI_BYTE;
    case 1: /* gaps */
        *count = bytes / 20;
        OK(MPI_Type_vector(5, 4, 7, MPI_BYTE, &type));
        break;
    case 2: { /* backwards, with a bound below 0 */
        *count = bytes / 12;
        int lengths[2] = { 2, 1 }, places[2] = { 2, -1 };
        OK(MPI_Type_indexed(2, lengths, places, MPI_INT, &type));
        break;
    }
    default: /* items that reach into each other's gaps */
        *count = bytes / 8;
        OK(MPI_Type_create_hvector(2, 1, bytes / 2 + 8, MPI_INT, &inner));
        OK(MPI_Type_create_resized(inner, 0, 4, &type));
        OK(MPI_Type_free(&inner));
        break;
    }
    OK(MPI_Type_commit(&type));
    return type;
}

static void put_in_model(MPI_Datatype file, int displacement, int at, const unsigned char *data, int bytes)
{
    /* Which places the view's bytes have: unpack numbers through the type. */
    int unit, tiles, position = 0;
    MPI_Aint lower, extent;
    MPI_Type_size(file, &unit);
    MPI_Type_get_extent(file, &lower, &extent);
    tiles = (at + bytes + unit - 1) / unit;
    for (int byte = 0; byte < at + bytes; byte++)
        packed[byte] = byte >= at;
    memset(packed + at + bytes, 0, tiles * unit - at - bytes);
    /* Mark, then fill in order: the view's order is the file's here. */
    memset(got, 0, sizeof got);
    MPI_Unpack(packed, tiles * unit, &position, got, tiles, file, MPI_COMM_SELF);
    int next = 0;
    for (int place = 0; place < BYTES - displacement; place++)
        if (got[place])
            model[displacement + place] = data[next++];
    CHECK(next == bytes);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Status status;
    char representation[MPI_MAX_DATAREP_STRING];
    int bytes = 480;
    for (int fkind = 0; fkind < 7; fkind++)
        for (int mkind = 0; mkind < 4; mkind++)
            for (int together = 0; together < 2; together++) {
                MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
                OK(MPI_File_set_size(file, 0));
                MPI_Datatype ftype = filetype(fkind), copy;
                int displacement = 16 * fkind + (fkind == 0 ? 12 * rank : 0), count, unit;
                MPI_Type_size(ftype, &unit);
                OK(MPI_File_set_view(file, displacement, MPI_BYTE, ftype, "native", MPI_INFO_NULL));
                MPI_Datatype mtype = memtype(mkind, bytes, &count);
                /* processes with different amounts, one with none */
                if (rank == 1)
                    count = 0;
                int mine = rank == 1 ? 0 : bytes;
                for (int i = 0; i < BYTES; i++)
                    buffer[i] = 1 + (i * 31 + rank * 7 + mkind) % 251;
                memset(back, 0, sizeof back);
                unsigned char *middle = buffer + BYTES / 2, *target = back + BYTES / 2;
                int at = 4 * (fkind % 3);
                if (together) {
                    OK(MPI_File_write_at_all(file, at, middle, count, mtype, &status));
                } else {
                    OK(MPI_File_seek(file, at, MPI_SEEK_SET));
                    OK(MPI_File_write(file, middle, count, mtype, &status));
                }
                CHECK(items(&status, MPI_BYTE) == mine);
                MPI_Barrier(MPI_COMM_WORLD);
                if (together)
                    OK(MPI_File_read_at_all(file, at, target, count, mtype, &status));
                else
                    OK(MPI_File_read_at(file, at, target, count, mtype, &status));
                CHECK(items(&status, MPI_BYTE) == mine);
                /* What came back, packed, is what was sent, packed; nothing else was touched. */
                int one = 0, two = 0;
                static unsigned char sent[BYTES], received[BYTES];
                MPI_Pack(middle, count, mtype, sent, BYTES, &one, MPI_COMM_SELF);
                MPI_Pack(target, count, mtype, received, BYTES, &two, MPI_COMM_SELF);
                CHECK(one == mine && two == mine && !memcmp(sent, received, one));
                int touched = 0;
                for (int i = 0; i < BYTES; i++)
                    touched += back[i] != 0;
                CHECK(touched == mine);
                /* The file as a whole against the model. */
                memset(model, 0, sizeof model);
                if (mine)
                    put_in_model(ftype, displacement, at, sent, mine);
                MPI_Allreduce(MPI_IN_PLACE, model, BYTES, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
                MPI_Offset disp, length;
                MPI_Datatype etype;
                OK(MPI_File_get_view(file, &disp, &etype, &copy, representation));
                CHECK(disp == displacement && !strcmp(representation, "native"));
                OK(MPI_Type_free(&copy));
                OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
                OK(MPI_File_get_size(file, &length));
                CHECK(length <= BYTES);
                memset(got, 0, sizeof got);
                OK(MPI_File_read_at(file, 0, got, BYTES, MPI_BYTE, &status));
                CHECK(items(&status, MPI_BYTE) == length);
                for (int i = 0; i < BYTES; i++)
                    if (got[i] != model[i]) {
                        fprintf(stderr, "file type %d, memory type %d, %s: byte %d is %d, not %d\n", fkind,
                            mkind, together ? "together" : "alone", i, got[i], model[i]);
                        CHECK(got[i] == model[i]);
                    }
                MPI_Barrier(MPI_COMM_WORLD);
                OK(MPI_Type_free(&ftype));
                if (mkind)
                    OK(MPI_Type_free(&mtype));
                OK(MPI_File_close(&file));
            }

    /* the same memory twice is fine to write from */
    MPI_File file = opened(MPI_MODE_RDWR);
    MPI_Datatype twice;
    OK(MPI_Type_create_hvector(4, 1, 0, MPI_INT, &twice));
    OK(MPI_Type_commit(&twice));
    int seven = 7 + rank, four[4];
    OK(MPI_File_write_at_all(file, 16 * rank, &seven, 1, twice, &status));
    OK(MPI_File_read_at(file, 16 * rank, four, 4, MPI_INT, &status));
    CHECK(four[0] == seven && four[3] == seven);
    OK(MPI_Type_free(&twice));

    /* bytes that are seen twice: only where nothing can be written */
    MPI_Datatype fold, backwards;
    OK(MPI_Type_indexed(2, (int[]){ 3, 2 }, (int[]){ 0, 1 }, MPI_INT, &fold));
    OK(MPI_Type_commit(&fold));
    OK(MPI_Type_indexed(2, (int[]){ 1, 1 }, (int[]){ 3, 0 }, MPI_INT, &backwards));
    OK(MPI_Type_commit(&backwards));
    int numbers[9], seen[20];
    for (int i = 0; i < 9; i++)
        numbers[i] = 10 + i;
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_write_at_all(file, 0, numbers, rank ? 0 : 9, MPI_INT, &status));
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, fold, "native", MPI_INFO_NULL)) == MPI_ERR_IO);
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, backwards, "native", MPI_INFO_NULL)) == MPI_ERR_IO);
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File reader;
    MPI_Offset place;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &reader));
    CHECK(class_of(MPI_File_set_view(reader, 0, MPI_INT, backwards, "native", MPI_INFO_NULL)) == MPI_ERR_IO);
    OK(MPI_File_set_view(reader, 0, MPI_INT, fold, "native", MPI_INFO_NULL));
    for (int together = 0; together < 2; together++) {
        static const int wanted[] = { 10, 11, 12, 11, 12, 13, 14, 15, 14, 15, 16, 17, 18, 17, 18 };
        if (together)
            OK(MPI_File_read_at_all(reader, rank, seen, 20, MPI_INT, &status));
        else
            OK(MPI_File_read_at(reader, rank, seen, 20, MPI_INT, &status));
        CHECK(items(&status, MPI_INT) == 15 - rank);
        CHECK(!memcmp(seen, wanted + rank, (15 - rank) * sizeof(int)));
    }
    OK(MPI_File_get_byte_offset(reader, 8, &place));
    CHECK(place == 16);
    OK(MPI_File_close(&reader));
    OK(MPI_Type_free(&fold));
    OK(MPI_Type_free(&backwards));

    /* copies of a type that reach into each other */
    MPI_Datatype pair, woven;
    OK(MPI_Type_indexed(2, (int[]){ 1, 1 }, (int[]){ 0, 7 }, MPI_INT, &pair));
    OK(MPI_Type_create_resized(pair, 0, 2 * sizeof(int), &woven));
    OK(MPI_Type_commit(&woven));
    for (int together = 0; together < 2; together++) {
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_set_size(file, 0));
        OK(MPI_File_set_view(file, 0, MPI_INT, woven, "native", MPI_INFO_NULL));
        if (together)
            OK(MPI_File_write_at_all(file, 0, numbers, rank ? 0 : 6, MPI_INT, &status));
        else if (rank == 0)
            OK(MPI_File_write_at(file, 0, numbers, 6, MPI_INT, &status));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_get_byte_offset(file, 3, &place));
        CHECK(place == 36);
        if (together)
            OK(MPI_File_read_at_all(file, 1, seen, 4, MPI_INT, &status));
        else
            OK(MPI_File_read_at(file, 1, seen, 4, MPI_INT, &status));
        CHECK(items(&status, MPI_INT) == 4 && !memcmp(seen, numbers + 1, 4 * sizeof(int)));
        OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        OK(MPI_File_read_at(file, 0, seen, 20, MPI_INT, &status));
        static const int row[] = { 10, 0, 12, 0, 14, 0, 0, 11, 0, 13, 0, 15 };
        CHECK(items(&status, MPI_INT) == 12 && !memcmp(seen, row, sizeof row));
    }
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&woven));

    /* what is refused */
    unsigned char raw[8];
    MPI_Aint extent;
    int code = MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "morse", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_DATAREP);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    code = MPI_File_write_at(file, 0, raw, 3, MPI_BYTE, &status);
    CHECK(code != MPI_SUCCESS);
    CHECK(class_of(MPI_File_write_at(file, 0, raw, 1, MPI_DATATYPE_NULL, &status)) == MPI_ERR_TYPE);
    code = MPI_File_set_view(file, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_ARG);
    CHECK(class_of(MPI_File_write_at_all(file, 0, raw, -1, MPI_INT, &status)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_File_read_at(file, -1, raw, 1, MPI_INT, &status)) == MPI_ERR_ARG);
    OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    CHECK(extent == 8);
    OK(MPI_File_close(&file));
    return finish();
}
