//! Fortran's numbers for files, and its error handlers. MPI's own Fortran wrappers come through here for
//! every file; with the numbers and the C routines ours, Fortran programs need nothing else.

use std::ffi::{CStr, c_int, c_void};

use super::symbol;
use crate::abi::{Handle, Kind, Symbol};
use crate::errhandler::{Function, made};
use crate::{handle, mpi};

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_c2f(file: usize) -> c_int {
    static MPI: Symbol = Symbol::new(c"PMPI_File_c2f");
    if let Some(number) = handle::to_fortran(file) {
        return number;
    }
    let Some(address) = MPI.address() else {
        return 0;
    };
    // SAFETY: the standard fixes the routine's type.
    unsafe {
        let routine =
            std::mem::transmute::<*const c_void, unsafe extern "C" fn(usize) -> c_int>(address);
        routine(file)
    }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_c2f(file: usize) -> c_int {
    // SAFETY: the same routine.
    unsafe { MPI_File_c2f(file) }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_f2c(number: c_int) -> usize {
    static MPI: Symbol = Symbol::new(c"PMPI_File_f2c");
    if let Some(file) = handle::from_fortran(number) {
        return file;
    }
    let Some(address) = MPI.address() else {
        return 0;
    };
    // SAFETY: the standard fixes the routine's type.
    unsafe {
        let routine =
            std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int) -> usize>(address);
        routine(number)
    }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_f2c(number: c_int) -> usize {
    // SAFETY: the same routine.
    unsafe { MPI_File_f2c(number) }
}

/// `MPI_File_create_errhandler` of Fortran, under the names that compilers and MPI's modules call it by. MPI
/// makes the handler: Open MPI without the C routine, MPICH with it as if the function were C's, which
/// then takes one half of a C handle for its file. So we remember which functions are Fortran's.
macro_rules! create_errhandler {
    ($($name:ident)*) => {$(
        #[doc(hidden)]
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(function: usize, handler: *mut c_int, code: *mut c_int) {
            // SAFETY: Fortran's arguments as they came.
            unsafe { create(symbol(concat!(stringify!($name), "\0")), function, handler, code) }
        }
    )*};
}
create_errhandler!(mpi_file_create_errhandler mpi_file_create_errhandler_ mpi_file_create_errhandler__
    pmpi_file_create_errhandler pmpi_file_create_errhandler_ pmpi_file_create_errhandler__
    MPI_FILE_CREATE_ERRHANDLER PMPI_FILE_CREATE_ERRHANDLER
    mpi_file_create_errhandler_f08_ pmpi_file_create_errhandler_f08_ pmpir_file_create_errhandler_f08_
    ompi_file_create_errhandler_f);

/// # Safety
/// The arguments of the Fortran routine of this name; `code` may be absent.
unsafe fn create(name: &CStr, function: usize, handler: *mut c_int, code: *mut c_int) {
    // SAFETY: the next routine of the same name, behind ours, has the same type.
    let failed = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if next.is_null() {
            if !code.is_null() {
                *code = crate::class::Class::UnsupportedOperation.value();
            }
            return;
        }
        let next = std::mem::transmute::<
            *mut c_void,
            unsafe extern "C" fn(usize, *mut c_int, *mut c_int),
        >(next);
        next(function, handler, code);
        !code.is_null() && *code != 0
    };
    let Ok(abi) = mpi::own() else { return };
    if failed {
        return;
    }
    // SAFETY: MPI has just put Fortran's number there.
    let number = unsafe { *handler };
    let handle = match abi.kind {
        Kind::Mpich => abi.handle(number as Handle),
        Kind::OpenMpi => errhandler_f2c(number),
    };
    made(handle, Function::Fortran(function));
}

/// Open MPI's handle of a Fortran number.
fn errhandler_f2c(number: c_int) -> Handle {
    static MPI: Symbol = Symbol::new(c"PMPI_Errhandler_f2c");
    let Some(address) = MPI.address() else {
        return 0;
    };
    // SAFETY: the standard fixes the routine's type.
    unsafe {
        let routine =
            std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int) -> Handle>(address);
        routine(number)
    }
}
