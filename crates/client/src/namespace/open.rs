//! Open files, as the manager knows them: which, for what, and how to open them again after it
//! has restarted.

use super::{Namespace, NetError, answer, unexpected};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trireme_proto::Op;
use trireme_proto::message::meta::{
    Attr, Call, Entry, LEASE_SECONDS, LayoutWish, LockRange, Making, OpenMode, Opened, Place,
    Request, Response, Time,
};
use trireme_proto::refusal::errno;

/// How often a client with open files or locks looks whether the manager restarted: often enough
/// to reclaim them within the lease.
const HEARTBEAT: Duration = Duration::from_secs(LEASE_SECONDS / 6);

#[derive(Default)]
pub(super) struct State {
    pub opens: Mutex<HashMap<u64, (u64, OpenMode)>>,
    pub locks: Mutex<Vec<LockRange>>,
    next: AtomicU64,
    beating: AtomicBool,
}

/// An open file's name at the manager; give it back with [`Namespace::close`].
#[derive(Debug, Clone)]
pub struct OpenFile {
    /// What the manager said.
    pub opened: Opened,
}

impl Namespace {
    /// Opens a file, or creates it with mode and layout wish when `create` says so.
    pub fn open(
        &self,
        place: Place,
        access: OpenMode,
        create: Option<(u32, LayoutWish)>,
        exclusive: bool,
    ) -> Result<OpenFile, NetError> {
        let open = self.opening_number();
        let request = Request::Open {
            open,
            place,
            access,
            create,
            exclusive,
        };
        self.open_by(request, open, access)
    }

    /// Makes a file without a name, by the rules of the directory at `place`, and opens it. It goes with
    /// its last opening, unless it is `linkable` and gets a name before.
    pub fn open_unnamed(
        &self,
        place: Place,
        access: OpenMode,
        mode: u32,
        linkable: bool,
    ) -> Result<OpenFile, NetError> {
        let open = self.opening_number();
        let request = Request::OpenUnnamed {
            open,
            place,
            access,
            mode,
            linkable,
        };
        self.open_by(request, open, access)
    }

    fn opening_number(&self) -> u64 {
        self.shared.state.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn open_by(&self, request: Request, open: u64, access: OpenMode) -> Result<OpenFile, NetError> {
        let opened = answer!(self.change(request)?, Response::Opened(opened) => opened)?;
        let inode = opened.entry.attr.inode;
        self.opens().insert(open, (inode, access));
        self.beat();
        Ok(OpenFile { opened })
    }

    /// Tells what was written: `size` is the end of the furthest byte known. Durable on return.
    pub fn report(&self, open: u64, size: u64, written: bool) -> Result<Attr, NetError> {
        self.report_with(open, size, written, None, false)
    }

    /// The same with the time of the last write; `rest` says that nothing more is written until
    /// [`Namespace::resume`], so that the size can be settled as if the file were closed.
    pub fn report_with(
        &self,
        open: u64,
        size: u64,
        written: bool,
        when: Option<Time>,
        rest: bool,
    ) -> Result<Attr, NetError> {
        let request = Request::Report {
            open,
            size,
            written,
            when,
            rest,
        };
        answer!(self.about_open(request)?, Response::Attr(attr) => attr)
    }

    /// Tells that a file's space may no longer be what its size says.
    pub fn sparse(&self, open: u64) -> Result<(), NetError> {
        answer!(self.about_open(Request::Sparse { open })?, Response::Done => ())
    }

    /// Goes on writing after a rest.
    pub fn resume(&self, open: u64) -> Result<(), NetError> {
        answer!(self.about_open(Request::Resume { open })?, Response::Done => ())
    }

    /// Closes; `size` as in [`Namespace::report`] when something was written. Gives the attributes
    /// that the file has then, if it was open for writing.
    pub fn close(
        &self,
        open: u64,
        size: Option<u64>,
        when: Option<Time>,
    ) -> Result<Option<Attr>, NetError> {
        let result = self.about_open(Request::Close { open, size, when });
        self.opens().remove(&open);
        match result? {
            Response::Attr(attr) => Ok(Some(attr)),
            Response::Done => Ok(None),
            _ => Err(unexpected()),
        }
    }

    /// Notes when inodes were read.
    pub fn accessed(&self, times: Vec<(u64, Time)>) -> Result<(), NetError> {
        answer!(self.ask(Request::Accessed { times })?, Response::Done => ())
    }

    /// Sets a file's size, on all servers.
    pub fn truncate(&self, place: Place, size: u64, open: Option<u64>) -> Result<Entry, NetError> {
        let request = Request::Truncate { place, size, open };
        answer!(self.about_open(request)?, Response::Entry(entry) => entry)
    }

    /// A request about an opening, which a manager that just restarted may not know yet.
    fn about_open(&self, request: Request) -> Result<Response, NetError> {
        const EBADF: i32 = 9;
        match self.ask(request.clone()) {
            Err(NetError::Refused { source, .. }) if source.errno == EBADF => {
                self.recover();
                self.ask(request)
            }
            result => result,
        }
    }

    pub(super) fn recover(&self) {
        let opens: Vec<_> = self
            .opens()
            .iter()
            .map(|(open, what)| (*open, *what))
            .collect();
        let locks = self.locks().clone();
        let deadline = trireme_net::Deadline::after(self.call_time());
        let again = opens
            .into_iter()
            .map(|(open, (inode, access))| Request::Reopen {
                open,
                inode,
                access,
            })
            .chain(locks.into_iter().map(|range| Request::Lock {
                range,
                reclaim: true,
                wait: false,
                patience_ms: 0,
            }));
        for request in again {
            let call = Call {
                caller: self.caller.clone(),
                serial: 0,
                soft: self.soft,
                making: self.making,
                request,
            };
            // A file that is gone, or a lock that somebody else got, shows at its next use.
            let result: Result<Response, NetError> =
                self.shared.pool.call(Op::META, &call, deadline);
            if let Err(error) = result {
                tracing::warn!("after the manager's restart: {error}");
                if error.errno() == errno::ETIMEDOUT {
                    return;
                }
            }
        }
    }

    /// Starts the heartbeat, once there is something to keep.
    pub(super) fn beat(&self) {
        if self.shared.state.beating.swap(true, Ordering::Relaxed) {
            return;
        }
        let weak = Arc::downgrade(&self.shared);
        let call_time = self.call_time;
        let thread = std::thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || {
                loop {
                    std::thread::sleep(HEARTBEAT);
                    let Some(shared) = weak.upgrade() else {
                        return;
                    };
                    let namespace = Namespace {
                        shared,
                        call_time,
                        caller: None,
                        soft: false,
                        making: Making::default(),
                    };
                    if !namespace.opens().is_empty() || !namespace.locks().is_empty() {
                        // Its only purpose is to notice another incarnation.
                        let _ = namespace.statfs();
                    }
                }
            });
        if thread.is_err() {
            self.shared.state.beating.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn opens(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (u64, OpenMode)>> {
        self.shared
            .state
            .opens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn locks(&self) -> std::sync::MutexGuard<'_, Vec<LockRange>> {
        self.shared
            .state
            .locks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
