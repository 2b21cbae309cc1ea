//! Access control lists on their way to the kernel, which checks permissions with them.
//!
//! It fetches an inode's list like any extended attribute, but on its own account: whoever wants to pass a
//! directory need not be allowed to read it. Setting one, inheriting one and keeping it in step with the
//! mode are the manager's.

use trireme_proto::message::meta::Response;

use super::Outcome;

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
