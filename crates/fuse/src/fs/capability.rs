//! File capabilities (`security.capability`) go when a file is written. The kernel sees to that for what
//! goes through its page cache, and leaves it to us for the rest (`FUSE_HANDLE_KILLPRIV_V2`).

use super::handle::Handle;
use super::{Inner, Outcome, library_errno};

impl Inner {
    /// Before anything is written: takes capabilities away, if the file may have any. Openings and
    /// `setxattr` tell whether it may, so that most writes need not ask.
    pub(super) fn drop_capability(&self, handle: &Handle) -> Outcome<()> {
        let inode = handle.inode;
        if self.nodes.with(inode, |node| node.capability) != Some(true) {
            return Ok(());
        }
        let attr = handle.file.will_write();
        let attr = attr.map_err(|error| library_errno(&error))?;
        self.nodes.with(inode, |node| node.capability = false);
        self.nodes.note_attr(&attr, 0);
        Ok(())
    }

    /// A file is open for writing here and had no capabilities when it was opened; nobody here gave it any since.
    pub(super) fn has_lost_capability(&self, inode: u64) -> bool {
        self.nodes.with(inode, |node| node.capability) == Some(false)
            && !self.handles.writers(inode).is_empty()
    }

    /// Somebody here gave a file capabilities.
    pub(super) fn note_capability(&self, inode: u64) {
        self.nodes.with(inode, |node| node.capability = true);
    }
}
