//! Moving and asking for file pointers.

use std::ffi::c_int;

use super::routine;
use crate::class::{Class, Failure};
use crate::open::lock;

routine!(MPI_File_seek PMPI_File_seek (file, offset: i64, whence: c_int) open => {
    open.permits(open.amode & crate::open::mode::WRONLY != 0, false)?;
    let mut position = lock(&open.position);
    *position = open.target(offset, whence, *position)?;
    Ok(())
});

routine!(MPI_File_get_position PMPI_File_get_position (file, offset: *mut i64) open => {
    open.permits(open.amode & crate::open::mode::WRONLY != 0, false)?;
    let items = *lock(&open.position) / open.view().unit;
    // SAFETY: the program's place for the offset.
    unsafe { offset.write(items as i64) };
    Ok(())
});

routine!(MPI_File_seek_shared PMPI_File_seek_shared (file, offset: i64, whence: c_int) open => {
    let mine = [offset, i64::from(whence)].map(i64::to_le_bytes).concat();
    let mine: [u8; 16] = mine.try_into().unwrap_or([0; 16]);
    let same = open.comm.broadcast(mine)? == mine;
    open.comm.agree(if same { Ok(()) } else {
        Err(Failure::new(Class::NotSame, "the processes seek to different places"))
    })?;
    let moved = if open.comm.rank == 0 {
        open.move_shared(|old| open.target(offset, whence, old)).map(drop)
    } else {
        Ok(())
    };
    open.comm.agree(moved)
});

routine!(MPI_File_get_position_shared PMPI_File_get_position_shared (file, offset: *mut i64) open => {
    let items = open.move_shared(Ok)? / open.view().unit;
    // SAFETY: the program's place for the offset.
    unsafe { offset.write(items as i64) };
    Ok(())
});
