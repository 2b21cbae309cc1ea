//! Names: looking them up, making, moving and removing them.

use trireme_proto::message::meta::{self, Entry, LayoutWish, Node, Place, RenameMode, Response};

use super::{Inner, Outcome, errno, unexpected};
use crate::kernel::abi::{
    BatchForgetIn, EntryOut, ForgetIn, ForgetOne, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn, op,
};
use crate::kernel::{Reply, Request, split_name};
use zerocopy::FromBytes;

/// A directory that is gone has no names in it.
fn in_directory(errno: i32) -> i32 {
    if errno == libc::ESTALE {
        libc::ENOENT
    } else {
        errno
    }
}

impl Inner {
    /// Tells the kernel of an entry, once more if it takes the answer. `name` is what the kernel will
    /// know it by in the directory that it asked about.
    fn reply_entry(&self, request: &Request<'_>, reply: Reply, result: Outcome<(&[u8], Entry)>) {
        let directory = request.header.nodeid;
        let told = result.and_then(|(name, entry)| self.tell(entry, Some((directory, name))));
        match told {
            Ok(out) => {
                if !reply.give(&out) {
                    self.nodes.forget(out.nodeid, 1);
                }
            }
            Err(errno) => {
                reply.error(in_directory(errno));
            }
        }
    }

    /// An entry as the kernel takes it; counts one reference.
    pub(super) fn tell(&self, mut entry: Entry, place: Option<(u64, &[u8])>) -> Outcome<EntryOut> {
        // A file handle leads to no name.
        match place.filter(|(_, name)| *name != b".") {
            Some(place) => self.nodes.tell(&entry.attr, place),
            None => self.nodes.note(&entry, 1),
        }
        if let Err(errno) = self.complete(&mut entry) {
            self.nodes.forget(entry.attr.inode, 1);
            return Err(errno);
        }
        let last = self.attributes_last(entry.attr.inode);
        Ok(EntryOut {
            nodeid: entry.attr.inode,
            generation: 0,
            entry_valid: self.ttl.as_secs(),
            entry_valid_nsec: self.ttl.subsec_nanos(),
            attr_valid: last.as_secs(),
            attr_valid_nsec: last.subsec_nanos(),
            attr: self.attr_out(entry.attr),
        })
    }

    pub(super) fn lookup(&self, request: &Request<'_>, reply: Reply) {
        let result = split_name(request.names()).and_then(|(name, _)| {
            let inode = request.header.nodeid;
            // A file handle leads to an inode whatever it is, not to a name in a directory.
            let place = match name {
                b"." => Place::inode(inode),
                name => Place::name(inode, name),
            };
            let question = meta::Request::Lookup {
                place,
                follow: false,
            };
            match self.ask(question)? {
                // The kernel asks by a handle when it does not have the inode, so nobody here has it open.
                Response::Entry(entry) if name == b"." && entry.attr.nlink == 0 => {
                    Err(libc::ENOENT)
                }
                Response::Entry(entry) => Ok((name, entry)),
                other => unexpected(other),
            }
        });
        self.reply_entry(request, reply, result);
    }

    pub(super) fn forget(&self, request: &Request<'_>) {
        if let Ok(what) = request.arguments::<ForgetIn>() {
            self.nodes.forget(request.header.nodeid, what.nlookup);
        }
    }

    pub(super) fn forget_many(&self, request: &Request<'_>) {
        let Ok((count, mut rest)) = request.take::<BatchForgetIn>() else {
            return;
        };
        for _ in 0..count.count {
            let Ok((one, left)) = ForgetOne::read_from_prefix(rest) else {
                return;
            };
            self.nodes.forget(one.nodeid, one.nlookup);
            rest = left;
        }
    }

    fn make(
        &self,
        request: &Request<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
        node: Node,
    ) -> Outcome<Entry> {
        let place = Place::name(request.header.nodeid, name);
        self.maker(&request.header, umask)
            .create(place, mode & 0o7777, node)
            .map_err(|error| errno(&error))
    }

    pub(super) fn mknod(&self, request: &Request<'_>, reply: Reply) {
        let result = request.take::<MknodIn>().and_then(|(what, rest)| {
            let (name, _) = split_name(rest)?;
            let rdev = u64::from(what.rdev);
            let node = match what.mode & libc::S_IFMT {
                libc::S_IFREG | 0 => Node::File(LayoutWish::default()),
                libc::S_IFIFO => Node::Fifo,
                libc::S_IFSOCK => Node::Socket,
                libc::S_IFCHR => Node::CharDevice(rdev),
                libc::S_IFBLK => Node::BlockDevice(rdev),
                _ => return Err(libc::EINVAL),
            };
            self.make(request, name, (what.mode, what.umask), node)
                .map(|entry| (name, entry))
        });
        self.reply_entry(request, reply, result);
    }

