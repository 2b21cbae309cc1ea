//! Reading directories: pages of the manager, cut to what the kernel has room for. The manager's
//! cookies stay right while entries come and go, so the kernel's position is simply one of them.

use std::sync::PoisonError;

use trireme_proto::message::meta::{self, DirEntry, Entry, Kind, Place, READDIR_LIMIT, Response};
use zerocopy::IntoBytes;

use super::handle::Listing;
use super::{Inner, Outcome, unexpected};
use crate::kernel::abi::{Dirent, EntryOut, OpenOut, ReadIn, ReleaseIn};
use crate::kernel::{Reply, Request};

/// Positions behind `.` and `..`; the manager's cookies are all larger.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

impl Inner {
    pub(super) fn opendir(&self, request: &Request<'_>, reply: Reply) {
        let fh = self.handles.add_directory(request.header.nodeid);
        let out = OpenOut {
            fh,
            ..OpenOut::default()
        };
        if !reply.give(&out) {
            self.handles.remove_directory(fh);
        }
    }

    pub(super) fn releasedir(&self, request: &Request<'_>, reply: Reply) {
        if let Ok(what) = request.arguments::<ReleaseIn>() {
            self.handles.remove_directory(what.fh);
        }
        reply.done();
    }

    pub(super) fn readdir(&self, request: &Request<'_>, reply: Reply, plus: bool) {
        match self.readdir_now(request, plus) {
            Ok((bytes, told)) => {
                if !reply.bytes(&bytes) {
                    for inode in told {
                        self.nodes.forget(inode, 1);
                    }
                }
            }
            Err(libc::ESTALE) => {
                reply.error(libc::ENOENT);
            }
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    fn readdir_now(&self, request: &Request<'_>, plus: bool) -> Outcome<(Vec<u8>, Vec<u64>)> {
        let what = request.arguments::<ReadIn>()?;
        let inode = request.header.nodeid;
        let listing = self.handles.directory(what.fh)?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = Page {
            bytes: Vec::with_capacity(what.size as usize),
            room: what.size as usize,
            plus,
        };
        let mut position = what.offset;
        let mut told = Vec::new();
        if position == 0 || listing.position != position {
            // From the start, or somewhere else than where the last page ended.
            *listing = Listing {
                position,
                parent: listing.parent,
                ..Listing::default()
            };
        }
        if position == 0 {
            self.note_read(inode);
            self.fetch(inode, &mut listing, plus)?;
            if !page.add(None, b".", inode, DOT, Kind::Directory) {
                return Ok((page.bytes, told));
            }
            position = DOT;
        }
        if position == DOT {
            if listing.parent == 0 {
                self.fetch(inode, &mut listing, plus)?;
            }
            let parent = listing.parent;
            if !page.add(None, b"..", parent, DOT_DOT, Kind::Directory) {
                listing.position = position;
                return Ok((page.bytes, told));
            }
            position = DOT_DOT;
        }
        listing.position = position;
        loop {
            if listing.entries.is_empty() {
                if listing.end {
                    break;
                }
                self.fetch(inode, &mut listing, plus)?;
                continue;
            }
            let entry = &listing.entries[0];
            let known = if plus { self.known(entry) } else { None };
            if !page.add(
                known.as_ref(),
                &entry.name,
                entry.inode,
                entry.cookie,
                entry.kind,
            ) {
                break;
            }
            if let (Some(_), Some(attr)) = (&known, &entry.attr) {
                self.nodes.tell(attr, (inode, &entry.name));
                told.push(entry.inode);
            }
            listing.position = entry.cookie;
            listing.entries.pop_front();
        }
        Ok((page.bytes, told))
    }

    /// What the kernel may know of an entry without asking; nothing of a file that is being written or has
    /// holes, whose size or space only the servers know.
    fn known(&self, entry: &DirEntry) -> Option<EntryOut> {
        let attr = entry
            .attr
            .as_ref()
            .filter(|attr| attr.settled && !attr.sparse)?;
        let mut whole = Entry {
            attr: attr.clone(),
            layout: None,
        };
        self.notice(&whole.attr);
        self.nodes.overlay(&mut whole.attr);
        Some(EntryOut {
            nodeid: entry.inode,
            generation: 0,
            entry_valid: self.ttl.as_secs(),
            entry_valid_nsec: self.ttl.subsec_nanos(),
            attr_valid: self.ttl.as_secs(),
            attr_valid_nsec: self.ttl.subsec_nanos(),
            attr: self.attr_out(whole.attr),
        })
    }

    /// The next page of the manager.
    fn fetch(&self, inode: u64, listing: &mut Listing, plus: bool) -> Outcome<()> {
        let after = match listing.position {
            0 | DOT | DOT_DOT => 0,
            position => position,
        };
        let question = meta::Request::ReadDir {
            place: Place::inode(inode),
            after,
            limit: READDIR_LIMIT,
            plus,
        };
        match self.ask(question)? {
            Response::Directory {
                parent,
                entries,
                end,
                ..
            } => {
                listing.parent = parent;
                listing.entries = entries.into();
                listing.end = end;
                Ok(())
            }
            other => unexpected(other),
        }
    }
}

/// The bytes of an answer.
struct Page {
    bytes: Vec<u8>,
    room: usize,
    plus: bool,
}

impl Page {
    /// Adds an entry; false when there is no room for it.
    fn add(
        &mut self,
        known: Option<&EntryOut>,
        name: &[u8],
        inode: u64,
        position: u64,
        kind: Kind,
    ) -> bool {
        let head = if self.plus { size_of::<EntryOut>() } else { 0 };
        let length = (head + size_of::<Dirent>() + name.len()).next_multiple_of(8);
        if self.bytes.len() + length > self.room {
            return false;
        }
        let end = self.bytes.len() + length;
        if self.plus {
            let nothing = EntryOut::default();
            self.bytes
                .extend_from_slice(known.unwrap_or(&nothing).as_bytes());
        }
        let entry = Dirent {
            ino: inode,
            off: position,
            namelen: name.len() as u32,
            kind: kind.mode_bits() >> 12,
        };
        self.bytes.extend_from_slice(entry.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}
