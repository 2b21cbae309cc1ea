//! The exported symbols. Each routine exists as `MPI_File_*` and `PMPI_File_*`: MPI's own Fortran
//! wrappers, which turn Fortran's arguments into C's, call the one or the other.
//!
//! A routine looks whether the file is ours and otherwise passes everything on to MPI.

mod consistency;
mod data;
mod error;
mod file;
mod fortran;
mod pointer;
mod split;
mod view;

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::open::Open;
use crate::{errhandler, mpi};

pub use fortran::MPI_File_c2f;

/// A handle as it came in a register.
fn handle(raw: Handle) -> Result<Handle> {
    Ok(mpi::own()?.handle(raw))
}

/// Runs a routine on a file of ours; an error goes to the file's handler.
fn on_file(number: usize, open: &Open, work: impl FnOnce() -> Result<()>) -> c_int {
    match caught(work) {
        Ok(()) => 0,
        Err(failure) => errhandler::raise(Some((number, open)), &failure),
    }
}

/// Runs a routine that has no file yet.
fn without_file(work: impl FnOnce() -> Result<()>) -> c_int {
    match caught(work) {
        Ok(()) => 0,
        Err(failure) => errhandler::raise(None, &failure),
    }
}

/// Nothing unwinds into the program.
fn caught(work: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Failure::new(Class::Intern, "a fault inside trireme")))
}

/// A routine's name as the loader knows it.
const fn symbol(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the name ends with a zero byte"),
    }
}

/// A routine on an open file under both its names.
macro_rules! routine {
    ($mpi:ident $pmpi:ident ($file:ident $(, $argument:ident: $type:ty)* $(,)?) $open:ident => $body:expr) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $mpi($file: usize $(, $argument: $type)*) -> std::ffi::c_int {
            match $crate::handle::get($file) {
                Some($open) => $crate::surface::on_file($file, &$open, || $body),
                None => $crate::abi::call!(
                    $crate::surface::symbol(concat!(stringify!($pmpi), "\0")),
                    $file => usize $(, $argument => $type)*
                ),
            }
        }
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pmpi($file: usize $(, $argument: $type)*) -> std::ffi::c_int {
            // SAFETY: the same routine.
            unsafe { $mpi($file $(, $argument)*) }
        }
    };
}
use routine;
