//! Moves a block of the file to and from the buffers of many members: whoever directs a transfer, an
//! I/O server or a member that stands in for others, does it here.
//!
//! A member's share of a file interval is one contiguous range of its buffer, however many pieces it
//! consists of in the file. So each (block, member) pair is one transfer: long pieces go straight
//! between the block and the member, short ones through staging memory, where the pack and unpack
//! kernels deal them out.

use std::io;
use std::ops::Range;

use trireme_partition::{Part, pack};

use crate::Deadline;
use crate::reach::{Local, Reach, local};

/// Pieces that are shorter than this on average are packed: the kernel's cost per piece is about that
/// of copying this much.
const LONG_PIECE: u64 = 2 << 10;

/// One member of a collective transfer.
#[derive(Debug)]
pub struct Member<'w> {
    /// Its number.
    pub rank: u32,
    /// What it owns of the file; its buffer is in file order.
    pub part: Part,
    /// Its buffer.
    pub reach: Reach<'w>,
}

/// A contiguous range of the file inside a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Offset in the file.
    pub file: u64,
    /// Offset in the block.
    pub at: usize,
    /// Bytes.
    pub len: usize,
}

/// What the members own of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Bytes, counted once per owner.
    pub bytes: u64,
    /// Maximal pieces.
    pub pieces: u64,
    /// From the first owned byte of the block to the last.
    pub span: Range<usize>,
}

impl Survey {
    /// Whether the pieces are so long that a system call for each costs little.
    pub fn is_coarse(&self) -> bool {
        self.bytes / self.pieces.max(1) >= LONG_PIECE
    }
}

/// A member's buffer could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("member {rank}: {source}")]
pub struct Trouble {
    /// Whose.
    pub rank: u32,
    /// Why.
    pub source: io::Error,
}

/// What one member owns of one interval.
#[derive(Debug, Clone)]
struct Share {
    member: u32,
    interval: u32,
    view: Range<u64>,
    long: bool,
}

/// The workplace of one thread that moves blocks.
#[derive(Debug)]
pub struct Shuffle<'a> {
    members: &'a [Member<'a>],
    worker: usize,
    deadline: Deadline,
    staging: Vec<u8>,
    intervals: Vec<Interval>,
    /// Sorted by member, then interval.
    shares: Vec<Share>,
}

/// Which shares go in one turn, and where each lies in staging memory.
struct Turn {
    shares: Range<usize>,
    places: Vec<Option<Range<usize>>>,
}

