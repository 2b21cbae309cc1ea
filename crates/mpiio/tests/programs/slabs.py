"""Parallel HDF5 by h5py: contiguous and chunked hyperslabs, written and read by all processes."""
import sys

import h5py
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
rows, columns = 8 * size, 30
whole = np.arange(rows * columns, dtype="f8").reshape(rows, columns)
with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    plain = file.create_dataset("plain", (rows, columns), "f8")
    chunked = file.create_dataset("chunked", (rows, columns), "i4", chunks=(4, 7))
    with plain.collective:
        plain[rank::size, 3:] = whole[rank::size, 3:]
    plain[rank * 8 : rank * 8 + 8, :3] = whole[rank * 8 : rank * 8 + 8, :3]
    with chunked.collective:
        chunked[rank * 8 : rank * 8 + 8] = whole[rank * 8 : rank * 8 + 8]
comm.Barrier()
with h5py.File(sys.argv[1], "r", driver="mpio", comm=comm) as file:
    with file["plain"].collective:
        assert (file["plain"][:, rank::size] == whole[:, rank::size]).all()
    assert (file["chunked"][rank::size] == whole[rank::size]).all()
if rank == 0:
    print("all fine")
