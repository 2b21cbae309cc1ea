//! `WRITE`: bytes into a subfile, from the socket or from the shared window.

use std::io;

use trireme_net::Link;
use trireme_net::remote_memory::{self, Place};
use trireme_proto::{Flags, Refusal, Rights, limits, refusal::errno};
use trireme_store::Subfile;

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
    if header.flags().has(Flags::IN_PROCESS) {
        pull(call, session, link, &subfile)?;
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

/// Writes bytes that lie in the asking process, through a buffer that stays in the cache.
fn pull(
    call: &Call<'_>,
    session: &mut Session,
    link: &Link,
    subfile: &Subfile,
) -> Result<(), Refusal> {
    let places = trireme_proto::decode::<Vec<(u64, u64)>>(call.body)?;
    let total = places
        .iter()
        .try_fold(0u64, |sum, place| sum.checked_add(place.1));
    let (length, peer) = (call.header.length.get(), link.peer());
    if total != Some(length) || length > u64::from(limits::PAYLOAD_BYTES) {
        let why = "the places in the process are not as long as the request";
        return Err(Refusal::new(errno::EINVAL, why));
    }
    if !peer.local || peer.pid == 0 {
        return Err(Refusal::new(
            errno::EPERM,
            "the process is not on this host",
        ));
    }
    let asker = link.backchannel();
    let mut places = places.into_iter();
    let mut place = places.next();
    let mut offset = call.header.offset.get();
    let end = offset + length;
    while offset < end {
        let part = (BUFFER as u64 - offset % BUFFER as u64).min(end - offset);
        let mut wanted = Vec::with_capacity(8);
        let mut left = part;
        while let Some((address, length)) = &mut place
            && left > 0
        {
            let step = left.min(*length);
            wanted.push(Place {
                address: *address,
                length: step,
            });
            *address = address.wrapping_add(step);
            *length -= step;
            left -= step;
            if *length == 0 {
                place = places.next();
            }
        }
        // Who gave the write up has closed the connection: its memory is in other use by now.
        if !asker.is_open(std::time::Duration::ZERO) {
            return Err(Refusal::new(errno::EPIPE, "the asker has gone"));
        }
        let buffer = &mut session.buffer.get()[..part as usize];
        let local = trireme_net::Local {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: the session's own buffer.
        unsafe { remote_memory::pull(peer.pid, &wanted, &[local]) }.map_err(|error| {
            let forbidden = matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS));
            let errno = if forbidden { errno::EPERM } else { errno::EIO };
            Refusal::new(
                errno,
                format!("cannot take bytes from the process: {error}"),
            )
        })?;
        subfile.write_at(buffer, offset).map_err(refusal)?;
        offset += part;
    }
    Ok(())
}
