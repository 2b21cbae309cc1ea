//! What the manager hears of an open file: how far it was written, and that it was closed.

use std::sync::atomic::Ordering;

use trireme_net::Deadline;
use trireme_proto::Op;
use trireme_proto::message::meta::{Call, Request, Response};

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
        let request = Request::Report {
            open: self.opened.open,
            size,
            written: true,
        };
        let call = Call {
            serial: 0,
            caller: None,
            request,
        };
        let deadline = self.cluster.deadline();
        self.cluster
            .shared
            .manager
            .call::<_, Response>(Op::META, &call, deadline)?;
        Ok(())
    }

    fn close(&self, deadline: Deadline) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let wrote = self.wrote.load(Ordering::Relaxed);
        let size = wrote.then(|| self.end.load(Ordering::Relaxed));
        let request = Request::Close {
            open: self.opened.open,
            size,
        };
        let call = Call {
            serial: 0,
            caller: None,
            request,
        };
        self.cluster
            .shared
            .manager
            .call::<_, Response>(Op::META, &call, deadline)?;
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