impl<'a> Shuffle<'a> {
    /// A workplace for blocks of at most `block` bytes; `worker` says which lane is its own.
    pub fn new(members: &'a [Member<'a>], worker: usize, block: usize, deadline: Deadline) -> Self {
        Shuffle {
            members,
            worker,
            deadline,
            staging: vec![0; block],
            intervals: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Moves after this must be over by then.
    pub fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Starts a new block; `turn` says with which member to begin, so that several who direct do not
    /// all turn to the same one.
    pub fn load(&mut self, intervals: &[Interval], turn: usize) -> Survey {
        self.intervals.clear();
        self.intervals.extend_from_slice(intervals);
        self.shares.clear();
        let mut survey = Survey::default();
        let (mut start, mut end) = (usize::MAX, 0);
        let count = self.members.len();
        for number in 0..count {
            let number = (number + turn) % count;
            let part = &self.members[number].part;
            for (index, interval) in intervals.iter().enumerate() {
                let file = interval.file..interval.file + interval.len as u64;
                let view = part.view_range(file.clone());
                if view.is_empty() {
                    continue;
                }
                let bytes = view.end - view.start;
                let pieces = part.runs_in(file.clone());
                survey.bytes += bytes;
                survey.pieces += pieces;
                if interval.at < start {
                    let first = part.next_owned(file.start).unwrap_or(file.start);
                    let first = interval.at + (first - file.start) as usize;
                    start = start.min(first);
                }
                if interval.at + interval.len > end {
                    let last = part.to_file(view.end - 1).unwrap_or(file.end - 1);
                    end = end.max(interval.at + (last + 1 - file.start) as usize);
                }
                self.shares.push(Share {
                    member: number as u32,
                    interval: index as u32,
                    view,
                    long: bytes / pieces >= LONG_PIECE,
                });
            }
        }
        if start < end {
            survey.span = start..end;
        }
        survey
    }

    /// Fills `block` from the members: all that they own of it.
    pub fn gather(&mut self, block: &mut [u8]) -> Result<(), Trouble> {
        let mut from = 0;
        while let Some(turn) = self.turn(from, true) {
            self.fetch(&turn, Some(block))?;
            self.pack(&turn, block, 0);
            from = turn.shares.end;
        }
        Ok(())
    }

    /// Fetches all that the members own of the block, and then lets `change` put it into a buffer: it
    /// is given a function that does so, with the buffer and its offset in the block. More than once
    /// if members own the same bytes.
    pub fn gather_then<E: From<Trouble>>(
        &mut self,
        mut change: impl FnMut(&dyn Fn(&mut [u8], usize)) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = 0;
        while let Some(turn) = self.turn(from, false) {
            self.fetch(&turn, None)?;
            change(&|buffer, offset| self.pack(&turn, buffer, offset))?;
            from = turn.shares.end;
        }
        Ok(())
    }

    /// Deals `block` out to the members.
    pub fn scatter(&mut self, block: &[u8]) -> Result<(), Trouble> {
        let mut from = 0;
        while let Some(turn) = self.turn(from, true) {
            self.unpack(&turn, block);
            self.send(&turn, block.as_ptr().cast_mut())?;
            from = turn.shares.end;
        }
        Ok(())
    }

    /// Sends the shares of a turn; `block` is only read from.
    fn send(&self, turn: &Turn, block: *mut u8) -> Result<(), Trouble> {
        for shares in self.by_member(turn) {
            let (ranges, locals) = self.transfer(turn, &shares, Some(block));
            let member = self.member(&shares);
            // SAFETY: parts of the block and of the staging memory, which nobody changes now.
            unsafe {
                member
                    .reach
                    .put(self.worker, &ranges, &locals, self.deadline)
            }
            .map_err(|source| Trouble {
                rank: member.rank,
                source,
            })?;
        }
        Ok(())
    }

    /// The runs of the block that some member owns, merged, in order.
    pub fn owned(&self, runs: &mut Vec<Range<usize>>) {
        runs.clear();
        for share in &self.shares {
            let interval = self.intervals[share.interval as usize];
            let file = interval.file..interval.file + interval.len as u64;
            let part = &self.members[share.member as usize].part;
            runs.extend(part.runs(file).map(|run| {
                let at = interval.at + (run.file - interval.file) as usize;
                at..at + run.len as usize
            }));
        }
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup_by(|next, last| {
            let joined = next.start <= last.end;
            if joined {
                last.end = last.end.max(next.end);
            }
            joined
        });
    }

    /// The pieces of the block as addresses of the members' own memory, in order, if all of it is
    /// mapped here, every byte of the block has one owner, and the pieces are few: then the disk can
    /// read from and write to them directly.
    pub fn mapped(&self, length: usize, pieces: &mut Vec<(usize, Local)>) -> bool {
        pieces.clear();
        for share in &self.shares {
            let member = &self.members[share.member as usize];
            let Some(base) = member.reach.mapped() else {
                return false;
            };
            if !share.long {
                return false;
            }
            let interval = self.intervals[share.interval as usize];
            let file = interval.file..interval.file + interval.len as u64;
            pieces.extend(member.part.runs(file).map(|run| {
                let at = interval.at + (run.file - interval.file) as usize;
                let address = base.wrapping_add(run.view as usize);
                (at, local(address, run.len as usize))
            }));
        }
        pieces.sort_unstable_by_key(|piece| piece.0);
        let mut end = 0;
        let tight = pieces.iter().all(|(at, piece)| {
            let follows = *at == end;
            end += piece.iov_len;
            follows
        });
        tight && end == length
    }

    /// The next shares, from `from` on, of as many members as fit the staging memory.
    fn turn(&self, from: usize, long: bool) -> Option<Turn> {
        let mut places = Vec::new();
        let (mut used, mut end) = (0, from);
        while end < self.shares.len() {
            let member = self.shares[end].member;
            let mine = self.shares[end..]
                .iter()
                .take_while(|share| share.member == member)
                .count();
            let mut room = used;
            let before = places.len();
            for share in &self.shares[end..end + mine] {
                let length = (share.view.end - share.view.start) as usize;
                places.push((!(share.long && long)).then(|| {
                    room += length;
                    room - length..room
                }));
            }
            if room > self.staging.len() {
                places.truncate(before);
                assert!(used > 0, "a block's staging holds any one member's share");
                break;
            }
            used = room;
            end += mine;
        }
        (end > from).then_some(Turn {
            shares: from..end,
            places,
        })
    }

    /// The shares of a turn, cut by member.
    fn by_member(&self, turn: &Turn) -> Vec<Range<usize>> {
        let mut from = turn.shares.start;
        self.shares[turn.shares.clone()]
            .chunk_by(|a, b| a.member == b.member)
            .map(|shares| {
                from += shares.len();
                from - shares.len()..from
            })
            .collect()
    }

    fn member(&self, shares: &Range<usize>) -> &'a Member<'a> {
        &self.members[self.shares[shares.start].member as usize]
    }

    /// Both sides of one member's transfer: ranges of its buffer, and memory of ours.
    fn transfer(
        &self,
        turn: &Turn,
        shares: &Range<usize>,
        block: Option<*mut u8>,
    ) -> (Vec<Range<u64>>, Vec<Local>) {
        let part = &self.member(shares).part;
        let staging = self.staging.as_ptr().cast_mut();
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(shares.len());
        let mut locals = Vec::with_capacity(shares.len());
        for index in shares.clone() {
            let share = &self.shares[index];
            match ranges.last_mut() {
                Some(last) if last.end == share.view.start => last.end = share.view.end,
                _ => ranges.push(share.view.clone()),
            }
            match (&turn.places[index - turn.shares.start], block) {
                (Some(place), _) => {
                    locals.push(local(staging.wrapping_add(place.start), place.len()));
                }
                (None, Some(block)) => {
                    let interval = self.intervals[share.interval as usize];
                    let file = interval.file..interval.file + interval.len as u64;
                    locals.extend(part.runs(file).map(|run| {
                        let at = interval.at + (run.file - interval.file) as usize;
                        local(block.wrapping_add(at), run.len as usize)
                    }));
                }
                (None, None) => unreachable!("without a block all shares are staged"),
            }
        }
        (ranges, locals)
    }

    fn fetch(&mut self, turn: &Turn, block: Option<&mut [u8]>) -> Result<(), Trouble> {
        let block = block.map(<[u8]>::as_mut_ptr);
        // Those at the end of a wire are all asked before the first is waited for.
        let mut waiting = Vec::new();
        for shares in self.by_member(turn) {
            let (ranges, locals) = self.transfer(turn, &shares, block);
            let member = self.member(&shares);
            let trouble = |source| Trouble {
                rank: member.rank,
                source,
            };
            if member.reach.is_away() {
                member
                    .reach
                    .ask(self.worker, &ranges, self.deadline)
                    .map_err(trouble)?;
                waiting.push((member, locals));
                continue;
            }
            // SAFETY: disjoint parts of `block` and of the staging memory, both borrowed mutably.
            unsafe {
                member
                    .reach
                    .get(self.worker, &ranges, &locals, self.deadline)
            }
            .map_err(trouble)?;
        }
        for (member, locals) in waiting {
            // SAFETY: as above.
            unsafe { member.reach.take(self.worker, &locals, self.deadline) }.map_err(
                |source| Trouble {
                    rank: member.rank,
                    source,
                },
            )?;
        }
        Ok(())
    }

    /// Puts the staged shares of a turn into `buffer`, which starts at `offset` of the block.
    fn pack(&self, turn: &Turn, buffer: &mut [u8], offset: usize) {
        for (index, interval) in self.intervals.iter().enumerate() {
            let owners: Vec<pack::Owner<'_, &[u8]>> = self
                .staged(turn, index)
                .map(|(share, place)| {
                    let part = &self.members[share.member as usize].part;
                    pack::Owner::new(part, share.view.start, &self.staging[place])
                })
                .collect();
            let from = interval.at.max(offset);
            let to = (interval.at + interval.len).min(offset + buffer.len());
            if owners.is_empty() || from >= to {
                continue;
            }
            let file = interval.file + (from - interval.at) as u64;
            pack::pack(&mut buffer[from - offset..to - offset], file, &owners)
                .expect("each share holds what its owner has in the interval");
        }
    }

    /// Fills the staged shares of a turn from `block`.
    fn unpack(&mut self, turn: &Turn, block: &[u8]) {
        let mut staging = std::mem::take(&mut self.staging);
        for (index, interval) in self.intervals.iter().enumerate() {
            let mut rest = &mut staging[..];
            let mut skipped = 0;
            let mut owners = Vec::new();
            for (share, place) in self.staged(turn, index) {
                let (slice, after) =
                    std::mem::take(&mut rest)[place.start - skipped..].split_at_mut(place.len());
                rest = after;
                skipped = place.end;
                let part = &self.members[share.member as usize].part;
                owners.push(pack::Owner::new(part, share.view.start, slice));
            }
            if owners.is_empty() {
                continue;
            }
            let bytes = &block[interval.at..interval.at + interval.len];
            pack::unpack(bytes, interval.file, &mut owners)
                .expect("each share holds what its owner has in the interval");
        }
        self.staging = staging;
    }

    /// The staged shares of one interval, in the order of their places.
    fn staged<'b>(
        &'b self,
        turn: &'b Turn,
        interval: usize,
    ) -> impl Iterator<Item = (&'b Share, Range<usize>)> {
        self.shares[turn.shares.clone()]
            .iter()
            .zip(&turn.places)
            .filter(move |(share, _)| share.interval as usize == interval)
            .filter_map(|(share, place)| Some((share, place.clone()?)))
    }
}
