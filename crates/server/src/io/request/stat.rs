//! `STAT`: size and times of a subfile; one that was never written has size 0.

use std::io;

use trireme_net::Link;
use trireme_proto::message::io::Stat;
use trireme_proto::{Refusal, Rights};

use super::Call;
use crate::io::{refusal, session::Session};

/// Answers with a [`Stat`].
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    // Any grant will do, also one without rights: it shows that the manager let its holder ask.
    session.check(call.shared, call.header, Rights::NONE)?;
    let stat = match session.find(call.shared, call.header.file.get())? {
        Some(subfile) => {
            let stat = subfile.stat().map_err(refusal)?;
            Stat {
                size: stat.size,
                stored: stat.stored,
                modified_ns: stat.modified_ns,
            }
        }
        None => Stat {
            size: 0,
            stored: 0,
            modified_ns: 0,
        },
    };
    // All of it stands in the header as well: most askers read nothing else.
    let mut reply = call.header.reply();
    reply.file.set(stat.stored);
    reply.length.set(stat.size);
    reply.offset.set(stat.modified_ns.max(0) as u64);
    Ok(link.reply_with(reply, &trireme_proto::encode(&stat), &[]))
}
