//! `WINDOW`: from now on, payloads may lie in memory that the client shares with this server.

use std::io;
use std::sync::Arc;

use trireme_net::{Link, Window};
use trireme_proto::{Refusal, refusal::errno};

use super::Call;
use crate::io::session::Session;

/// Maps the memory whose descriptor came with this frame.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let descriptor = link
        .take_descriptor()
        .ok_or_else(|| Refusal::new(errno::EINVAL, "no descriptor came with the window"))?;
    let window = Window::open(descriptor, call.header.length.get())
        .map_err(|error| Refusal::io("the shared window is refused", &error))?;
    session.window = Some(Arc::new(window));
    Ok(link.reply(call.header.reply()))
}
