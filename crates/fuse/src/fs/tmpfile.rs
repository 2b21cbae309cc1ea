//! `O_TMPFILE`: files that are open and have no name.

use trireme::File;
use trireme_proto::message::meta::Place;

use super::open::access;
use super::{Inner, Outcome, errno, library_errno};
use crate::kernel::abi::{CreateIn, EntryOut, OpenOut};
use crate::kernel::{Reply, Request};

impl Inner {
    pub(super) fn tmpfile(&self, request: &Request<'_>, reply: Reply) {
        // Of a directory that was removed: as ext4 says it, other than for names in it.
        let made = self.tmpfile_now(request).map_err(|errno| match errno {
            libc::ESTALE => libc::EPERM,
            errno => errno,
        });
        self.reply_created(reply, made);
    }

    fn tmpfile_now(&self, request: &Request<'_>) -> Outcome<(EntryOut, OpenOut)> {
        let what = request.arguments::<CreateIn>()?;
        let names = self.maker(&request.header, what.umask);
        // Here O_EXCL says that it never gets a name.
        let linkable = what.flags as i32 & libc::O_EXCL == 0;
        let place = Place::inode(request.header.nodeid);
        let mode = what.mode & 0o7777;
        let opened = names
            .open_unnamed(place, access(what.flags), mode, linkable)
            .map_err(|error| errno(&error))?;
        let entry = opened.opened.entry.clone();
        let inode = entry.attr.inode;
        let file = File::adopt(&self.cluster, opened).map_err(|error| library_errno(&error))?;
        let told = self.tell(entry, None)?;
        let out = self.keep_new(inode, file, what.flags, request.header.uid, true);
        let out = out.inspect_err(|_| self.nodes.forget(inode, 1))?;
        Ok((told, out))
    }
}
