//! Opening, closing, deleting; size, mode, group and hints.

use std::ffi::{c_char, c_int, c_void};

use trireme_proto::message::io::Allocate;

use super::{handle, routine, without_file};
use crate::abi::{Handle, call};
use crate::class::{Class, Failure};
use crate::mpi::{self, check};
use crate::open::{self, lock};
use crate::{handle as files, name};

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_open(
    comm: Handle,
    name: *const c_char,
    amode: c_int,
    info: Handle,
    file: *mut usize,
) -> c_int {
    // SAFETY: a C string of the program's.
    let text = unsafe { mpi::c_text(name) };
    let Some(path) = name::on_cluster(&text) else {
        return call!(c"PMPI_File_open", comm => Handle, name => *const c_char, amode => c_int,
            info => Handle, file => *mut usize);
    };
    without_file(|| {
        let null = mpi::own()?.file_null;
        let opened = open::open(handle(comm)?, path, amode, handle(info)?);
        // SAFETY: the program's place for the handle.
        unsafe { file.write(*opened.as_ref().unwrap_or(&null)) };
        opened.map(drop)
    })
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_open(
    comm: Handle,
    name: *const c_char,
    amode: c_int,
    info: Handle,
    file: *mut usize,
) -> c_int {
    // SAFETY: the same routine.
    unsafe { MPI_File_open(comm, name, amode, info, file) }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_close(file: *mut usize) -> c_int {
    // SAFETY: the program's handle.
    let number = unsafe { file.read() };
    if files::get(number).is_none() {
        return call!(c"PMPI_File_close", file => *mut usize);
    }
    without_file(|| {
        let closed = open::close(number);
        // SAFETY: as above.
        unsafe { file.write(mpi::own()?.file_null) };
        closed
    })
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_close(file: *mut usize) -> c_int {
    // SAFETY: the same routine.
    unsafe { MPI_File_close(file) }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_delete(name: *const c_char, info: Handle) -> c_int {
    // SAFETY: a C string of the program's.
    let text = unsafe { mpi::c_text(name) };
    match name::on_cluster(&text) {
        None => call!(c"PMPI_File_delete", name => *const c_char, info => Handle),
        Some(path) => without_file(|| open::delete(&path)),
    }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_delete(name: *const c_char, info: Handle) -> c_int {
    // SAFETY: the same routine.
    unsafe { MPI_File_delete(name, info) }
}

fn size_of(size: i64) -> crate::class::Result<u64> {
    u64::try_from(size).map_err(|_| Failure::new(Class::Arg, format!("a size of {size}")))
}

routine!(MPI_File_set_size PMPI_File_set_size (file, size: i64) open => {
    open.permits(true, true)?;
    let size = open.comm.agree(size_of(size))?;
    open.resize(size)
});

routine!(MPI_File_preallocate PMPI_File_preallocate (file, size: i64) open => {
    open.permits(true, true)?;
    let now = open.file.size().map_err(Failure::from);
    let (size, now) = open.comm.agree(size_of(size).and_then(|size| Ok((size, now?))))?;
    // One answer for all: they must do the same.
    let now = u64::from_le_bytes(open.comm.broadcast(now.to_le_bytes())?);
    // Space first: where there is too little of it, the size stays what it was.
    let reserved = if open.comm.rank == 0 && size > 0 {
        let space = Allocate::Reserve { keep_size: true };
        open.file.allocate(space, 0, size).map_err(Failure::from)
    } else {
        Ok(())
    };
    if let Err(failure) = open.comm.agree(reserved) {
        // What some servers did reserve behind the end is given back.
        if open.comm.rank == 0 {
            let _ = open.file.set_len(now);
        }
        return Err(failure);
    }
    if size > now { open.resize(size) } else { Ok(()) }
});

routine!(MPI_File_get_size PMPI_File_get_size (file, size: *mut i64) open => {
    let now = open.file.size()?;
    // SAFETY: the program's place for the size.
    unsafe { size.write(now as i64) };
    Ok(())
});

routine!(MPI_File_get_amode PMPI_File_get_amode (file, amode: *mut c_int) open => {
    // SAFETY: the program's place for the mode.
    unsafe { amode.write(open.amode) };
    Ok(())
});

routine!(MPI_File_get_group PMPI_File_get_group (file, group: *mut c_void) open => {
    let comm = open.comm.handle;
    check("MPI_Comm_group", call!(c"PMPI_Comm_group", comm => Handle, group => *mut c_void))
});

routine!(MPI_File_set_info PMPI_File_set_info (file, info: Handle) open => {
    let pairs = mpi::info_pairs(handle(info)?)?;
    lock(&open.hints).extend(pairs);
    Ok(())
});

routine!(MPI_File_get_info PMPI_File_get_info (file, info: *mut c_void) open => {
    let made = open.info()?;
    // SAFETY: the program's place for a handle.
    unsafe { mpi::own()?.store(info, made) };
    Ok(())
});
