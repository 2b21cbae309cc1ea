//! `READ_VIEW` and `WRITE_VIEW`: the server expands the pattern against its own part of the layout.
//!
//! Small pieces that lie close together are moved by windows of the subfile: one large read,
//! copies in memory, and for writes one large write under the subfile's lock. Large or
//! scattered pieces are read and written one by one. Memory is two buffers, whatever the pattern.

use std::io;

use trireme_net::Link;
use trireme_partition::Piece;
use trireme_proto::message::io::{Pattern, View};
use trireme_proto::{Refusal, Rights, limits, refusal::errno};
use trireme_store::Subfile;

use super::{Call, check_range};
use crate::io::{BUFFER, refusal, session::Session};

/// Pieces that are on average shorter than this are worth a window: a system call costs about as
/// much as copying this much.
const SMALL_PIECE: u64 = 4 << 10;

/// A window is worth it only if at least one byte in so many is wanted.
const SPARSE: u64 = 16;

/// Pieces that lie in one window of the subfile.
struct Group {
    pieces: Vec<Piece>,
    from: u64,
    to: u64,
    bytes: u64,
}

/// Cuts the pieces into groups that fit a window and a buffer.
struct Groups<I: Iterator<Item = Piece>> {
    pieces: std::iter::Peekable<I>,
    rest: Option<Piece>,
}

impl<I: Iterator<Item = Piece>> Groups<I> {
    fn next_into(&mut self, group: &mut Group) -> bool {
        group.pieces.clear();
        group.bytes = 0;
        while let Some(piece) = self.rest.take().or_else(|| self.pieces.next()) {
            if group.pieces.is_empty() {
                group.from = piece.part;
                group.to = piece.part;
            }
            let fits_window = piece.part >= group.from && piece.part < group.from + BUFFER as u64;
            if !fits_window {
                self.rest = Some(piece);
                break;
            }
            let room = group.from + BUFFER as u64 - piece.part;
            let take = piece.len.min(room);
            group.pieces.push(Piece { len: take, ..piece });
            group.to = group.to.max(piece.part + take);
            group.bytes += take;
            if take < piece.len {
                self.rest = Some(Piece {
                    file: piece.file + take,
                    view: piece.view + take,
                    part: piece.part + take,
                    len: piece.len - take,
                });
                break;
            }
        }
        !group.pieces.is_empty()
    }
}

impl Group {
    fn new() -> Group {
        Group {
            pieces: Vec::new(),
            from: 0,
            to: 0,
            bytes: 0,
        }
    }

    fn window_pays(&self) -> bool {
        let count = self.pieces.len() as u64;
        count > 1
            && self.bytes / count < SMALL_PIECE
            && (self.to - self.from) / SPARSE <= self.bytes
    }
}

fn pattern(call: &Call<'_>) -> Result<Pattern, Refusal> {
    let view: View = trireme_proto::decode(call.body)?;
    check_range(view.file.start, view.file.end)?;
    check_range(view.range.start, view.range.end)?;
    view.decode()
}

/// Counts the payload's bytes, and no further than the largest payload: a hostile pattern costs no
/// more time than an honest one.
fn count(pattern: &Pattern) -> Result<u64, Refusal> {
    let mut bytes = 0u64;
    for piece in pattern.pieces() {
        bytes += piece.len;
        if bytes > u64::from(limits::PAYLOAD_BYTES) {
            return Err(Refusal::new(
                errno::EINVAL,
                format!(
                    "the view selects more than {} bytes for one frame",
                    limits::PAYLOAD_BYTES
                ),
            ));
        }
    }
    Ok(bytes)
}

/// Answers with the bytes that the view selects; where the subfile has none, zeros.
pub fn read(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    session.check(call.shared, call.header, Rights::READ)?;
    let pattern = pattern(call)?;
    let bytes = count(&pattern)? as usize;
    let subfile = session.find(call.shared, call.header.file.get())?;
    let mut payload = match link.start_payload(call.header.reply(), bytes) {
        Ok(payload) => payload,
        Err(error) => return Ok(Err(error)),
    };
    let mut groups = Groups {
        pieces: pattern.pieces().peekable(),
        rest: None,
    };
    let mut group = Group::new();
    while groups.next_into(&mut group) {
        let out = &mut session.buffer.get()[..group.bytes as usize];
        if let Some(subfile) = &subfile {
            gather(&group, subfile, out, session.other.get())?;
        } else {
            out.fill(0);
        }
        if let Err(error) = payload.send(out) {
            return Ok(Err(error));
        }
    }
    Ok(payload.end())
}

fn gather(
    group: &Group,
    subfile: &Subfile,
    out: &mut [u8],
    window: &mut [u8],
) -> Result<(), Refusal> {
    let mut at = 0;
    if group.window_pays() {
        let window = &mut window[..(group.to - group.from) as usize];
        let got = subfile.read_at(window, group.from).map_err(refusal)?;
        window[got..].fill(0);
        for piece in &group.pieces {
            let (from, len) = ((piece.part - group.from) as usize, piece.len as usize);
            out[at..at + len].copy_from_slice(&window[from..from + len]);
            at += len;
        }
        return Ok(());
    }
    for piece in &group.pieces {
        let piece_out = &mut out[at..at + piece.len as usize];
        let got = subfile.read_at(piece_out, piece.part).map_err(refusal)?;
        piece_out[got..].fill(0);
        at += piece.len as usize;
    }
    Ok(())
}

/// Puts the payload where the view says; no other byte of the subfile changes.
pub fn write(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    session.check(call.shared, call.header, Rights::WRITE)?;
    let pattern = pattern(call)?;
    let bytes = count(&pattern)?;
    if bytes != link.payload_left() as u64 {
        return Err(Refusal::new(
            errno::EINVAL,
            format!(
                "the view selects {bytes} bytes, {} came",
                link.payload_left()
            ),
        ));
    }
    let subfile = session.find_or_make(call.shared, call.header.file.get())?;
    let mut groups = Groups {
        pieces: pattern.pieces().peekable(),
        rest: None,
    };
    let mut group = Group::new();
    while groups.next_into(&mut group) {
        let input = &mut session.buffer.get()[..group.bytes as usize];
        if let Err(error) = link.receive_payload(input) {
            return Ok(Err(error));
        }
        if group.window_pays() {
            let window = &mut session.other.get()[..(group.to - group.from) as usize];
            let changed = subfile.change_at(window, group.from, |window| {
                let mut at = 0;
                for piece in &group.pieces {
                    let (to, len) = ((piece.part - group.from) as usize, piece.len as usize);
                    window[to..to + len].copy_from_slice(&input[at..at + len]);
                    at += len;
                }
            });
            if changed.map_err(refusal)? {
                continue;
            }
        }
        let mut at = 0;
        for piece in &group.pieces {
            let len = piece.len as usize;
            subfile
                .write_at(&input[at..at + len], piece.part)
                .map_err(refusal)?;
            at += len;
        }
    }
    let mut reply = call.header.reply();
    reply.length.set(bytes);
    Ok(link.reply(reply))
}
