//! Atomic mode and sync.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::routine;
use crate::class::{Class, Failure};

routine!(MPI_File_set_atomicity PMPI_File_set_atomicity (file, flag: c_int) open => {
    open.settle();
    let mine = [u8::from(flag != 0)];
    let same = open.comm.broadcast(mine)? == mine;
    open.comm.agree(if same { Ok(()) } else {
        Err(Failure::new(Class::NotSame, "the processes want different atomicity"))
    })?;
    open.atomic.store(flag != 0, Ordering::Relaxed);
    Ok(())
});

routine!(MPI_File_get_atomicity PMPI_File_get_atomicity (file, flag: *mut c_int) open => {
    // SAFETY: the program's place for the flag.
    unsafe { flag.write(open.atomic.load(Ordering::Relaxed).into()) };
    Ok(())
});

routine!(MPI_File_sync PMPI_File_sync (file) open => {
    open.settle();
    let synced = open.file.sync().map_err(Failure::from);
    // From now on what others did counts.
    open.known.store(0, Ordering::Relaxed);
    open.comm.agree(synced)
});
