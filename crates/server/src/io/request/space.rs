//! `SPACE`: bytes of the server's disks.

use std::io;

use trireme_net::Link;
use trireme_proto::Refusal;
use trireme_proto::message::io::Space;

use super::Call;
use crate::io::refusal;

/// Answers with a [`Space`]; anybody in the cluster may know.
pub fn run(call: &Call<'_>, link: &mut Link) -> Result<io::Result<()>, Refusal> {
    let space = call.shared.store.space().map_err(refusal)?;
    Ok(link.reply_body(
        call.header,
        &Space {
            total: space.total,
            free: space.free,
            disks: call.shared.store.disk_names().map_err(refusal)?,
        },
    ))
}
