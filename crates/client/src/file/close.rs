//! What the manager hears of an open file: how far it was written, and that it was closed.

use std::sync::atomic::Ordering;

use trireme_net::Deadline;

use super::{File, Inner};
use crate::Result;

impl File {
    /// Closes the file; dropping it does the same but cannot tell of an error.
    pub fn close(self) -> Result<()> {
        self.inner.close(self.inner.cluster.deadline())
    }
}

impl Inner {
    /// Tells the manager durably how far this opening has written.
    pub(crate) fn report(&self) -> Result<()> {
        if !self.wrote.load(Ordering::Relaxed) {
            return Ok(());
        }
        let size = self.end.load(Ordering::Relaxed);
        let namespace = self.cluster.namespace();
        namespace.report(self.opened.open, size, true)?;
        Ok(())
    }

    fn close(&self, deadline: Deadline) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let wrote = self.wrote.load(Ordering::Relaxed);
        let size = wrote.then(|| self.end.load(Ordering::Relaxed));
        let namespace = self.cluster.namespace();
        let namespace = namespace.with_call_time(deadline.left());
        namespace.close(self.opened.open, size)?;
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A manager that is away learns of it when this client's lease ends: do not wait for it.
        let moment = Deadline::after(std::time::Duration::from_secs(2));
        if let Err(error) = self.close(moment) {
            tracing::debug!(
                "the manager did not hear that file {} was closed: {error}",
                self.opened.grant.file
            );
        }
    }
}
