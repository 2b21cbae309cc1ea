//! `LIST`: the numbers of all subfiles, page by page, for fsck.

use std::io;

use trireme_net::Link;
use trireme_proto::Refusal;
use trireme_proto::message::io::List;

use super::Call;
use crate::io::refusal;

/// Numbers per page: a body of a few hundred KiB at most.
const PAGE: usize = 16384;

/// Answers with a [`List`] of numbers greater than the header's `file`. Numbers say nothing
/// about names, and open nothing without a grant, so anybody in the cluster may know them.
pub fn run(call: &Call<'_>, link: &mut Link) -> Result<io::Result<()>, Refusal> {
    let files = call
        .shared
        .store
        .list(call.header.file.get(), PAGE)
        .map_err(refusal)?;
    Ok(link.reply_body(call.header, &List { files }))
}
