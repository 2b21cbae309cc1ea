//! One data access routine is a place, a direction, company and a way to wait; all sixty of them are
//! these four functions.

use std::ffi::c_void;
use std::sync::Arc;

use crate::class::{Class, Failure, Result};
use crate::memory::{Described, Memory};
use crate::mpi;
use crate::open::{Open, Split, lock};
use crate::queue::Promise;
use crate::request;
use crate::transfer::Transfer;
use crate::view::Representation;

/// Where in the file an operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this many elementary items.
    At(i64),
    /// At this process's pointer.
    Individual,
    /// At the pointer that all processes share.
    Shared,
    /// At the shared pointer, one process behind the other.
    Ordered,
}

/// How many bytes an operation moved, as the file counts them and as the program does.
#[derive(Clone, Copy, Debug)]
struct Moved {
    file: u64,
    memory: u64,
}

/// Which routine.
#[derive(Clone, Copy, Debug)]
pub struct Routine {
    pub write: bool,
    /// All processes of the file call it.
    pub together: bool,
    pub place: Place,
}

impl Routine {
    fn permitted(&self, open: &Open) -> Result<()> {
        let shared = matches!(self.place, Place::Shared | Place::Ordered);
        open.permits(self.write, shared)
    }

    /// What to move. With `ahead`, pointers move before the bytes do.
    fn prepare(&self, open: &Open, what: Described, ahead: bool) -> Result<(Transfer, Memory)> {
        let view = open.view();
        let memory = if view.representation == Representation::External32 {
            Memory::external(what, self.write)?
        } else {
            Memory::new(what, self.write)?
        };
        let bytes = memory.bytes;
        if !bytes.is_multiple_of(view.unit) {
            let why = format!(
                "{bytes} bytes are no whole number of elementary items of {} bytes",
                view.unit
            );
            return Err(Failure::new(Class::Io, why));
        }
        let at = match self.place {
            Place::At(offset) => u64::try_from(offset)
                .ok()
                .and_then(|offset| offset.checked_mul(view.unit))
                .ok_or_else(|| Failure::new(Class::Arg, format!("an offset of {offset}")))?,
            Place::Individual => {
                let mut position = lock(&open.position);
                let at = *position;
                if ahead {
                    *position += bytes;
                }
                at
            }
            Place::Shared => open.move_shared(|old| Ok(old + bytes))?,
            Place::Ordered => 0,
        };
        // Where it begins in the order of ranks is not known yet.
        let from = if self.place == Place::Ordered {
            u64::MAX
        } else {
            at
        };
        view.unfold(from, bytes);
        let write = self.write;
        Ok((Transfer { view, at, write }, memory))
    }

    /// In the order of ranks, everybody must say how much, even who has nothing to move.
    fn line_up(&self, open: &Open, prepared: &mut Result<(Transfer, Memory)>) -> Result<()> {
        if self.place == Place::Ordered {
            let bytes = prepared.as_ref().map_or(0, |(_, memory)| memory.bytes);
            let at = open.ordered(bytes)?;
            if let Ok((transfer, _)) = prepared {
                transfer.at = at;
            }
        } else if self.together {
            // However late one of them is: what follows has a deadline.
            open.comm.meet()?;
        }
        Ok(())
    }

    /// Moves the bytes; who cannot still takes part, so that the others need not wait for it.
    fn carry_out(self, open: &Open, prepared: Result<(Transfer, Memory)>) -> Result<Moved> {
        match prepared {
            Ok((transfer, mut memory)) => {
                let moved = if self.together {
                    transfer.together(open, &mut memory)?
                } else {
                    transfer.alone(open, &mut memory)?
                };
                if !self.write {
                    memory.finish_read(moved)?;
                }
                Ok(Moved {
                    file: moved,
                    memory: memory.in_memory(moved),
                })
            }
            Err(failure) => {
                if self.together {
                    let (view, write) = (open.view(), self.write);
                    let nothing = Transfer { view, at: 0, write };
                    let _ = nothing.together(open, &mut Memory::none());
                }
                Err(failure)
            }
        }
    }

    /// The blocking routines.
    pub fn block(self, open: &Open, what: Described, status: *mut c_void) -> Result<()> {
        self.permitted(open)?;
        if self.together {
            open.joint.drain();
        }
        let mut prepared = self.prepare(open, what, false);
        self.line_up(open, &mut prepared)?;
        let from = prepared.as_ref().map_or(0, |(transfer, _)| transfer.at);
        let moved = self.carry_out(open, prepared)?;
        if self.place == Place::Individual {
            *lock(&open.position) = from + moved.file;
        }
        mpi::set_status(status, moved.memory);
        Ok(())
    }

    /// The nonblocking routines.
    ///
    /// # Safety
    /// `request` must be a place for a request.
    pub unsafe fn start(
        self,
        open: &Arc<Open>,
        what: Described,
        request: *mut c_void,
    ) -> Result<()> {
        self.permitted(open)?;
        let prepared = self.prepare(open, what, true);
        if prepared.is_err() && !self.together {
            return prepared.map(drop);
        }
        if self.together && !request::overlap() {
            open.joint.drain();
            open.comm.meet()?;
        }
        let queue = if self.together {
            &open.joint
        } else {
            &open.alone
        };
        let shared = open.clone();
        let work = move || Ok(self.carry_out(&shared, prepared)?.memory);
        // SAFETY: the caller's promise.
        unsafe { request::start(queue, request, work) }
    }

    /// The first half of a split collective.
    pub fn begin(self, open: &Arc<Open>, routine: &'static str, what: Described) -> Result<()> {
        self.permitted(open)?;
        if let Some(split) = lock(&open.split).as_ref() {
            let why = format!("{routine}_begin before {}_end", split.routine);
            return Err(Failure::new(Class::Other, why));
        }
        open.joint.drain();
        let mut prepared = self.prepare(open, what, true);
        self.line_up(open, &mut prepared)?;
        let result = Arc::new(Promise::default());
        let (shared, kept) = (open.clone(), result.clone());
        open.joint.submit(move || {
            let work = || Ok(self.carry_out(&shared, prepared)?.memory);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            kept.keep(done.unwrap_or_else(|_| Err(request::panicked())));
        })?;
        *lock(&open.split) = Some(Split { routine, result });
        Ok(())
    }
}

/// The second half of a split collective.
pub fn end(open: &Open, routine: &'static str, status: *mut c_void) -> Result<()> {
    let split = {
        let mut split = lock(&open.split);
        match split.as_ref() {
            Some(begun) if begun.routine == routine => split.take(),
            Some(begun) => {
                let why = format!("{routine}_end after {}_begin", begun.routine);
                return Err(Failure::new(Class::Other, why));
            }
            None => {
                let why = format!("{routine}_end without its begin");
                return Err(Failure::new(Class::Other, why));
            }
        }
    };
    let moved = split.map_or(Ok(0), |split| split.result.wait(open.comm.handle))?;
    mpi::set_status(status, moved);
    Ok(())
}
