//! Operations that go on while the program computes, as MPI requests.
//!
//! Under MPICH a request asks us how it stands whenever the program waits for or tests it. Elsewhere a
//! thread of ours completes it, which MPI allows where any thread may call it; where not, Open MPI does
//! when the program is in it. Were there an MPI without any of these, the operation would be done before
//! the call returns.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{Handle, Kind, Symbol, abi, call};
use crate::class::{Class, Failure, Result};
use crate::mpi::{self, check, own};
use crate::progress;
use crate::queue::{Promise, Queue};

/// What a request is about.
#[derive(Debug)]
struct State {
    result: Arc<Promise<Result<u64>>>,
    /// The file's own communicator; looked at only while the file cannot be closed.
    comm: Handle,
    /// The request itself, to complete it with.
    request: std::sync::atomic::AtomicUsize,
    completed: std::sync::atomic::AtomicBool,
}

/// Who completes a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completion {
    /// MPI asks us.
    Polled,
    /// The thread that did the work.
    Thread,
    /// Open MPI calls us when the program is in it.
    Hook,
    /// The call that started it.
    Start,
}

fn completion() -> Completion {
    static POLLING: Symbol = Symbol::new(c"PMPIX_Grequest_start");
    if abi().is_some_and(|abi| abi.kind == Kind::Mpich) && POLLING.address().is_some() {
        Completion::Polled
    } else if mpi::threads_may_call() {
        Completion::Thread
    } else if progress::has_hook() {
        Completion::Hook
    } else {
        Completion::Start
    }
}

/// Whether operations can go on while the program computes.
pub fn overlap() -> bool {
    completion() != Completion::Start
}

/// Starts `work` and gives the program a request for it.
///
/// # Safety
/// `place` must be a place for a request.
pub unsafe fn start(
    queue: &Queue,
    place: *mut c_void,
    work: impl FnOnce() -> Result<u64> + Send + 'static,
) -> Result<()> {
    let result = Arc::new(Promise::default());
    let state = Box::into_raw(Box::new(State {
        result: result.clone(),
        comm: queue.comm,
        request: std::sync::atomic::AtomicUsize::new(0),
        completed: std::sync::atomic::AtomicBool::new(false),
    }));
    let completion = completion();
    let started = if completion == Completion::Polled {
        call!(c"PMPIX_Grequest_start", query => Query, free => Free, cancel => Cancel, poll => Poll,
            wait => Wait, state.cast() => *mut c_void, place => *mut c_void)
    } else {
        call!(c"PMPI_Grequest_start", query => Query, free => Free, cancel => Cancel,
            state.cast() => *mut c_void, place => *mut c_void)
    };
    if let Err(failure) = check("MPI_Grequest_start", started) {
        // SAFETY: made above, and MPI does not have it.
        drop(unsafe { Box::from_raw(state) });
        return Err(failure);
    }
    // SAFETY: MPI has just put the request there.
    let request = unsafe { own()?.load(place) };
    // SAFETY: MPI frees the state when the program gives the request back, which it cannot before this
    // call returns.
    let known = unsafe { &*state };
    known
        .request
        .store(request, std::sync::atomic::Ordering::Release);
    if completion == Completion::Start {
        result.keep(work());
        known.complete();
        return Ok(());
    }
    let job = {
        let result = result.clone();
        move || {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            result.keep(done.unwrap_or_else(|_| Err(panicked())));
            match completion {
                Completion::Thread => {
                    let _ = call!(c"PMPI_Grequest_complete", request => Handle);
                }
                Completion::Hook => progress::complete_soon(request),
                Completion::Polled | Completion::Start => {}
            }
        }
    };
    if let Err(failure) = queue.submit(job) {
        result.keep(Err(failure));
        known.complete();
    }
    Ok(())
}

/// What a waiter gets to hear when something went wrong inside.
pub fn panicked() -> Failure {
    Failure::new(Class::Intern, "the operation ended unexpectedly")
}

impl State {
    fn complete(&self) {
        use std::sync::atomic::Ordering;
        if !self.completed.swap(true, Ordering::AcqRel) {
            let request = self.request.load(Ordering::Acquire);
            let _ = call!(c"PMPI_Grequest_complete", request => Handle);
        }
    }
}

type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Poll = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Wait = unsafe extern "C" fn(c_int, *mut *mut c_void, f64, *mut c_void) -> c_int;

unsafe extern "C" fn query(state: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: MPI gives back what `start` gave it.
    let state = unsafe { &*state.cast::<State>() };
    match state.result.wait(state.comm) {
        Ok(bytes) => {
            mpi::set_status(status, bytes);
            0
        }
        Err(failure) => {
            mpi::set_status(status, 0);
            crate::errhandler::raise(None, &failure)
        }
    }
}

unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: MPI calls it once, at the end.
    drop(unsafe { Box::from_raw(state.cast::<State>()) });
    0
}

unsafe extern "C" fn cancel(_state: *mut c_void, _complete: c_int) -> c_int {
    // What is under way goes on; a program may not count on more.
    0
}

unsafe extern "C" fn poll(state: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: as for `query`.
    let state = unsafe { &*state.cast::<State>() };
    if state.result.look().is_some() {
        state.complete();
    } else {
        // MPI_Wait does nothing but call this: the messages that others wait for, and the threads that
        // carry the operation out, must get on.
        mpi::progress(state.comm);
        std::thread::yield_now();
    }
    0
}

unsafe extern "C" fn wait(
    count: c_int,
    states: *mut *mut c_void,
    _timeout: f64,
    _status: *mut c_void,
) -> c_int {
    for number in 0..count.max(0) as usize {
        // SAFETY: MPI gives an array of what `start` gave it.
        let state = unsafe { &*(*states.add(number)).cast::<State>() };
        let _ = state.result.wait(state.comm);
        state.complete();
    }
    0
}
