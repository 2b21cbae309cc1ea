/* Opening, closing, deleting, sizes, modes, groups, hints, error handlers and classes. */
#include "check.h"

static int calls;
static MPI_File called_with;

static void handler(MPI_File *file, int *code, ...)
{
    calls++;
    called_with = *file;
    (void)code;
}

static void forgive(MPI_File *file, int *code, ...)
{
    (void)file;
    *code = MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_File file;
    MPI_Offset bytes;
    int mode, code;

    /* what is not there */
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE);
    CHECK(file == MPI_FILE_NULL);
    CHECK(class_of(MPI_File_delete(path, MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
    MPI_Barrier(MPI_COMM_WORLD);

    /* modes that make no sense */
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_AMODE);
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_AMODE);
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_AMODE);
    code = MPI_File_open(MPI_COMM_WORLD, path, rank ? MPI_MODE_RDWR : MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    CHECK(size == 1 || class_of(code) == MPI_ERR_NOT_SAME);

    /* hints */
    MPI_Info info, used;
    char value[64];
    int there, length;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "striping_unit", "131072"));
    OK(MPI_Info_set(info, "striping_factor", "2"));
    OK(MPI_Info_set(info, "cb_buffer_size", "4194304"));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, info, &file));
    OK(MPI_File_get_info(file, &used));
    OK(MPI_Info_get(used, "striping_unit", 63, value, &there));
    CHECK(there && !strcmp(value, "131072"));
    OK(MPI_Info_get(used, "striping_factor", 63, value, &there));
    CHECK(there && !strcmp(value, "2"));
    OK(MPI_Info_get(used, "cb_buffer_size", 63, value, &there));
    CHECK(there && !strcmp(value, "4194304"));
    OK(MPI_Info_free(&used));
    OK(MPI_File_set_info(file, info));
    OK(MPI_Info_free(&info));

    /* mode and group */
    OK(MPI_File_get_amode(file, &mode));
    CHECK(mode == (MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR));
    MPI_Group group, world;
    int same;
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &same));
    CHECK(same == MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));

    /* sizes */
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 0);
    OK(MPI_File_set_size(file, 1000000));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 1000000);
    OK(MPI_File_preallocate(file, 500));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 1000000);
    OK(MPI_File_preallocate(file, 2000000));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 2000000);
    OK(MPI_File_set_size(file, 10));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 10);
    MPI_Barrier(MPI_COMM_WORLD);

    /* hints that ask for too much get what there is */
    MPI_File wide;
    MPI_Info asked;
    char name[1000], width[64];
    int known;
    snprintf(name, sizeof name, "%s.wide", path);
    OK(MPI_Info_create(&asked));
    OK(MPI_Info_set(asked, "striping_factor", "50"));
    OK(MPI_Info_set(asked, "start_iodevice", "99"));
    OK(MPI_Info_set(asked, "striping_unit", "18446744073709551615"));
    OK(MPI_Info_set(asked, "trireme_method", "magic"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, asked, &wide));
    OK(MPI_Info_free(&asked));
    OK(MPI_File_get_info(wide, &asked));
    OK(MPI_Info_get(asked, "striping_factor", sizeof width - 1, width, &known));
    CHECK(known && atoi(width) == 3);
    OK(MPI_Info_get(asked, "start_iodevice", sizeof width - 1, width, &known));
    CHECK(known && atoi(width) == 99 % 3);
    OK(MPI_Info_free(&asked));
    OK(MPI_File_close(&wide));

    /* error handlers */
    MPI_Errhandler old, mine;
    OK(MPI_File_get_errhandler(file, &old));
    CHECK(old == MPI_ERRORS_RETURN);
    OK(MPI_File_create_errhandler(handler, &mine));
    OK(MPI_File_set_errhandler(file, mine));
    OK(MPI_File_get_errhandler(file, &old));
    CHECK(old == mine);
    OK(MPI_Errhandler_free(&old));
    OK(MPI_Errhandler_free(&mine));
    code = MPI_File_seek(file, -1, MPI_SEEK_SET);
    CHECK(class_of(code) == MPI_ERR_ARG);
    CHECK(calls == 1 && called_with == file);
    /* one that forgives */
    MPI_Errhandler forgiving;
    OK(MPI_File_create_errhandler(forgive, &forgiving));
    OK(MPI_File_get_errhandler(file, &mine));
    OK(MPI_File_set_errhandler(file, forgiving));
    OK(MPI_File_seek(file, -1, MPI_SEEK_SET));
    OK(MPI_File_set_errhandler(file, mine));
    OK(MPI_Errhandler_free(&mine));
    OK(MPI_Errhandler_free(&forgiving));
    OK(MPI_File_call_errhandler(file, MPI_ERR_OTHER));
    CHECK(calls == 2);
    OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    code = MPI_File_seek(file, -1, MPI_SEEK_SET);
    CHECK(class_of(code) == MPI_ERR_ARG && calls == 2);

    /* Fortran's numbers */
    CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file);
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);

    /* exclusive, read-only, write-only */
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_FILE_EXISTS);
    file = opened(MPI_MODE_RDONLY);
    code = MPI_File_write_at(file, 0, value, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_READ_ONLY);
    code = MPI_File_write_at_all(file, 0, value, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_WRONLY);
    code = MPI_File_read_at(file, 0, value, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_ACCESS);
    OK(MPI_File_close(&file));

    /* append */
    MPI_Offset place;
    file = opened(MPI_MODE_RDWR | MPI_MODE_APPEND);
    OK(MPI_File_get_position(file, &place));
    CHECK(place == 10);
    OK(MPI_File_get_position_shared(file, &place));
    CHECK(place == 10);
    OK(MPI_File_close(&file));

    /* delete on close */
    file = opened(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_close(&file));
    code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE);

    /* each process a file of its own, and delete */
    char own[512];
    snprintf(own, sizeof own, "%s.%d", path, rank);
    OK(MPI_File_open(MPI_COMM_SELF, own, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_write_all(file, own, 5, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    OK(MPI_File_delete(own, MPI_INFO_NULL));

    /* a file that is not on trireme is MPI's */
    if (argc > 2) {
        path = argv[2];
        file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
        length = rank;
        OK(MPI_File_write_at_all(file, rank * 4, &length, 1, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_close(&file));
    }
    return finish();
}
