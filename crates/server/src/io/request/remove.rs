//! `REMOVE`: removes a subfile; one that does not exist is fine, so it can be repeated.

use std::io;

use trireme_net::Link;
use trireme_proto::{Refusal, Rights};

use super::Call;
use crate::io::{refusal, session::Session};

/// Removes it.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    session.check(call.shared, call.header, Rights::REMOVE)?;
    call.shared
        .store
        .remove(call.header.file.get())
        .map_err(refusal)?;
    Ok(link.reply(call.header.reply()))
}
