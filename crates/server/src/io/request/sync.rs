//! `SYNC`: makes a subfile durable, and never says so when bytes may have been lost.

use std::io;

use trireme_net::Link;
use trireme_proto::{Refusal, Rights, refusal::errno};

use super::Call;
use crate::io::{refusal, session::Session};

/// The header's `length` is the incarnation that the asker's writes went to, or 0.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    session
        .check(call.shared, header, Rights::READ)
        .or_else(|_| session.check(call.shared, header, Rights::WRITE))?;
    let written_to = header.length.get();
    let incarnation = call.shared.store.incarnation();
    let same = || {
        let now = incarnation.load(std::sync::atomic::Ordering::SeqCst);
        if written_to == 0 || written_to == now {
            Ok(())
        } else {
            Err(Refusal::new(
                errno::EIO,
                "the server's machine went down or its disk failed since this file was last synced: \
                 bytes written since then may be lost; write them again",
            ))
        }
    };
    same()?;
    call.shared.store.sync(header.file.get()).map_err(refusal)?;
    same()?;
    Ok(link.reply(header.reply()))
}
