/* What all test programs share: a check that says where it failed, and ends all processes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                             \
        }                                                                             \
    } while (0)

#define OK(call)                                                                      \
    do {                                                                              \
        int code_ = (call);                                                           \
        if (code_ != MPI_SUCCESS) {                                                   \
            char text_[MPI_MAX_ERROR_STRING];                                         \
            int length_;                                                              \
            MPI_Error_string(code_, text_, &length_);                                 \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, rank, #call, text_); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                             \
        }                                                                             \
    } while (0)

/* The class of an error code. */
static inline int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* How many items of a type a status tells. */
static inline int items(MPI_Status *status, MPI_Datatype type)
{
    int count = -1;
    MPI_Get_count(status, type, &count);
    return count;
}

static char *path; /* the file to work on: the program's first argument */

static inline MPI_File opened(int mode)
{
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    return file;
}

static void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = (*argv)[1];
}

static int finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all fine\n");
    MPI_Finalize();
    return 0;
}
