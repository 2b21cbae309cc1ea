//! Which code answers which call: reads at once, changes through the queue, for callers who may ask for it.

use super::{Inner, Once, SOFT, Who, listing};
use crate::failure::{Errno, Failure};
use crate::namespace::{
    self, Context, attribute, create, explain, fail, path, permission, remove, rename, xattr,
};
use crate::wait::Answer;
use crate::{check, record};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trireme_proto::message::meta::{Call, Caller, GROUPS_LIMIT, Making, Request, Response};

impl Inner {
    pub(super) fn dispatch(self: &Arc<Self>, who: &Who, call: Call, answer: Answer) {
        let caller = match call.caller {
            Some(caller) if who.trusted || caller == who.caller => caller,
            Some(caller) => {
                let what = format!("user {} may not act as user {}", who.caller.uid, caller.uid);
                return answer(Err(explain(Errno::Perm, what)));
            }
            None => who.caller.clone(),
        };
        if caller.groups.len() > GROUPS_LIMIT {
            let what = format!("{} groups (at most {GROUPS_LIMIT})", caller.groups.len());
            return answer(Err(explain(Errno::Inval, what)));
        }
        // As it is now: servers on the same disk fill it within one look of the janitor's, and what is kept for
        // removing must not go into more files.
        if listing::grows(&call.request) && self.is_full() {
            let what = "the metadata manager's disk is nearly full; free some space on it";
            return answer(Err(explain(Errno::NoSpc, what)));
        }
        let client = who.client;
        let soft = call.soft;
        let serial = Once {
            serial: call.serial,
            soft,
            making: call.making,
        };
        if soft
            && !self.soft.load(Ordering::SeqCst)
            && let Err(failure) = self.begin_soft()
        {
            return answer(Err(failure));
        }
        let done = move |result: Result<Response, Failure>| answer(result);
        match call.request {
            Request::Lookup { .. }
            | Request::GetAttr { .. }
            | Request::ReadLink { .. }
            | Request::ReadDir { .. }
            | Request::GetXattr { .. }
            | Request::ListXattr { .. }
            | Request::Access { .. } => done(self.answer_read(&caller, &call.request)),

            Request::SetAttr { place, follow, set } => self.change(
                client,
                serial,
                caller,
                move |txn, context| {
                    let (id, node) = attribute::set(txn, context, &place, follow, &set)?;
                    Ok(node.entry(id))
                },
                |result| done(result.map(Response::Entry)),
            ),
            Request::Create { place, mode, node } => self.change(
                client,
                serial,
                caller,
                move |txn, context| {
                    let (id, made) = create::create(txn, context, &place, mode, &node)?;
                    Ok(made.entry(id))
                },
                |result| done(result.map(Response::Entry)),
            ),
            Request::Link { from, to } => self.link(client, serial, caller, from, to, done),
            Request::Unlink { place } => {
                let inner = self.clone();
                self.change(
                    client,
                    serial,
                    caller,
                    move |txn, context| remove::unlink(txn, context, &place),
                    move |result| done(inner.orphaned(result)),
                );
            }
            Request::Rmdir { place } => self.change(
                client,
                serial,
                caller,
                move |txn, context| remove::rmdir(txn, context, &place),
                |result| done(result.map(|()| Response::Done)),
            ),
            Request::Rename { from, to, mode } => {
                let inner = self.clone();
                self.change(
                    client,
                    serial,
                    caller,
                    move |txn, context| rename::rename(txn, context, &from, &to, mode),
                    move |result| done(inner.orphaned(result)),
                );
            }
            Request::SetXattr {
                place,
                name,
                value,
                mode,
            } => self.change(
                client,
                serial,
                caller,
                move |txn, context| xattr::set(txn, context, &place, &name, &value, mode),
                |result| done(result.map(|()| Response::Done)),
            ),
            Request::RemoveXattr { place, name } => self.change(
                client,
                serial,
                caller,
                move |txn, context| xattr::remove(txn, context, &place, &name),
                |result| done(result.map(|()| Response::Done)),
            ),

            Request::Open {
                open,
                place,
                access,
                create,
                exclusive,
            } => {
                self.open_file(
                    client, serial, caller, open, place, access, create, exclusive, done,
                );
            }
            Request::OpenUnnamed {
                open,
                place,
                access,
                mode,
                linkable,
            } => {
                let how = (mode, linkable);
                self.open_unnamed(client, serial, caller, open, place, access, how, done);
            }
            Request::Reopen {
                open,
                inode,
                access,
            } => {
                done(self.reopen(client, &caller, open, inode, access));
            }
            Request::Report {
                open,
                size,
                written,
                when,
                rest,
            } => {
                let how = [written, rest, soft];
                self.report(client, caller, open, size, when, how, done);
            }
            Request::Sparse { open } => self.becomes_sparse(client, open, soft, done),
            Request::Resume { open } => self.resume(client, open, soft, done),
            Request::Close { open, size, when } => {
                self.close(client, caller, open, size, when, soft, done);
            }
            Request::Accessed { times } => {
                if let Err(failure) = listing::limit_numbers(&times) {
                    return done(Err(failure));
                }
                self.queue.submit_as(
                    soft,
                    move |txn| attribute::accessed(txn, &times),
                    |result| done(result.map(|()| Response::Done)),
                );
            }
            Request::Truncate { place, size, open } => {
                self.truncate(client, caller, place, size, open, done);
            }

            Request::Lock {
                range,
                reclaim,
                wait,
                patience_ms,
            } => self.lock(client, range, (reclaim, wait), patience_ms, Box::new(done)),
            Request::Unlock { range } => {
                self.sessions().unlock(client, &range);
                done(Ok(Response::Done));
                self.grant_locks();
            }
            Request::TestLock { range } => {
                done(Ok(Response::Conflict(
                    self.sessions().conflict(client, &range),
                )));
            }

            Request::Map => done(Ok(Response::Map((*self.map().0).clone()))),
            Request::Sync => self
                .queue
                .submit(|_| Ok(()), |result| done(result.map(|()| Response::Done))),
            Request::StatFs => done(self.statfs()),
            Request::Inspect { inodes } => done(self.inspect(&inodes)),
            Request::Register { .. }
            | Request::Life { .. }
            | Request::Check { .. }
            | Request::Admin { .. }
            | Request::Reap
                if !self.is_admin(&who.caller) =>
            {
                let what = format!("only root or user {}", self.options.owner.uid);
                done(Err(explain(Errno::Perm, what)));
            }
            Request::Register { server } => self.register(server, done),
            Request::Life { inodes } => done(self.life(&inodes)),
            Request::Check { repair } => {
                let secret = self.superblock.secret;
                self.queue.submit(
                    move |txn| check::check(txn, &secret, repair),
                    |result| done(result.map(Response::Check)),
                );
            }
            Request::Admin { inodes } => done(self.admin(&inodes)),
            Request::Reap => {
                let inner = self.clone();
                // Talks to I/O servers: not on the connection's or the queue's thread.
                std::thread::spawn(move || done(inner.sweep().map(Response::Pending)));
            }
        }
    }

