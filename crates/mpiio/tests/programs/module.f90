! Fortran by "use mpi", with a view.
module handled
  use mpi
  implicit none
  integer :: seen, class, calls = 0
  integer(kind=MPI_OFFSET_KIND) :: bytes
contains
  subroutine handle(file, code)
    integer :: file, code, ignored
    calls = calls + 1
    seen = file
    call MPI_Error_class(code, class, ignored)
    call MPI_File_get_size(file, bytes, ignored)
    code = MPI_SUCCESS
  end subroutine
end module

program module
  use handled
  use mpi
  implicit none
  integer :: code, rank, ranks, file, status(MPI_STATUS_SIZE), i, vector, column
  integer(kind=MPI_ADDRESS_KIND) :: lower, extent
  integer(kind=MPI_OFFSET_KIND) :: place
  double precision :: out(50), back(50)
  integer :: handler
  character(len=512) :: path
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file, code)
  if (code /= MPI_SUCCESS) call wrong(1)
  call MPI_Type_vector(5, 1, ranks, MPI_DOUBLE_PRECISION, vector, code)
  lower = 0
  extent = 40 * ranks
  call MPI_Type_create_resized(vector, lower, extent, column, code)
  call MPI_Type_commit(column, code)
  place = 8 * rank
  call MPI_File_set_view(file, place, MPI_DOUBLE_PRECISION, column, 'native', MPI_INFO_NULL, code)
  if (code /= MPI_SUCCESS) call wrong(2)
  out = [(rank + i * 0.5d0, i = 1, 50)]
  call MPI_File_write_all(file, out, 50, MPI_DOUBLE_PRECISION, status, code)
  if (code /= MPI_SUCCESS) call wrong(3)
  place = 0
  call MPI_File_seek(file, place, MPI_SEEK_SET, code)
  back = 0
  call MPI_File_read_all(file, back, 50, MPI_DOUBLE_PRECISION, status, code)
  if (any(back /= out)) call wrong(4)
  call MPI_File_get_position(file, place, code)
  if (place /= 50) call wrong(5)
  call MPI_File_write_all_begin(file, out, 10, MPI_DOUBLE_PRECISION, code)
  call MPI_File_write_all_end(file, out, status, code)
  if (code /= MPI_SUCCESS) call wrong(6)
  call MPI_File_create_errhandler(handle, handler, code)
  call MPI_File_set_errhandler(file, handler, code)
  if (code /= MPI_SUCCESS) call wrong(8)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  place = -1
  call MPI_File_seek(file, place, MPI_SEEK_SET, code)
  if (calls /= 1 .or. seen /= file .or. class /= MPI_ERR_ARG) call wrong(9)
  if (bytes /= 480 * ranks .or. code /= MPI_SUCCESS) call wrong(10)
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
