! Fortran by "use mpi_f08".
module handled
  use mpi_f08
  implicit none
  type(MPI_File) :: seen
  integer :: class, calls = 0
  integer(kind=MPI_OFFSET_KIND) :: bytes
contains
  ! It may also change what becomes of the next error.
  subroutine handle(file, code)
    type(MPI_File) :: file
    integer :: code
    calls = calls + 1
    seen = file
    call MPI_Error_class(code, class)
    call MPI_File_get_size(file, bytes)
    call MPI_File_set_errhandler(file, MPI_ERRORS_RETURN)
  end subroutine
end module

program f08
  use handled
  use mpi_f08
  implicit none
  integer :: code, rank, ranks, i, count, mode
  type(MPI_File) :: file
  type(MPI_Status) :: status
  type(MPI_Request) :: request
  type(MPI_Errhandler) :: handler
  integer(kind=MPI_OFFSET_KIND) :: place
  integer :: out(64), back(64)
  character(len=512) :: path
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file, code)
  if (code /= MPI_SUCCESS) call wrong(1)
  call MPI_File_get_amode(file, mode, code)
  if (mode /= ior(MPI_MODE_CREATE, MPI_MODE_RDWR)) call wrong(2)
  out = [(rank * 100 + i, i = 1, 64)]
  call MPI_File_write_ordered(file, out, 64, MPI_INTEGER, status, code)
  if (code /= MPI_SUCCESS) call wrong(3)
  call MPI_Get_count(status, MPI_INTEGER, count, code)
  if (count /= 64) call wrong(4)
  back = 0
  place = rank * 256
  call MPI_File_iread_at(file, place, back, 64, MPI_INTEGER, request, code)
  call MPI_Wait(request, status, code)
  if (any(back /= out)) call wrong(5)
  back = 0
  call MPI_File_read_at_all(file, place, back, 64, MPI_INTEGER, MPI_STATUS_IGNORE, code)
  if (any(back /= out)) call wrong(6)
  call MPI_File_create_errhandler(handle, handler)
  call MPI_File_set_errhandler(file, handler, code)
  if (code /= MPI_SUCCESS) call wrong(8)
  place = -1
  do i = 1, 2
    call MPI_File_seek(file, place, MPI_SEEK_SET, code)
    if (calls /= 1 .or. seen /= file .or. class /= MPI_ERR_ARG) call wrong(9)
    if (bytes /= 256 * ranks .or. code == MPI_SUCCESS) call wrong(10)
  end do
  call MPI_File_close(file, code)
  if (code /= MPI_SUCCESS) call wrong(7)
  if (rank == 0) print *, 'all fine'
  call MPI_Finalize(code)
contains
  subroutine wrong(number)
    integer, intent(in) :: number
    print *, 'check', number, 'failed on rank', rank
    call MPI_Abort(MPI_COMM_WORLD, 1, code)
  end subroutine
end program
