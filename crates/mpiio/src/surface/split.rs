//! Split collectives: begun by one routine, ended by another.

use std::ffi::{c_int, c_void};

use super::data::described;
use super::routine;
use crate::abi::Handle;
use crate::operation::{Place, Routine, end};

macro_rules! begin {
    (@ $name:literal $mpi:ident $pmpi:ident $count:ty, at, $write:expr) => {
        routine!($mpi $pmpi (file, offset: i64, buffer: *mut c_void, count: $count,
            datatype: Handle) open => {
            let routine = Routine { write: $write, together: true, place: Place::At(offset) };
            routine.begin(&open, $name, described(buffer, count.into(), datatype)?)
        });
    };
    (@ $name:literal $mpi:ident $pmpi:ident $count:ty, $place:ident, $write:expr) => {
        routine!($mpi $pmpi (file, buffer: *mut c_void, count: $count, datatype: Handle) open => {
            let routine = Routine { write: $write, together: true, place: Place::$place };
            routine.begin(&open, $name, described(buffer, count.into(), datatype)?)
        });
    };
    ($name:literal $mpi:ident $pmpi:ident $mpi_c:ident $pmpi_c:ident $mpi_end:ident $pmpi_end:ident
        $place:ident $write:expr) => {
        begin!(@ $name $mpi $pmpi c_int, $place, $write);
        begin!(@ $name $mpi_c $pmpi_c i64, $place, $write);
        routine!($mpi_end $pmpi_end (file, _buffer: *mut c_void, status: *mut c_void) open => {
            end(&open, $name, status)
        });
    };
}

begin!("MPI_File_read_at_all" MPI_File_read_at_all_begin PMPI_File_read_at_all_begin
    MPI_File_read_at_all_begin_c PMPI_File_read_at_all_begin_c
    MPI_File_read_at_all_end PMPI_File_read_at_all_end at false);
begin!("MPI_File_write_at_all" MPI_File_write_at_all_begin PMPI_File_write_at_all_begin
    MPI_File_write_at_all_begin_c PMPI_File_write_at_all_begin_c
    MPI_File_write_at_all_end PMPI_File_write_at_all_end at true);
begin!("MPI_File_read_all" MPI_File_read_all_begin PMPI_File_read_all_begin
    MPI_File_read_all_begin_c PMPI_File_read_all_begin_c
    MPI_File_read_all_end PMPI_File_read_all_end Individual false);
begin!("MPI_File_write_all" MPI_File_write_all_begin PMPI_File_write_all_begin
    MPI_File_write_all_begin_c PMPI_File_write_all_begin_c
    MPI_File_write_all_end PMPI_File_write_all_end Individual true);
begin!("MPI_File_read_ordered" MPI_File_read_ordered_begin PMPI_File_read_ordered_begin
    MPI_File_read_ordered_begin_c PMPI_File_read_ordered_begin_c
    MPI_File_read_ordered_end PMPI_File_read_ordered_end Ordered false);
begin!("MPI_File_write_ordered" MPI_File_write_ordered_begin PMPI_File_write_ordered_begin
    MPI_File_write_ordered_begin_c PMPI_File_write_ordered_begin_c
    MPI_File_write_ordered_end PMPI_File_write_ordered_end Ordered true);