    /// Before the first soft commit: says so, durably.
    fn begin_soft(&self) -> Result<(), Failure> {
        self.queue.run(|txn| {
            txn.put(SOFT.to_vec(), &());
            Ok(())
        })?;
        self.soft.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn is_admin(&self, caller: &Caller) -> bool {
        caller.is_root() || caller.uid == self.options.owner.uid
    }

    fn orphaned(&self, result: Result<Option<u64>, Failure>) -> Result<Response, Failure> {
        if result?.is_some() {
            self.todo.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Response::Done)
    }

    fn answer_read(&self, caller: &Caller, request: &Request) -> Result<Response, Failure> {
        let servers = self.map().1;
        let context = Context {
            caller,
            secret: &self.superblock.secret,
            servers: &servers,
            making: Making::default(),
        };
        let context = &context;
        self.read(|read| match request {
            Request::Lookup { place, follow } => {
                let (id, node) = path::resolve(read, context, place, *follow)?;
                Ok(Response::Entry(node.entry(id)))
            }
            Request::GetAttr { inode } => {
                Ok(Response::Attr(namespace::inode(read, *inode)?.attr(*inode)))
            }
            Request::ReadLink { place } => {
                let (_, node) = path::resolve(read, context, place, false)?;
                match node.body {
                    record::Body::Symlink(target) => Ok(Response::Bytes(target)),
                    _ => Err(fail(Errno::Inval, &place.path)),
                }
            }
            Request::ReadDir {
                place,
                after,
                limit,
                plus,
            } => listing::read_dir(read, context, place, *after, *limit, *plus),
            Request::GetXattr { place, name } => {
                xattr::get(read, context, place, name).map(Response::Bytes)
            }
            Request::ListXattr { place } => xattr::list(read, context, place).map(Response::Names),
            Request::Access { place, mask } => {
                let (_, node) = path::resolve(read, context, place, true)?;
                permission::require(context, &node, *mask & 7, &place.path)?;
                Ok(Response::Done)
            }
            _ => Err(explain(Errno::Proto, "not a read")),
        })
    }
}
