//! `ALLOCATE` and `SEEK`: space of a subfile, and where its holes are.

use std::io;

use trireme_net::Link;
use trireme_proto::message::io::{Allocate, NO_DATA, Seek};
use trireme_proto::{Refusal, Rights};
use trireme_store::Allocation;

use super::{Call, check_range};
use crate::io::{refusal, session::Session};

/// Reserves, frees or zeroes `length` bytes from `offset`.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    session.check(call.shared, header, Rights::WRITE)?;
    let (offset, length) = (header.offset.get(), header.length.get());
    check_range(offset, length)?;
    let (what, keep_size) = match trireme_proto::decode(call.body)? {
        Allocate::Reserve { keep_size } => (Allocation::Reserve, keep_size),
        Allocate::Punch => (Allocation::Punch, true),
        Allocate::Zero { keep_size } => (Allocation::Zero, keep_size),
    };
    let file = header.file.get();
    call.shared
        .store
        .check_end(file, offset + length)
        .map_err(refusal)?;
    let subfile = if what == Allocation::Punch {
        session.find(call.shared, file)?
    } else {
        Some(session.find_or_make(call.shared, file)?)
    };
    if let Some(subfile) = subfile.filter(|_| length > 0) {
        subfile
            .allocate(what, keep_size, offset, length)
            .map_err(refusal)?;
    }
    Ok(link.reply(header.reply()))
}

/// Finds the next data or hole at or behind `offset`, or says whether the subfile can end there.
pub fn seek(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    session.check(call.shared, header, Rights::NONE)?;
    let offset = header.offset.get();
    check_range(offset, 0)?;
    let subfile = session.find(call.shared, header.file.get())?;
    let found = match (trireme_proto::decode(call.body)?, subfile) {
        (Seek::Data, Some(subfile)) => subfile.next_data(offset).map_err(refusal)?,
        (Seek::Data, None) => None,
        (Seek::Hole, Some(subfile)) => Some(subfile.next_hole(offset).map_err(refusal)?),
        (Seek::Hole, None) => Some(offset),
        (Seek::Reach, _) => {
            let file = header.file.get();
            call.shared.store.check_end(file, offset).map_err(refusal)?;
            Some(offset)
        }
    };
    let mut reply = header.reply();
    reply.length.set(found.unwrap_or(NO_DATA));
    Ok(link.reply(reply))
}
