//! `READ`: bytes of a subfile, moved by the kernel itself when they are many.

use std::io::{self, IoSlice};

use trireme_net::Link;
use trireme_proto::{Header, Refusal, Rights, limits, refusal::errno};
use trireme_store::Subfile;

use super::{Call, check_range};
use crate::io::{BUFFER, refusal, session::Session};

/// From this size on, `sendfile` is cheaper than a copy and one `writev`.
const SENDFILE_FROM: u64 = 32 << 10;

/// Answers with up to `length` bytes from `offset`; fewer only at the subfile's end, and then
/// the reply's `length` is the subfile's size.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    session.check(call.shared, header, Rights::READ)?;
    let (offset, length) = (header.offset.get(), header.length.get());
    check_range(offset, length)?;
    if length > u64::from(limits::PAYLOAD_BYTES) {
        return Err(Refusal::new(
            errno::EINVAL,
            format!(
                "{length} bytes wanted in one frame, the limit is {}",
                limits::PAYLOAD_BYTES
            ),
        ));
    }
    let mut reply = header.reply();
    let Some(subfile) = session.find(call.shared, header.file.get())? else {
        return Ok(link.reply(reply));
    };
    if length >= SENDFILE_FROM {
        let size = subfile.stat().map_err(refusal)?.size;
        let there = size.saturating_sub(offset).min(length);
        if there < length {
            reply.length.set(size);
        }
        if there >= SENDFILE_FROM {
            if let Some(file) = subfile.in_page_cache() {
                return Ok(link.reply_file(reply, file, offset, there as u32));
            }
            let there = there as usize;
            return Ok(past_the_cache(
                &subfile, session, link, reply, offset, there,
            ));
        }
    }
    let mut left = length as usize;
    let mut from = offset;
    if left <= BUFFER {
        let buffer = &mut session.buffer.get()[..left];
        let got = subfile.read_at(buffer, from).map_err(refusal)?;
        if got < left {
            reply.length.set(subfile.stat().map_err(refusal)?.size);
        }
        return Ok(link.reply_with(reply, &[], &[IoSlice::new(&buffer[..got])]));
    }
    // A tail shorter than what pays for sendfile, of a longer request.
    let mut bytes = vec![0; left.min(SENDFILE_FROM as usize)];
    let mut all = 0;
    while left > 0 && all < bytes.len() {
        let got = subfile.read_at(&mut bytes[all..], from).map_err(refusal)?;
        if got == 0 {
            break;
        }
        all += got;
        from += got as u64;
        left -= got;
    }
    Ok(link.reply_with(reply, &[], &[IoSlice::new(&bytes[..all])]))
}

/// The same where the bytes are not to stay in the page cache: buffer by buffer, each ending at a
/// multiple of its size in the subfile.
fn past_the_cache(
    subfile: &Subfile,
    session: &mut Session,
    link: &mut Link,
    reply: Header,
    mut offset: u64,
    length: usize,
) -> io::Result<()> {
    let mut payload = link.start_payload(reply, length)?;
    let mut left = length;
    while left > 0 {
        let part = left.min(BUFFER - (offset % BUFFER as u64) as usize);
        let buffer = &mut session.buffer.get()[..part];
        let got = match subfile.read_at(buffer, offset) {
            Ok(got) => got,
            // Bytes are out already: all that is left is to end the connection.
            Err(error) => return Err(io::Error::other(error)),
        };
        if got < part {
            return Err(io::Error::other("the subfile shrank while it was sent"));
        }
        payload.send(buffer)?;
        offset += part as u64;
        left -= part;
    }
    payload.end()
}
