//! `WRITE`: bytes into a subfile, from the socket or from the shared window.

use std::io;

use trireme_net::Link;
use trireme_proto::{Flags, Refusal, Rights, refusal::errno};

use super::{Call, check_range};
use crate::io::{BUFFER, refusal, session::Session};

/// Writes the payload at `offset`; the reply's `length` is the number of bytes.
///
/// Cut at multiples of [`BUFFER`] in the subfile, so that an aligned stripe unit up to that size is one
/// `pwrite`, which the kernel keeps apart from other writers' to the same subfile.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    session.check(call.shared, header, Rights::WRITE)?;
    let mut offset = header.offset.get();
    check_range(offset, header.length.get())?;
    let subfile = session.find_or_make(call.shared, header.file.get())?;
    let mut reply = header.reply();
    if header.flags().has(Flags::IN_WINDOW) {
        let window = session.window.as_ref().ok_or_else(|| {
            Refusal::new(
                errno::EINVAL,
                "there is no shared window on this connection",
            )
        })?;
        let places = trireme_proto::decode::<Vec<(u64, u64)>>(call.body)?;
        let total = places
            .iter()
            .try_fold(0u64, |sum, place| sum.checked_add(place.1));
        if total != Some(header.length.get()) {
            let why = "the places in the window are not as long as the request";
            return Err(Refusal::new(errno::EINVAL, why));
        }
        let mut runs = Vec::with_capacity(places.len());
        for (place, length) in places {
            let bytes = window.at(place, length).ok_or_else(|| {
                let why = format!("{length} bytes at {place} are not in the window");
                Refusal::new(errno::EINVAL, why)
            })?;
            runs.push((bytes.cast_const(), length as usize));
        }
        // SAFETY: inside the window's mapping, which lives as long as the session.
        unsafe { subfile.write_raw_at(&runs, offset) }.map_err(refusal)?;
        reply.length = header.length;
        return Ok(link.reply(reply));
    }
    reply.length.set(link.payload_left() as u64);
    while link.payload_left() > 0 {
        let to_boundary = BUFFER - (offset % BUFFER as u64) as usize;
        let part = link.payload_left().min(to_boundary);
        let buffer = &mut session.buffer.get()[..part];
        if let Err(error) = link.receive_payload(buffer) {
            return Ok(Err(error));
        }
        subfile.write_at(buffer, offset).map_err(refusal)?;
        offset += part as u64;
    }
    Ok(link.reply(reply))
}
