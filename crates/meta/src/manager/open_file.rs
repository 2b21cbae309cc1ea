//! Open files: who writes, how large a file is, and truncation in two durable steps.

use super::{Inner, explain};
use crate::failure::{Errno, Failure};
use crate::namespace::attribute::{self, Written};
use crate::namespace::{self, Context, create, directory, fail, path, permission};
use crate::record::{Body, Inode, Todo};
use crate::txn::{Read, Reader, Txn};
use crate::{key, record};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use trireme_proto::key::{Grant, Rights};
use trireme_proto::limits::FILE_BYTES;
use trireme_proto::message::meta::{
    CAPABILITY, Caller, Entry, Kind, LayoutWish, Making, Node, OpenMode, Opened, Place, Response,
    SYMLINK_LIMIT, Time,
};

/// How long a truncation waits for others of the same file.
const TURN_TIME: Duration = Duration::from_secs(30);

impl Inner {
    fn grant(&self, inode: u64, access: OpenMode) -> Grant {
        let rights = match (access.read, access.write) {
            (true, true) => Rights::READ_WRITE,
            (false, true) => Rights::WRITE,
            _ => Rights::READ,
        };
        self.options.token_key.grant(inode, rights)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn open_file(
        self: &Arc<Self>,
        client: u64,
        serial: super::Once,
        caller: Caller,
        open: u64,
        place: Place,
        access: OpenMode,
        create: Option<(u32, LayoutWish)>,
        exclusive: bool,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        if !access.read && !access.write {
            return done(Err(explain(
                Errno::Inval,
                "open for neither reading nor writing",
            )));
        }
        if create.is_none() && !access.write {
            return done(self.open_for_reading(client, &caller, open, &place, access));
        }
        let (inner, watch) = (self.clone(), self.clone());
        self.change(
            client,
            serial,
            caller,
            move |txn, context| {
                let (id, node, created) = if let Some((mode, wish)) = &create {
                    open_or_create(txn, context, &place, *mode, wish, exclusive, access)?
                } else {
                    let (id, node) = path::resolve(txn, context, &place, true)?;
                    may_open(context, &node, access, &place)?;
                    (id, node, false)
                };
                let settled = node.settled;
                if access.write {
                    watch.sessions().writer_comes(client, open, id);
                    attribute::begin_writing(txn, id)?;
                }
                Ok((node.entry(id), created, settled))
            },
            move |result: Result<(Entry, bool, bool), Failure>| {
                let opened = result.and_then(|(entry, created, settled)| {
                    inner.opened(client, open, entry, access, created, settled)
                });
                inner.sessions().writer_came(client, open);
                done(opened);
            },
        );
    }

    fn open_for_reading(
        &self,
        client: u64,
        caller: &Caller,
        open: u64,
        place: &Place,
        access: OpenMode,
    ) -> Result<Response, Failure> {
        let context = Context {
            caller,
            secret: &self.superblock.secret,
            servers: &[],
            making: Making::default(),
        };
        let entry = self.read(|read| {
            let (id, node) = path::resolve(read, &context, place, true)?;
            may_open(&context, &node, access, place)?;
            Ok(node.entry(id))
        })?;
        self.opened(client, open, entry, access, false, true)
    }

    /// Notes an opening, then makes sure that the file was not erased just before.
    pub(super) fn opened(
        &self,
        client: u64,
        open: u64,
        entry: Entry,
        access: OpenMode,
        created: bool,
        settled: bool,
    ) -> Result<Response, Failure> {
        let inode = entry.attr.inode;
        self.sessions().open(client, open, inode, access, settled)?;
        let there = Reader::new(&self.cache).bytes(&key::inode(inode));
        if !matches!(there, Ok(Some(_))) {
            let _ = self.sessions().close(client, open);
            there?;
            return Err(explain(Errno::NoEnt, format!("inode {inode}")));
        }
        let grant = self.grant(inode, access);
        let capability = access.write && !created && self.has_capability(inode)?;
        Ok(Response::Opened(Opened {
            entry,
            open,
            grant,
            created,
            capability,
        }))
    }

    fn has_capability(&self, inode: u64) -> Result<bool, Failure> {
        let key = key::xattr(inode, CAPABILITY);
        Ok(Reader::new(&self.cache).bytes(&key)?.is_some())
    }

    pub(super) fn reopen(
        &self,
        client: u64,
        caller: &Caller,
        open: u64,
        inode: u64,
        access: OpenMode,
    ) -> Result<Response, Failure> {
        let node = self.read(|read| namespace::inode(read, inode))?;
        let context = Context {
            caller,
            secret: &self.superblock.secret,
            servers: &[],
            making: Making::default(),
        };
        may_open(&context, &node, access, &Place::inode(inode))?;
        // Nobody knows what other writers of before the restart have written.
        self.sessions().open(client, open, inode, access, false)?;
        let grant = self.grant(inode, access);
        let entry = node.entry(inode);
        let capability = access.write && self.has_capability(inode)?;
        Ok(Response::Opened(Opened {
            entry,
            open,
            grant,
            created: false,
            capability,
        }))
    }

    /// The file behind an opening for writing.
    fn written_through(&self, client: u64, open: u64) -> Result<u64, Failure> {
        let (inode, writes) = self.sessions().opening(client, open)?;
        if !writes {
            return Err(explain(Errno::BadF, "not open for writing"));
        }
        Ok(inode)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn report(
        self: &Arc<Self>,
        client: u64,
        caller: Caller,
        open: u64,
        size: u64,
        when: Option<Time>,
        [written, rest, soft]: [bool; 3],
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let inode = match self.written_through(client, open) {
            Ok(inode) => inode,
            Err(failure) => return done(Err(failure)),
        };
        let settle = rest
            && match self.sessions().rest(client, open) {
                Ok(rested) => {
                    if rested.wrote && !rested.settle {
                        self.leave_unsettled(inode);
                    }
                    rested.settle
                }
                Err(failure) => return done(Err(failure)),
            };
        let inner = self.clone();
        self.queue.submit_as(
            soft,
            move |txn| {
                let what = Written {
                    size: Some(size),
                    stamp: written,
                    // Somebody may have opened it for writing again meanwhile.
                    settle: settle && inner.sessions().no_writer(inode),
                    exact: None,
                    writer: caller.clone(),
                    when,
                };
                attribute::written(txn, inode, &what).map(|node| node.attr(inode))
            },
            |result| done(result.map(Response::Attr)),
        );
    }

    pub(super) fn becomes_sparse(
        self: &Arc<Self>,
        client: u64,
        open: u64,
        soft: bool,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let inode = match self.written_through(client, open) {
            Ok(inode) => inode,
            Err(failure) => return done(Err(failure)),
        };
        self.queue.submit_as(
            soft,
            move |txn| attribute::becomes_sparse(txn, inode),
            |result| done(result.map(|()| Response::Done)),
        );
    }

    pub(super) fn resume(
        self: &Arc<Self>,
        client: u64,
        open: u64,
        soft: bool,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let inode = match self.written_through(client, open) {
            Ok(inode) => inode,
            Err(failure) => return done(Err(failure)),
        };
        let node = Reader::new(&self.cache).record::<Inode>(&key::inode(inode));
        let settled = matches!(node, Ok(Some(node)) if node.settled);
        // First the session, then the record: nobody settles in between.
        if let Err(failure) = self.sessions().resume(client, open, settled) {
            return done(Err(failure));
        }
        self.queue.submit_as(
            soft,
            move |txn| attribute::begin_writing(txn, inode).map(|_| ()),
            |result| done(result.map(|()| Response::Done)),
        );
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn close(
        self: &Arc<Self>,
        client: u64,
        caller: Caller,
        open: u64,
        size: Option<u64>,
        when: Option<Time>,
        soft: bool,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let closed = match self.sessions().close(client, open) {
            Ok(closed) => closed,
            Err(failure) => return done(Err(failure)),
        };
        if !closed.wrote {
            return done(Ok(Response::Done));
        }
        let inode = closed.inode;
        if !closed.settle {
            self.leave_unsettled(inode);
        }
        let inner = self.clone();
        self.queue.submit_as(
            soft,
            move |txn| {
                // Somebody may have opened it for writing again meanwhile.
                let settle = closed.settle && inner.sessions().no_writer(inode);
                if closed.settle && !settle {
                    inner.leave_unsettled(inode);
                }
                let what = Written {
                    size,
                    stamp: size.is_some(),
                    settle,
                    exact: None,
                    writer: caller.clone(),
                    when,
                };
                match attribute::written(txn, inode, &what) {
                    Err(failure) if failure.errno == Errno::Stale => Ok(Response::Done),
                    result => result.map(|node| Response::Attr(node.attr(inode))),
                }
            },
            done,
        );
    }

    pub(super) fn leave_unsettled(&self, inode: u64) {
        self.unsettled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(inode);
    }

    pub(super) fn truncate(
        self: &Arc<Self>,
        client: u64,
        caller: Caller,
        place: Place,
        size: u64,
        open: Option<u64>,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let mut place = place;
        if let Some(open) = open {
            match self.sessions().opening(client, open) {
                Ok((inode, true)) => place = Place::inode(inode),
                Ok((_, false)) => return done(Err(explain(Errno::Inval, "not open for writing"))),
                Err(failure) => return done(Err(failure)),
            }
        }
        let inner = self.clone();
        // Waits for I/O servers: not on the connection's thread, which others' calls share.
        std::thread::spawn(move || {
            done(
                inner
                    .truncate_now(client, &caller, &place, size, open.is_some())
                    .map(Response::Entry),
            );
        });
    }

    fn truncate_now(
        self: &Arc<Self>,
        client: u64,
        caller: &Caller,
        place: &Place,
        size: u64,
        opened: bool,
    ) -> Result<Entry, Failure> {
        let secret = self.superblock.secret;
        let context = Context {
            caller,
            secret: &secret,
            servers: &[],
            making: Making::default(),
        };
        let (inode, node) = self.read(|read| path::resolve(read, &context, place, true))?;
        // Nothing was ever written and nothing is wanted: spare the round to the servers.
        let nothing = size == 0 && !node.touched;
        // Before anything is said or done: one disk may have longer files than another.
        if let Some(layout) = node.layout()
            && size > node.size
            && size <= FILE_BYTES
        {
            self.subfiles()?.check(inode, layout, size)?;
        }
        let _turn = self.take_turn(inode)?;
        let (caller, place) = (caller.clone(), place.clone());
        let (inode, node) = self.queue.run(move |txn| {
            let context = Context {
                caller: &caller,
                secret: &secret,
                servers: &[],
                making: Making::default(),
            };
            attribute::begin_truncate(txn, &context, &place, size, opened)
        })?;
        let layout = node
            .layout()
            .ok_or_else(|| explain(Errno::Inval, "not a file"))?;
        if !nothing {
            let cut = self
                .subfiles()
                .and_then(|subfiles| subfiles.truncate(inode, layout, size));
            if let Err(failure) = cut {
                // The caller hears that it failed, so it must not come true later, when others
                // have written what it would cut off.
                self.drop_truncate(inode)?;
                return Err(failure);
            }
        }
        let settle = self.sessions().truncated(inode, opened);
        let node = self.finish_truncate(Some(client), inode, size, settle)?;
        Ok(node.entry(inode))
    }

    fn finish_truncate(
        self: &Arc<Self>,
        client: Option<u64>,
        inode: u64,
        size: u64,
        settle: bool,
    ) -> Result<Inode, Failure> {
        let inner = self.clone();
        self.queue.run(move |txn| {
            // Somebody may have opened it for writing meanwhile.
            let settle = settle && inner.sessions().no_writer(inode);
            // Who has said that it leaves holes does not say so again: all but the one that cut the file,
            // which knows.
            let holes = client.is_some_and(|client| inner.sessions().others_write(client, inode));
            attribute::finish_truncate(txn, inode, size, settle, holes)
        })
    }

    fn drop_truncate(&self, inode: u64) -> Result<(), Failure> {
        self.queue.run(move |txn| {
            attribute::drop_truncate(txn, inode);
            Ok(())
        })
    }

    /// Finishes a truncate that a crash of the manager interrupted, whose caller never heard how it
    /// went; dropped as soon as somebody writes to the file.
    pub(super) fn resume_truncate(self: &Arc<Self>, inode: u64) -> Result<(), Failure> {
        let Some(_turn) = self.try_turn(inode) else {
            return Ok(());
        };
        if !self.sessions().no_writer(inode) {
            return self.drop_truncate(inode);
        }
        let mut reader = Reader::uncached(&self.cache);
        let Some(Todo::Truncate(size)) = reader.record(&key::todo(inode, 1))? else {
            return Ok(());
        };
        let Some(node) = reader.record::<Inode>(&key::inode(inode))? else {
            return self.queue.run(move |txn| {
                txn.delete(key::todo(inode, 1));
                Ok(())
            });
        };
        if let Body::File(layout) = &node.body {
            self.subfiles()?.truncate(inode, layout, size)?;
        }
        let settle = self.sessions().truncated(inode, false);
        self.finish_truncate(None, inode, size, settle)?;
        Ok(())
    }

    /// Asks the servers how large a file is that no writer settled, and writes it down.
    pub(super) fn settle(self: &Arc<Self>, inode: u64) -> Result<(), Failure> {
        let mut reader = Reader::uncached(&self.cache);
        let Some(node) = reader.record::<Inode>(&key::inode(inode))? else {
            return Ok(());
        };
        let Body::File(layout) = &node.body else {
            return Ok(());
        };
        if node.settled || !self.sessions().no_writer(inode) {
            return Ok(());
        }
        let exact = self.subfiles()?.size(inode, layout)?;
        // Whoever opened, wrote and closed meanwhile has changed the record: then not this time.
        let seen = record::encode(&node);
        let inner = self.clone();
        self.queue.run(move |txn| {
            let same = txn.bytes(&key::inode(inode))?.as_deref() == Some(&*seen);
            if same && inner.sessions().no_writer(inode) {
                let what = Written {
                    size: None,
                    stamp: false,
                    settle: true,
                    exact: Some(exact),
                    writer: Caller::default(),
                    when: None,
                };
                attribute::written(txn, inode, &what)?;
            }
            Ok(())
        })
    }

    /// Waits for others that cut the same file, each of whom has a deadline of its own.
    fn take_turn(&self, inode: u64) -> Result<Turn<'_>, Failure> {
        let begin = Instant::now();
        let mut cutting = self.cutting.lock().unwrap_or_else(PoisonError::into_inner);
        while !cutting.insert(inode) {
            let Some(left) = TURN_TIME.checked_sub(begin.elapsed()) else {
                let what = "others have been cutting the same file for too long; try again";
                return Err(explain(Errno::TimedOut, what));
            };
            cutting = self
                .cut
                .wait_timeout(cutting, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(Turn { inner: self, inode })
    }

    fn try_turn(&self, inode: u64) -> Option<Turn<'_>> {
        let mut cutting = self.cutting.lock().unwrap_or_else(PoisonError::into_inner);
        // Not `then_some`: a turn that is made and not wanted would be given back, somebody else's, and
        // under the lock that this function holds.
        cutting.insert(inode).then(|| Turn { inner: self, inode })
    }
}

struct Turn<'a> {
    inner: &'a Inner,
    inode: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut cutting = self
            .inner
            .cutting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        cutting.remove(&self.inode);
        self.inner.cut.notify_all();
    }
}

fn may_open(
    context: &Context<'_>,
    node: &Inode,
    access: OpenMode,
    place: &Place,
) -> Result<(), Failure> {
    match node.kind {
        Kind::File => {}
        Kind::Directory => return Err(fail(Errno::IsDir, &place.path)),
        Kind::Symlink => return Err(fail(Errno::Loop, &place.path)),
        _ => return Err(fail(Errno::NotSup, &place.path)),
    }
    let mut mask = 0;
    if access.read {
        mask |= permission::READ;
    }
    if access.write {
        mask |= permission::WRITE;
    }
    permission::require(context, node, mask, &place.path)
}

/// `O_CREAT`: opens what is there or makes it, following symbolic links that lead nowhere yet.
fn open_or_create(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    mode: u32,
    wish: &LayoutWish,
    exclusive: bool,
    access: OpenMode,
) -> Result<(u64, Inode, bool), Failure> {
    let mut place = place.clone();
    for _ in 0..SYMLINK_LIMIT {
        let parent = path::parent(txn, context, &place)?;
        if place.path.is_empty() || matches!(parent.name.as_slice(), b"" | b"." | b"..") {
            return Err(fail(Errno::IsDir, &place.path));
        }
        let Some(found) = directory::find(txn, context.secret, parent.id, &parent.name)? else {
            if parent.slash {
                return Err(fail(Errno::IsDir, &place.path));
            }
            let node = Node::File(wish.clone());
            let (id, node) = create::make(txn, context, &parent, mode, &node)?;
            return Ok((id, node, true));
        };
        if exclusive {
            return Err(fail(Errno::Exist, &parent.name));
        }
        let node = namespace::inode(txn, found.inode)?;
        if let Body::Symlink(target) = node.body {
            place = Place {
                base: parent.id,
                path: target,
            };
            continue;
        }
        if parent.slash {
            return Err(fail(Errno::NotDir, &parent.name));
        }
        may_open(context, &node, access, &place)?;
        return Ok((found.inode, node, false));
    }
    Err(fail(Errno::Loop, &place.path))
}
