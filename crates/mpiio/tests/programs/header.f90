! Fortran by mpif.h.
subroutine handle(file, code)
  implicit none
  include 'mpif.h'
  integer :: file, code, seen, mode, class, calls, ignored
  integer(kind=MPI_OFFSET_KIND) :: bytes
  common /handled/ bytes, seen, mode, class, calls
  calls = calls + 1
  seen = file
  call MPI_Error_class(code, class, ignored)
  call MPI_File_get_amode(file, mode, ignored)
  call MPI_File_get_size(file, bytes, ignored)
end subroutine

program header
  implicit none
  include 'mpif.h'
  integer :: code, rank, ranks, file, status(MPI_STATUS_SIZE), count, i, request, class
  integer :: out(100), back(100)
  integer(kind=MPI_OFFSET_KIND) :: place, bytes
  integer(kind=MPI_OFFSET_KIND) :: handled_bytes
  integer :: seen, mode, handled_class, calls, handler
  common /handled/ handled_bytes, seen, mode, handled_class, calls
  external :: handle
  character(len=512) :: path
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
  call MPI_Error_class(code, class, i)
  if (class /= MPI_ERR_NO_SUCH_FILE) call wrong(1)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
  if (code /= MPI_SUCCESS) call wrong(2)
  out = [(rank * 1000 + i, i = 1, 100)]
  place = rank * 400
  call MPI_File_write_at_all(file, place, out, 100, MPI_INTEGER, status, code)
  if (code /= MPI_SUCCESS) call wrong(3)
  call MPI_Get_count(status, MPI_INTEGER, count, code)
  if (count /= 100) call wrong(4)
  back = 0
  call MPI_File_iread_at(file, place, back, 100, MPI_INTEGER, request, code)
  call MPI_Wait(request, status, code)
  if (any(back /= out)) call wrong(5)
  back = 0
  call MPI_File_read_at(file, place, back, 100, MPI_INTEGER, MPI_STATUS_IGNORE, code)
  if (any(back /= out)) call wrong(6)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call MPI_File_get_size(file, bytes, code)
  if (bytes /= ranks * 400) call wrong(7)
  calls = 0
  call MPI_File_create_errhandler(handle, handler, code)
  call MPI_File_set_errhandler(file, handler, code)
  if (code /= MPI_SUCCESS) call wrong(9)
  place = -1
  call MPI_File_seek(file, place, MPI_SEEK_SET, code)
  if (calls /= 1 .or. seen /= file .or. handled_class /= MPI_ERR_ARG) call wrong(10)
  if (mode /= MPI_MODE_CREATE + MPI_MODE_RDWR .or. handled_bytes /= bytes) call wrong(11)
  call MPI_Errhandler_free(handler, code)
  call MPI_File_call_errhandler(file, MPI_ERR_OTHER, code)
  if (calls /= 2 .or. seen /= file .or. handled_class /= MPI_ERR_OTHER) call wrong(12)
  call MPI_File_close(file, code)
  if (code /= MPI_SUCCESS .or. file /= MPI_FILE_NULL) call wrong(8)
  if (rank == 0) print *, 'all fine'
  call MPI_Finalize(code)
contains
  subroutine wrong(number)
    integer, intent(in) :: number
    print *, 'check', number, 'failed on rank', rank
    call MPI_Abort(MPI_COMM_WORLD, 1, code)
  end subroutine
end program
