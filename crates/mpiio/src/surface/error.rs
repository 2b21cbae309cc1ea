//! Error handlers of files.

use std::ffi::{c_int, c_void};

use super::{handle, on_file};
use crate::abi::{Handle, call};
use crate::class::Result;
use crate::errhandler::{Function, call_handler, made};
use crate::{handle as files, mpi};

super::routine!(MPI_File_set_errhandler PMPI_File_set_errhandler (file, handler: Handle) open => {
    open.set_handler(handle(handler)?)
});

super::routine!(MPI_File_get_errhandler PMPI_File_get_errhandler (file, handler: *mut c_void) open => {
    open.get_handler(handler)
});

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_call_errhandler(file: usize, code: c_int) -> c_int {
    match files::get(file) {
        None => call!(c"PMPI_File_call_errhandler", file => usize, code => c_int),
        Some(open) => on_file(file, &open, || {
            call_handler(Some((file, &open)), code);
            Ok(())
        }),
    }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_call_errhandler(file: usize, code: c_int) -> c_int {
    // SAFETY: the same routine.
    unsafe { MPI_File_call_errhandler(file, code) }
}

/// MPI makes it; we remember which function it calls, to give it our handles.
#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_create_errhandler(
    function: usize,
    handler: *mut c_void,
) -> c_int {
    let code = call!(c"PMPI_File_create_errhandler", function => usize, handler => *mut c_void);
    if code == 0 {
        let _: Result<()> = (|| {
            // SAFETY: MPI has just put the handle there.
            let handle = unsafe { mpi::own()?.load(handler) };
            made(handle, Function::C(function));
            Ok(())
        })();
    }
    code
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_create_errhandler(
    function: usize,
    handler: *mut c_void,
) -> c_int {
    // SAFETY: the same routine.
    unsafe { MPI_File_create_errhandler(function, handler) }
}
