//! Writes that go on after their answer though their place is given back with it: the library puts the bytes
//! aside ([`trireme::File::write_later`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::behind::{Early, Writing};
use super::handle::Handle;
use super::{Inner, Outcome, library_errno};
use crate::kernel::abi::WriteIn;

/// A write that goes on. Whatever becomes of it, nobody waits for it for ever, and it is not taken for done if it
/// is not.
struct Later {
    inner: Arc<Inner>,
    goes_on: GoesOn,
    writing: Option<Writing>,
    _early: Early,
    offset: u64,
}

/// Keeps an opening from being taken as closed for writing.
struct GoesOn(Arc<Handle>);

impl GoesOn {
    /// None where the manager takes it as closed already.
    fn begin(handle: &Arc<Handle>) -> Option<GoesOn> {
        let resting = handle.resting.try_read().ok()?;
        if *resting {
            return None;
        }
        handle.later.fetch_add(1, Ordering::SeqCst);
        Some(GoesOn(handle.clone()))
    }
}

impl Drop for GoesOn {
    fn drop(&mut self) {
        self.0.later.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inner {
    /// Begins a write that takes no word to anybody and may be answered before it is done; false where nothing
    /// was begun.
    pub(super) fn write_later(
        self: &Arc<Self>,
        what: &WriteIn,
        data: &[u8],
        handle: &Arc<Handle>,
    ) -> bool {
        let (offset, length) = (what.offset, u64::from(what.size));
        let range = offset..offset.saturating_add(length);
        if !self.may_wait(what, handle, false) {
            return false;
        }
        let begun = self.early.take().zip(GoesOn::begin(handle));
        let Some((early, goes_on)) = begun else {
            return false;
        };
        let Some(writing) = handle.behind.begin_now(range) else {
            return false;
        };
        let mut later = Later {
            inner: self.clone(),
            goes_on,
            writing: None,
            _early: early,
            offset,
        };
        let then = move |written: bool, bytes: &[u8]| {
            later.writing = Some(writing);
            if written {
                later.end(bytes.len(), Ok(()));
            } else {
                later.again(bytes.to_vec());
            }
        };
        handle.file.write_later(data, offset, Box::new(then))
    }
}

impl Later {
    /// The servers must do it, which may take its time.
    fn again(self, bytes: Vec<u8>) {
        let write = move || {
            let handle = &self.goes_on.0;
            let result = handle.awake().and_then(|_awake| {
                let written = handle.file.write_at(&bytes, self.offset);
                written.map_err(|error| library_errno(&error))
            });
            self.end(bytes.len(), result);
        };
        let thread = std::thread::Builder::new().name("fuse-late".into());
        if let Err(error) = thread.spawn(write) {
            tracing::warn!("no thread for a write that a server must do: {error}");
        }
    }

    fn end(mut self, length: usize, result: Outcome<()>) {
        if result.is_ok() {
            let handle = &self.goes_on.0;
            (self.inner).note_time(handle, self.offset, length as u64, false);
        }
        let writing = self.writing.take();
        // Whoever waits for the write may be about to close the opening, of which nobody else has it then.
        drop(self);
        if let (Some(writing), Err(errno)) = (writing, result) {
            writing.failed(errno);
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if let Some(writing) = self.writing.take() {
            writing.failed(libc::EIO);
        }
    }
}
