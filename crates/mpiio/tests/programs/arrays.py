"""mpi4py: views, collectives and nonblocking calls; files by name on trireme."""
import array
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
file = MPI.File.Open(comm, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_RDWR)
column = MPI.DOUBLE.Create_vector(10, 1, size).Create_resized(0, 80 * size).Commit()
file.Set_view(8 * rank, MPI.DOUBLE, column)
out = array.array("d", (rank * 100.0 + i for i in range(50)))
file.Write_all(out)
back = array.array("d", [0.0]) * 50
file.Read_at_all(0, back)
assert back == out
back = array.array("d", [0.0]) * 50
file.Iread_at(0, back).Wait()
assert back == out
status = MPI.Status()
comm.Barrier()
file.Set_view(0, MPI.BYTE)
assert file.Get_size() == 50 * 8 * size
file.Read_at(50 * 8 * size - 8, bytearray(100), status)
assert status.Get_count(MPI.BYTE) == 8
assert file.Get_info().Get("striping_factor") == "3"
comm.Barrier()
file.Close()
try:
    MPI.File.Open(comm, sys.argv[1] + ".not", MPI.MODE_RDONLY)
    raise SystemExit("opened what is not there")
except MPI.Exception as error:
    assert error.Get_error_class() == MPI.ERR_NO_SUCH_FILE
if rank == 0:
    print("all fine")
