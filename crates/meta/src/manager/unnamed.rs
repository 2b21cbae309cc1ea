//! Files without a name: made and opened in one step, and given a name while nobody removes them.

use super::{Inner, Once, explain};
use crate::failure::{Errno, Failure};
use crate::namespace::{attribute, create, fail, unnamed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trireme_proto::message::meta::{Caller, Entry, OpenMode, Place, Response};

impl Inner {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn open_unnamed(
        self: &Arc<Self>,
        client: u64,
        serial: Once,
        caller: Caller,
        open: u64,
        place: Place,
        access: OpenMode,
        (mode, linkable): (u32, bool),
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        if !access.write {
            let what = "a file without a name that nobody could write to";
            return done(Err(explain(Errno::Inval, what)));
        }
        let (inner, watch) = (self.clone(), self.clone());
        self.change(
            client,
            serial,
            caller,
            move |txn, context| {
                let (id, made) = unnamed::make(txn, context, &place, mode, linkable)?;
                // From here to its opening only this keeps it from being removed.
                watch.sessions().writer_comes(client, open, id);
                attribute::begin_writing(txn, id)?;
                Ok(made.entry(id))
            },
            move |result: Result<Entry, Failure>| {
                let opened = result.and_then(|entry| {
                    inner.todo.fetch_add(1, Ordering::Relaxed);
                    inner.opened(client, open, entry, access, true, true)
                });
                inner.sessions().writer_came(client, open);
                done(opened);
            },
        );
    }

    /// One more name for an inode, or its first.
    pub(super) fn link(
        self: &Arc<Self>,
        client: u64,
        serial: Once,
        caller: Caller,
        from: Place,
        to: Place,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let (inner, watch) = (self.clone(), self.clone());
        // The file that is kept from being removed meanwhile, or 0.
        let kept = Arc::new(AtomicU64::new(0));
        let keep = kept.clone();
        self.change(
            client,
            serial,
            caller,
            move |txn, context| {
                let (id, node) = create::link(txn, context, &from, &to)?;
                // This may run again; it is kept once.
                if node.nlink == 1 && keep.load(Ordering::SeqCst) == 0 {
                    if !watch.sessions().begin_naming(id) {
                        return Err(fail(Errno::NoEnt, &to.path));
                    }
                    keep.store(id, Ordering::SeqCst);
                }
                Ok(node.entry(id))
            },
            move |result| {
                match kept.load(Ordering::SeqCst) {
                    0 => {}
                    id => inner.sessions().named(id),
                }
                done(result.map(Response::Entry));
            },
        );
    }
}
