//! Error handlers of our files. By default errors come back as return codes, as MPI has it for files;
//! a handler set for `MPI_FILE_NULL` is the default for all.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex};

use crate::abi::{Handle, call};
use crate::class::{Class, Failure, Result};
use crate::mpi::{check, own};
use crate::open::{Open, lock, wanted};
use crate::surface::MPI_File_c2f;

/// A program's own handler. The languages differ in what they take for a file.
#[derive(Debug, Clone, Copy)]
pub enum Function {
    C(usize),
    Fortran(usize),
}

type InC = unsafe extern "C" fn(*mut usize, *mut c_int, ...);
type InFortran = unsafe extern "C" fn(*mut c_int, *mut c_int);

/// The handlers that this process made, by their handles.
static MADE: LazyLock<Mutex<HashMap<Handle, Function>>> = LazyLock::new(Mutex::default);

/// What a file does with errors.
#[derive(Debug, Default)]
pub enum Handler {
    /// What MPI does for files that have no handler of their own.
    #[default]
    Inherited,
    /// One of the handlers that MPI came with.
    Predefined(Handle),
    /// The program's own. MPI counts who uses it by a file, so one of its files holds it for ours.
    Own {
        keeper: usize,
        function: Option<Function>,
    },
}

impl Drop for Handler {
    fn drop(&mut self) {
        if let Handler::Own { keeper, .. } = self {
            let _ = call!(c"PMPI_File_close", &raw mut *keeper => *mut usize);
        }
    }
}

/// Remembers which function a new handler calls.
pub fn made(handle: Handle, function: Function) {
    lock(&MADE).insert(handle, function);
}

/// A real file of MPI's that nobody reads.
fn keeper() -> Result<usize> {
    const RDONLY: c_int = 2;
    let abi = own()?;
    let mut file = 0usize;
    check(
        "MPI_File_open of /dev/null",
        call!(c"PMPI_File_open", abi.comm_self => Handle, c"/dev/null".as_ptr() => *const c_char,
            RDONLY => c_int, abi.info_null => Handle, &raw mut file => *mut usize),
    )?;
    Ok(file)
}

impl Open {
    /// `MPI_File_set_errhandler`.
    pub fn set_handler(&self, handle: Handle) -> Result<()> {
        let abi = own()?;
        let new = if handle == abi.errors_return || handle == abi.errors_are_fatal {
            Handler::Predefined(handle)
        } else {
            let keeper = keeper()?;
            let own = Handler::Own {
                keeper,
                function: lock(&MADE).get(&handle).copied(),
            };
            check(
                "MPI_File_set_errhandler",
                call!(c"PMPI_File_set_errhandler", keeper => usize, handle => Handle),
            )?;
            own
        };
        *lock(&self.handler) = new;
        Ok(())
    }

    /// `MPI_File_get_errhandler`.
    pub fn get_handler(&self, place: *mut c_void) -> Result<()> {
        let abi = own()?;
        let file = match &*lock(&self.handler) {
            Handler::Predefined(handle) => {
                // SAFETY: the program's place for a handle.
                unsafe { abi.store(place, *handle) };
                return Ok(());
            }
            Handler::Inherited => abi.file_null,
            Handler::Own { keeper, .. } => *keeper,
        };
        check(
            "MPI_File_get_errhandler",
            call!(c"PMPI_File_get_errhandler", file => usize, place => *mut c_void),
        )
    }
}

/// Hands an error to the handler of the file, or, without one, to that of `MPI_FILE_NULL`; what the
/// routine returns, which a program's own handler may change, as under MPICH.
pub fn raise(file: Option<(usize, &Open)>, failure: &Failure) -> c_int {
    let loud = matches!(failure.class(), Class::Io | Class::Intern | Class::NoSpace);
    if loud || wanted("TRIREME_VERBOSE") {
        let path = file.map_or("", |(_, open)| open.path.as_str());
        let gap = if path.is_empty() { "" } else { ": " };
        eprintln!("trireme: {path}{gap}{failure}");
    }
    call_handler(file, failure.value())
}

/// The same for a code that the program made up.
pub fn call_handler(file: Option<(usize, &Open)>, code: c_int) -> c_int {
    let Ok(abi) = own() else { return code };
    let Some((number, open)) = file else {
        return inherited(abi.file_null, None, code);
    };
    // Not held while a handler runs: it may set another one, or make a call that fails.
    let handler = lock(&open.handler);
    match *handler {
        Handler::Inherited => {
            drop(handler);
            inherited(abi.file_null, Some(open), code)
        }
        Handler::Predefined(handle) => {
            if handle != abi.errors_return {
                end_all(Some(open), code);
            }
            code
        }
        Handler::Own { keeper, function } => {
            drop(handler);
            if let Some(function) = function {
                return invoke(function, number, code);
            }
            let _ = call!(c"PMPI_File_call_errhandler", keeper => usize, code => c_int);
            code
        }
    }
}

/// What MPI would do for a file without a handler of its own.
fn inherited(null: usize, open: Option<&Open>, code: c_int) -> c_int {
    let Ok(abi) = own() else { return code };
    let mut handler: Handle = 0;
    let place: *mut c_void = (&raw mut handler).cast();
    let asked = call!(c"PMPI_File_get_errhandler", null => usize, place => *mut c_void);
    if asked != 0 || handler == abi.errors_return {
        return code;
    }
    if handler == abi.errors_are_fatal {
        end_all(open, code);
        return code;
    }
    let function = lock(&MADE).get(&handler).copied();
    let returned = function.map_or(code, |function| invoke(function, null, code));
    let _ = call!(c"PMPI_Errhandler_free", place => *mut c_void);
    returned
}

fn end_all(open: Option<&Open>, code: c_int) {
    let path = open.map_or("a file", |open| open.path.as_str());
    eprintln!("trireme: {path}: error {code}, and errors are fatal");
    let comm = match (open, own()) {
        (Some(open), _) => open.comm.handle,
        (None, Ok(abi)) => abi.comm_self,
        _ => return,
    };
    let _ = call!(c"PMPI_Abort", comm => Handle, code => c_int);
}

fn invoke(function: Function, mut number: usize, mut code: c_int) -> c_int {
    // SAFETY: the program made a file error handler of this function, whose type the standard fixes
    // for each language; it gets our handle, which our routines know.
    unsafe {
        match function {
            Function::C(address) => {
                let function = std::mem::transmute::<*const c_void, InC>(address as *const c_void);
                function(&raw mut number, &raw mut code);
            }
            Function::Fortran(address) => {
                let function =
                    std::mem::transmute::<*const c_void, InFortran>(address as *const c_void);
                let mut number = MPI_File_c2f(number);
                function(&raw mut number, &raw mut code);
            }
        }
    }
    code
}
