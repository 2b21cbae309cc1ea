//! `TRUNCATE`: sets a subfile's size.

use std::io;

use trireme_net::Link;
use trireme_proto::{Refusal, Rights, refusal::errno};

use super::{Call, check_range};
use crate::io::{refusal, session::Session};

/// Sets the size to the header's `length`; a subfile that is to be empty is not made for it.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    session.check(call.shared, header, Rights::WRITE)?;
    let size = header.length.get();
    check_range(size, 0)?;
    let file = header.file.get();
    let subfile = if size == 0 {
        session.find(call.shared, file)?
    } else {
        Some(session.find_or_make(call.shared, file)?)
    };
    if link.is_abandoned() {
        // Whoever asked has been told that it failed (this server slept, say): it must not come true
        // now, when others may have written what it would cut off.
        let why = "nobody waits for this any more";
        return Err(Refusal::new(errno::ETIMEDOUT, why));
    }
    if let Some(subfile) = subfile {
        subfile.truncate(size).map_err(refusal)?;
    }
    Ok(link.reply(header.reply()))
}
