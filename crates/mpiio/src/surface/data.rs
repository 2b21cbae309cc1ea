//! Reading and writing: blocking and nonblocking, at every kind of place, alone and together, with
//! counts of 32 and of 64 bits.

use std::ffi::{c_int, c_void};

use super::{handle, routine};
use crate::abi::Handle;
use crate::memory::Described;
use crate::operation::{Place, Routine};

/// A buffer as it came in registers.
pub(super) fn described(
    buffer: *const c_void,
    count: i64,
    datatype: Handle,
) -> crate::class::Result<Described> {
    Ok(Described {
        buffer: buffer.cast_mut(),
        count,
        datatype: handle(datatype)?,
    })
}

const ALONE: bool = false;
const TOGETHER: bool = true;
const READ: bool = false;
const WRITE: bool = true;

macro_rules! blocking {
    (@ $mpi:ident $pmpi:ident $count:ty, at, $write:expr, $together:expr) => {
        routine!($mpi $pmpi (file, offset: i64, buffer: *mut c_void, count: $count,
            datatype: Handle, status: *mut c_void) open => {
            let routine = Routine { write: $write, together: $together, place: Place::At(offset) };
            routine.block(&open, described(buffer, count.into(), datatype)?, status)
        });
    };
    (@ $mpi:ident $pmpi:ident $count:ty, $place:ident, $write:expr, $together:expr) => {
        routine!($mpi $pmpi (file, buffer: *mut c_void, count: $count, datatype: Handle,
            status: *mut c_void) open => {
            let routine = Routine { write: $write, together: $together, place: Place::$place };
            routine.block(&open, described(buffer, count.into(), datatype)?, status)
        });
    };
    ($mpi:ident $pmpi:ident $mpi_c:ident $pmpi_c:ident $place:ident $write:expr, $together:expr) => {
        blocking!(@ $mpi $pmpi c_int, $place, $write, $together);
        blocking!(@ $mpi_c $pmpi_c i64, $place, $write, $together);
    };
}

macro_rules! nonblocking {
    (@ $mpi:ident $pmpi:ident $count:ty, at, $write:expr, $together:expr) => {
        routine!($mpi $pmpi (file, offset: i64, buffer: *mut c_void, count: $count,
            datatype: Handle, request: *mut c_void) open => {
            let routine = Routine { write: $write, together: $together, place: Place::At(offset) };
            // SAFETY: the program's place for a request.
            unsafe { routine.start(&open, described(buffer, count.into(), datatype)?, request) }
        });
    };
    (@ $mpi:ident $pmpi:ident $count:ty, $place:ident, $write:expr, $together:expr) => {
        routine!($mpi $pmpi (file, buffer: *mut c_void, count: $count, datatype: Handle,
            request: *mut c_void) open => {
            let routine = Routine { write: $write, together: $together, place: Place::$place };
            // SAFETY: the program's place for a request.
            unsafe { routine.start(&open, described(buffer, count.into(), datatype)?, request) }
        });
    };
    ($mpi:ident $pmpi:ident $mpi_c:ident $pmpi_c:ident $place:ident $write:expr, $together:expr) => {
        nonblocking!(@ $mpi $pmpi c_int, $place, $write, $together);
        nonblocking!(@ $mpi_c $pmpi_c i64, $place, $write, $together);
    };
}

blocking!(MPI_File_read_at PMPI_File_read_at MPI_File_read_at_c PMPI_File_read_at_c at READ, ALONE);
blocking!(MPI_File_write_at PMPI_File_write_at MPI_File_write_at_c PMPI_File_write_at_c at WRITE, ALONE);
blocking!(MPI_File_read_at_all PMPI_File_read_at_all MPI_File_read_at_all_c PMPI_File_read_at_all_c at READ, TOGETHER);
blocking!(MPI_File_write_at_all PMPI_File_write_at_all MPI_File_write_at_all_c PMPI_File_write_at_all_c at WRITE, TOGETHER);
blocking!(MPI_File_read PMPI_File_read MPI_File_read_c PMPI_File_read_c Individual READ, ALONE);
blocking!(MPI_File_write PMPI_File_write MPI_File_write_c PMPI_File_write_c Individual WRITE, ALONE);
blocking!(MPI_File_read_all PMPI_File_read_all MPI_File_read_all_c PMPI_File_read_all_c Individual READ, TOGETHER);
blocking!(MPI_File_write_all PMPI_File_write_all MPI_File_write_all_c PMPI_File_write_all_c Individual WRITE, TOGETHER);
blocking!(MPI_File_read_shared PMPI_File_read_shared MPI_File_read_shared_c PMPI_File_read_shared_c Shared READ, ALONE);
blocking!(MPI_File_write_shared PMPI_File_write_shared MPI_File_write_shared_c PMPI_File_write_shared_c Shared WRITE, ALONE);
blocking!(MPI_File_read_ordered PMPI_File_read_ordered MPI_File_read_ordered_c PMPI_File_read_ordered_c Ordered READ, TOGETHER);
blocking!(MPI_File_write_ordered PMPI_File_write_ordered MPI_File_write_ordered_c PMPI_File_write_ordered_c Ordered WRITE, TOGETHER);

nonblocking!(MPI_File_iread_at PMPI_File_iread_at MPI_File_iread_at_c PMPI_File_iread_at_c at READ, ALONE);
nonblocking!(MPI_File_iwrite_at PMPI_File_iwrite_at MPI_File_iwrite_at_c PMPI_File_iwrite_at_c at WRITE, ALONE);
nonblocking!(MPI_File_iread_at_all PMPI_File_iread_at_all MPI_File_iread_at_all_c PMPI_File_iread_at_all_c at READ, TOGETHER);
nonblocking!(MPI_File_iwrite_at_all PMPI_File_iwrite_at_all MPI_File_iwrite_at_all_c PMPI_File_iwrite_at_all_c at WRITE, TOGETHER);
nonblocking!(MPI_File_iread PMPI_File_iread MPI_File_iread_c PMPI_File_iread_c Individual READ, ALONE);
nonblocking!(MPI_File_iwrite PMPI_File_iwrite MPI_File_iwrite_c PMPI_File_iwrite_c Individual WRITE, ALONE);
nonblocking!(MPI_File_iread_all PMPI_File_iread_all MPI_File_iread_all_c PMPI_File_iread_all_c Individual READ, TOGETHER);
nonblocking!(MPI_File_iwrite_all PMPI_File_iwrite_all MPI_File_iwrite_all_c PMPI_File_iwrite_all_c Individual WRITE, TOGETHER);
nonblocking!(MPI_File_iread_shared PMPI_File_iread_shared MPI_File_iread_shared_c PMPI_File_iread_shared_c Shared READ, ALONE);
nonblocking!(MPI_File_iwrite_shared PMPI_File_iwrite_shared MPI_File_iwrite_shared_c PMPI_File_iwrite_shared_c Shared WRITE, ALONE);
