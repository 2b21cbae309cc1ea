//! What the manager hears of an open file: how far it was written, and that it was closed.

use std::sync::atomic::Ordering;

use trireme_net::Deadline;
use trireme_proto::message::meta::{Attr, Time};

use super::{File, Inner};
use crate::Result;

/// What a report says of a file's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// It was written now.
    Now,
    /// It was last written at this time.
    At(Time),
    /// They were set by hand after the last write: leave them.
    Keep,
}

impl File {
    /// Closes the file; dropping it does the same but cannot tell of an error.
    pub fn close(self) -> Result<()> {
        self.inner.close(None, self.inner.cluster.deadline())?;
        Ok(())
    }

    /// Closes the file, whose last write was at `when`; gives the attributes that it has then, if it
    /// was open for writing.
    pub fn close_at(self, when: Option<Time>) -> Result<Option<Attr>> {
        self.inner.close(when, self.inner.cluster.deadline())
    }

    /// Whether something was written that the manager has not heard of yet.
    pub fn has_news(&self) -> bool {
        self.inner.wrote.load(Ordering::SeqCst)
    }

    /// Tells the manager how far this opening has written and when. With `rest` the caller promises
    /// to write nothing more before [`File::resume`], so that the size can be settled already.
    pub fn report_at(&self, times: Times, rest: bool) -> Result<Attr> {
        self.inner.report_with(times, rest)
    }

    /// Says that something is about to be written: what must not outlive that (file capabilities, and
    /// set-id bits where the writer is not root) goes, before any byte changes.
    pub fn will_write(&self) -> Result<Attr> {
        let namespace = self.inner.cluster.namespace();
        Ok(namespace.report_with(self.inner.opened.open, 0, true, None, false)?)
    }

    /// Whether the file carried capabilities when it was opened for writing.
    pub fn had_capability(&self) -> bool {
        self.inner.opened.capability
    }

    /// Goes on writing after a rest.
    pub fn resume(&self) -> Result<()> {
        let namespace = self.inner.cluster.namespace();
        Ok(namespace.resume(self.inner.opened.open)?)
    }
}

impl Inner {
    /// Tells the manager durably how far this opening has written.
    pub(crate) fn report(&self) -> Result<()> {
        if !self.wrote.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.report_with(Times::Now, false)?;
        Ok(())
    }

    /// The same with the time of the last write, also when nothing was written since the last time.
    fn report_with(&self, times: Times, rest: bool) -> Result<Attr> {
        // What is written from here on is for the next report to tell.
        let wrote = self.wrote.swap(false, Ordering::SeqCst);
        // What was told is the manager's business: somebody else may cut the file from now on.
        let size = self.end.swap(0, Ordering::SeqCst);
        let namespace = self.cluster.namespace();
        let (stamp, when) = match times {
            Times::Keep => (false, None),
            Times::Now => (wrote, None),
            Times::At(when) => (wrote, Some(when)),
        };
        let told = namespace.report_with(self.opened.open, size, stamp, when, rest);
        if told.is_err() {
            self.end.fetch_max(size, Ordering::SeqCst);
            if wrote {
                self.wrote.store(true, Ordering::SeqCst);
            }
        }
        Ok(told?)
    }

    fn close(&self, when: Option<Time>, deadline: Deadline) -> Result<Option<Attr>> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(None);
        }
        let wrote = self.wrote.load(Ordering::Relaxed);
        let size = wrote.then(|| self.end.load(Ordering::Relaxed));
        let namespace = self.cluster.namespace();
        let namespace = namespace.with_call_time(deadline.left());
        Ok(namespace.close(self.opened.open, size, when)?)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A manager that is away learns of it when this client's lease ends: do not wait for it.
        let moment = Deadline::after(std::time::Duration::from_secs(2));
        if let Err(error) = self.close(None, moment) {
            tracing::debug!(
                "the manager did not hear that file {} was closed: {error}",
                self.opened.grant.file
            );
        }
    }
}
