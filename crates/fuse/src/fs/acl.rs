//! Access control lists on their way to the kernel, which checks permissions with them.
//!
//! It fetches an inode's list like any extended attribute, but on its own account: whoever wants to pass a
//! directory need not be allowed to read it. Setting one, inheriting one and keeping it in step with the
//! mode are the manager's.

use trireme_proto::message::meta::{Kind, Response};

use super::{Inner, Outcome};

/// The two attributes that are lists.
pub(super) fn is_list(name: &[u8]) -> bool {
    matches!(
        name,
        b"system.posix_acl_access" | b"system.posix_acl_default"
    )
}

/// What has been removed and is still in use here has no list: any other error would become that of
/// the check, where the kernel goes on to find that nothing is there.
pub(super) fn of_what_is_gone(answer: Outcome<Response>) -> Outcome<Response> {
    answer.map_err(|errno| match errno {
        libc::ESTALE | libc::ENOENT => libc::ENODATA,
        errno => errno,
    })
}

impl Inner {
    /// What the manager said a moment ago is believed as long as the kernel believes attributes: `ls -l` asks
    /// for the lists of every file, and hardly any has one.
    pub(super) fn has_no_list(&self, inode: u64) -> bool {
        let none = self.nodes.with(inode, |node| {
            !node.attr.listed && node.attr.kind != Kind::Symlink && node.heard.elapsed() < self.ttl
        });
        none == Some(true)
    }

    /// A list was given to an inode here.
    pub(super) fn note_list(&self, inode: u64) {
        self.nodes.with(inode, |node| node.attr.listed = true);
    }
}
