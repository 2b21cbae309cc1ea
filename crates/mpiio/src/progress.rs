//! Completing requests under Open MPI where only the program's own thread may call it: inside whatever call
//! the program waits in, by the hook that Open MPI's own file I/O uses.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::abi::{Handle, Kind, Symbol, abi, call};

/// Requests whose operations are done, and how many they are: the hook is called all the time.
static DONE: Mutex<Vec<Handle>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether this MPI has such a hook.
pub fn has_hook() -> bool {
    static REGISTER: Symbol = Symbol::new(c"opal_progress_register");
    static HOOKED: OnceLock<bool> = OnceLock::new();
    abi().is_some_and(|abi| abi.kind == Kind::OpenMpi)
        && *HOOKED.get_or_init(|| {
            REGISTER.address().is_some_and(|address| {
                // SAFETY: the routine's type since Open MPI 1.2. The library that the hook is in is never
                // unloaded.
                let register = unsafe {
                    std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C" fn(unsafe extern "C" fn() -> c_int) -> c_int,
                    >(address)
                };
                // SAFETY: as above; the hook takes no arguments and may be called at any time.
                unsafe { register(progressed) == 0 }
            })
        })
}

/// An operation is done; its request is complete as soon as the program is in MPI.
pub fn complete_soon(request: Handle) {
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    done.push(request);
    COUNT.store(done.len(), Ordering::Release);
}

unsafe extern "C" fn progressed() -> c_int {
    if COUNT.load(Ordering::Acquire) == 0 {
        return 0;
    }
    let done = {
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        COUNT.store(0, Ordering::Release);
        std::mem::take(&mut *done)
    };
    for request in &done {
        let _ = call!(c"PMPI_Grequest_complete", *request => Handle);
    }
    done.len() as c_int
}
