//! A file seen through a partition: what one process owns of it, read and written as if contiguous.
//!
//! The pattern goes to the servers, not a list of pieces: each expands it against its own part of
//! the layout. Here the pieces are only gathered from and scattered to the caller's buffer.

use std::ops::Range;
use std::sync::atomic::Ordering;

use trireme_partition::Part;
use trireme_proto::Op;
use trireme_proto::message::io::{Pattern, View as Body};

use crate::file::{File, Inner};
use crate::transfer::{self, Buffer, Packed};
use crate::{Error, Result, TransferOptions};

/// Bytes of the view handled in one round: bounds the memory for gathering.
const ROUND: u64 = 16 << 20;

/// A view of a file.
#[derive(Debug)]
pub struct View<'a> {
    file: &'a Inner,
    part: Part,
    encoded: Vec<u8>,
    transfer: TransferOptions,
}

impl File {
    /// The file as the owner of `part` sees it: byte 0 is the first byte of the part.
    pub fn view(&self, part: &Part) -> View<'_> {
        self.inner.view(part)
    }
}

impl Inner {
    pub(crate) fn view(&self, part: &Part) -> View<'_> {
        View {
            file: self,
            part: part.clone(),
            encoded: part.encode(),
            transfer: self.transfer(),
        }
    }
}

/// One round: what each server gets, and how its bytes lie in the packed buffer.
struct Round {
    plan: Packed,
    patterns: Vec<(Pattern, usize)>,
    bytes: usize,
}

impl View<'_> {
    /// Uses this schedule, block and number of blocks in flight instead of the file's.
    #[must_use]
    pub fn transfer(mut self, options: TransferOptions) -> Self {
        self.transfer = options;
        self
    }

    /// Reads from offset `at` of the view; fewer bytes than asked only where the view ends. Bytes
    /// beyond the file's end are zero.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize> {
        let range = self.clip(buffer.len(), at);
        for from in range.clone().step_by(ROUND as usize) {
            let part = from..(from + ROUND).min(range.end);
            let round = self.round(part.clone(), Op::READ_VIEW);
            let mut packed = vec![0; round.bytes];
            let deadline = self.file.cluster.deadline();
            transfer::run(
                &self.file.job_with(self.transfer, deadline),
                round.plan,
                Buffer::In(&mut packed),
                |done| self.file.heard(done.server as usize, done.incarnation),
            )?;
            for (pattern, mut place) in round.patterns {
                for piece in pattern.pieces() {
                    let (to, len) = ((piece.view - at) as usize, piece.len as usize);
                    buffer[to..to + len].copy_from_slice(&packed[place..place + len]);
                    place += len;
                }
            }
        }
        Ok((range.end - range.start) as usize)
    }

    /// Writes at offset `at` of the view; nothing else in the file is touched.
    pub fn write_at(&self, buffer: &[u8], at: u64) -> Result<()> {
        let range = self.clip(buffer.len(), at);
        if range.end - range.start < buffer.len() as u64 {
            return Err(Error::Invalid(format!(
                "the view has {} bytes, {} at {at} do not fit",
                self.part.size(),
                buffer.len()
            )));
        }
        self.file.wrote.store(true, Ordering::Relaxed);
        for from in range.clone().step_by(ROUND as usize) {
            let part = from..(from + ROUND).min(range.end);
            let round = self.round(part.clone(), Op::WRITE_VIEW);
            let mut packed = vec![0; round.bytes];
            let mut end = 0;
            for (pattern, mut place) in round.patterns {
                for piece in pattern.pieces() {
                    let (source, len) = ((piece.view - at) as usize, piece.len as usize);
                    packed[place..place + len].copy_from_slice(&buffer[source..source + len]);
                    place += len;
                    end = end.max(piece.file + piece.len);
                }
            }
            let deadline = self.file.cluster.deadline();
            transfer::run(
                &self.file.job_with(self.transfer, deadline),
                round.plan,
                Buffer::Out(&packed),
                |done| self.file.heard(done.server as usize, done.incarnation),
            )?;
            self.file.has_written(end);
        }
        Ok(())
    }

    fn clip(&self, length: usize, at: u64) -> Range<u64> {
        let end = at.saturating_add(length as u64).min(self.part.size());
        at.min(end)..end
    }

    /// The file range that holds a range of the view.
    fn file_range(&self, range: &Range<u64>) -> Range<u64> {
        if !self.part.is_ordered() {
            return self.part.file_span();
        }
        let at = |view| self.part.to_file(view).expect("inside the view");
        at(range.start)..at(range.end - 1) + 1
    }

    /// Plans one round: per server, blocks of at most the schedule block.
    fn round(&self, range: Range<u64>, op: Op) -> Round {
        let deadline = self.file.cluster.deadline();
        let block = self.file.job_with(self.transfer, deadline).options.block;
        let span = self.file_range(&range);
        let mut plan = Packed {
            op: Some(op),
            frames: Vec::new(),
        };
        let mut patterns = Vec::new();
        let mut bytes = 0;
        for layout in &self.file.parts {
            let mut frames = Vec::new();
            let whole = Pattern {
                layout: layout.clone(),
                view: self.part.clone(),
                file: span.clone(),
                range: range.clone(),
            };
            // Cut where a block is full; a piece longer than a block is cut as well.
            let mut cut = Cut {
                from: span.start,
                filled: 0,
            };
            let mut close = |file: Range<u64>, filled: u64| {
                if filled == 0 {
                    return;
                }
                let body = Body {
                    layout: layout.encode(),
                    view: self.encoded.clone(),
                    file: file.clone(),
                    range: range.clone(),
                };
                let place = bytes..bytes + filled as usize;
                bytes = place.end;
                patterns.push((
                    Pattern {
                        file,
                        ..whole.clone()
                    },
                    place.start,
                ));
                frames.push((trireme_proto::encode(&body), place));
            };
            for mut piece in whole.pieces() {
                while cut.filled + piece.len > block {
                    let take = block - cut.filled;
                    let end = piece.file + take;
                    close(cut.from..end, block);
                    cut = Cut {
                        from: end,
                        filled: 0,
                    };
                    piece.file += take;
                    piece.len -= take;
                }
                cut.filled += piece.len;
            }
            close(cut.from..span.end, cut.filled);
            plan.frames.push(frames);
        }
        Round {
            plan,
            patterns,
            bytes,
        }
    }
}

struct Cut {
    from: u64,
    filled: u64,
}