    pub(super) fn mkdir(&self, request: &Request<'_>, reply: Reply) {
        let result = request.take::<MkdirIn>().and_then(|(what, rest)| {
            let (name, _) = split_name(rest)?;
            self.make(request, name, (what.mode, what.umask), Node::Directory)
                .map(|entry| (name, entry))
        });
        self.reply_entry(request, reply, result);
    }

    pub(super) fn symlink(&self, request: &Request<'_>, reply: Reply) {
        let result = split_name(request.names()).and_then(|(name, rest)| {
            let (target, _) = split_name(rest)?;
            self.make(request, name, (0o777, 0), Node::Symlink(target.to_vec()))
                .map(|entry| (name, entry))
        });
        self.reply_entry(request, reply, result);
    }

    pub(super) fn readlink(&self, request: &Request<'_>, reply: Reply) {
        let inode = request.header.nodeid;
        let place = Place::inode(inode);
        match self.ask(meta::Request::ReadLink { place }) {
            Ok(Response::Bytes(target)) => {
                self.note_read(inode);
                reply.bytes(&target);
            }
            Ok(_) => {
                reply.error(libc::EPROTO);
            }
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    pub(super) fn link(&self, request: &Request<'_>, reply: Reply) {
        let result = request.take::<LinkIn>().and_then(|(what, rest)| {
            let (name, _) = split_name(rest)?;
            let question = meta::Request::Link {
                from: Place::inode(what.oldnodeid),
                to: Place::name(request.header.nodeid, name),
            };
            match self.change(&request.header, question)? {
                Response::Entry(entry) => Ok((name, entry)),
                other => unexpected(other),
            }
        });
        self.reply_entry(request, reply, result);
    }

    pub(super) fn unlink(&self, request: &Request<'_>, reply: Reply) {
        let result = split_name(request.names()).and_then(|(name, _)| {
            let place = Place::name(request.header.nodeid, name);
            self.change(&request.header, meta::Request::Unlink { place })
        });
        reply.outcome(result.map(|_| ()).map_err(in_directory));
    }

    pub(super) fn rmdir(&self, request: &Request<'_>, reply: Reply) {
        let result = split_name(request.names()).and_then(|(name, _)| {
            let place = Place::name(request.header.nodeid, name);
            let going = self.about_to_go(request.header.nodeid, name);
            let gone = self.change(&request.header, meta::Request::Rmdir { place })?;
            self.has_gone(going);
            Ok(gone)
        });
        reply.outcome(result.map(|_| ()).map_err(in_directory));
    }

    pub(super) fn rename(&self, request: &Request<'_>, reply: Reply) {
        let result = self.rename_now(request);
        reply.outcome(result.map_err(in_directory));
    }

    fn rename_now(&self, request: &Request<'_>) -> Outcome<()> {
        let (newdir, flags, rest) = if request.header.opcode == op::RENAME2 {
            let (what, rest) = request.take::<Rename2In>()?;
            (what.newdir, what.flags, rest)
        } else {
            let (what, rest) = request.take::<RenameIn>()?;
            (what.newdir, 0, rest)
        };
        const WHITEOUT_ONLY_NEW: u32 = libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE;
        let mode = match flags {
            0 => RenameMode::Replace,
            libc::RENAME_NOREPLACE => RenameMode::NoReplace,
            libc::RENAME_EXCHANGE => RenameMode::Exchange,
            libc::RENAME_WHITEOUT => RenameMode::Whiteout { replace: true },
            WHITEOUT_ONLY_NEW => RenameMode::Whiteout { replace: false },
            _ => return Err(libc::EINVAL),
        };
        let (from, rest) = split_name(rest)?;
        let (to, _) = split_name(rest)?;
        let question = meta::Request::Rename {
            from: Place::name(request.header.nodeid, from),
            to: Place::name(newdir, to),
            mode,
        };
        let going = match mode {
            RenameMode::Replace | RenameMode::Whiteout { replace: true } => {
                self.about_to_go(newdir, to)
            }
            _ => None,
        };
        self.change(&request.header, question)?;
        self.has_gone(going);
        let exchange = mode == RenameMode::Exchange;
        self.has_moved((request.header.nodeid, from), (newdir, to), exchange);
        Ok(())
    }

    /// Something was read through the mount.
    pub(super) fn note_read(&self, inode: u64) {
        if !self.no_atime {
            self.nodes.accessed(inode, super::now());
        }
    }
}
