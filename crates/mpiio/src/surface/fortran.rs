//! Fortran's numbers for files. MPI's own Fortran wrappers come through here for every file; with the
//! numbers and the C routines ours, Fortran programs need nothing else.

use std::ffi::c_int;

use crate::abi::Symbol;
use crate::handle;

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
        let routine = std::mem::transmute::<
            *const std::ffi::c_void,
            unsafe extern "C" fn(usize) -> c_int,
        >(address);
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
        let routine = std::mem::transmute::<
            *const std::ffi::c_void,
            unsafe extern "C" fn(c_int) -> usize,
        >(address);
        routine(number)
    }
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_f2c(number: c_int) -> usize {
    // SAFETY: the same routine.
    unsafe { MPI_File_f2c(number) }
}
