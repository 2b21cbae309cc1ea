//! A disk-directed transfer as one server carries it out: its blocks in the order of the disk, each
//! moved between one of two buffers and the members' memories while the other is at the disk.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trireme_net::{
    Backchannel, Deadline, Interval, Local, Member, Reach, Shuffle, Survey, Trouble, Whereabouts,
    Wire,
};
use trireme_partition::{Part, multiplicity_within};
use trireme_policy::plan::{Block, Blocks, Step, disk_directed};
use trireme_proto::message::collective::Phases;
use trireme_proto::{Refusal, limits, refusal::errno};
use trireme_store::{Aligned, Positions, Subfile};

use super::group::Meeting;
use super::refusal;

/// Bytes of a block when all members are on this host: two blocks and their staging memory stay in the
/// second-level cache, so that every copy but the first and the last is nearly free.
const NEAR_BLOCK: usize = 128 << 10;

/// Bytes of a block when bytes go over a network: long enough that asking for it costs nothing.
const FAR_BLOCK: usize = 1 << 20;

/// Threads, and so buffers, per collective: one block is at the disk while the other is moved.
const WORKERS: usize = limits::LANES as usize;

/// Collectives that run at the same time; with two far blocks and their staging each, this bounds the
/// server's memory at 32 MiB. More wait for their turn.
const RUNNING: usize = 8;

/// Blocks whose order is worked out at once: enough for a disk's arm, and a bound on memory.
const SORTED: usize = 4096;

/// A window of pieces with holes is read, changed and written back if at least one byte in so many is a
/// member's; else its pieces are written one by one.
const SPARSE: u64 = 16;

/// Steps for finding out whether views overlap; views for which they do not suffice are treated as if
/// they did, which is right and slower.
const STEPS: u64 = 1 << 20;

/// What a member brings.
#[derive(Debug)]
pub struct Arrival {
    pub rank: u32,
    pub file: u64,
    pub write: bool,
    pub server: (u32, u32),
    pub layout: Vec<u8>,
    pub view: Part,
    pub at: Whereabouts,
    pub lanes: Vec<Backchannel>,
    pub subfile: Option<Arc<Subfile>>,
}

/// What all members get.
#[derive(Debug)]
pub struct Run {
    pub phases: Phases,
    /// Members whose bytes went over their lanes: they hear on those that all of it has been sent.
    pub away: Vec<u32>,
}

/// Turns for collectives, first come first served.
#[derive(Debug, Default)]
pub struct Turns {
    /// Next ticket to give, and how many have ended.
    state: Mutex<(u64, u64)>,
    changed: Condvar,
}

struct Turn<'a>(&'a Turns);

impl Turns {
    fn take(&self) -> Turn<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = state.0;
        state.0 += 1;
        while ticket >= state.1 + RUNNING as u64 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1 += 1;
        self.0.changed.notify_all();
    }
}

/// The lanes of one member.
struct Lanes(Vec<Backchannel>);

impl Wire for Lanes {
    fn ask(&self, worker: usize, ranges: &[Range<u64>], deadline: Deadline) -> std::io::Result<()> {
        self.0[worker].ask(ranges, deadline)
    }

    fn take(
        &self,
        worker: usize,
        into: &mut [std::io::IoSliceMut<'_>],
        deadline: Deadline,
    ) -> std::io::Result<()> {
        self.0[worker].take(into, deadline)
    }

    fn put(
        &self,
        worker: usize,
        ranges: &[Range<u64>],
        from: &mut [std::io::IoSlice<'_>],
        deadline: Deadline,
    ) -> std::io::Result<()> {
        self.0[worker].put(ranges, from, deadline)
    }

    fn finish(&self, deadline: Deadline) -> std::io::Result<()> {
        self.0.iter().try_for_each(|lane| lane.finish(deadline))
    }

    fn is_open(&self) -> bool {
        self.0[0].is_open(Duration::ZERO)
    }
}

/// Why a transfer stopped.
enum Stop {
    Member(Trouble),
    Other(Refusal),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Stop {
        Stop::Member(trouble)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Other(refusal)
    }
}

impl Stop {
    fn refusal(self) -> Refusal {
        match self {
            Stop::Other(refusal) => refusal,
            Stop::Member(trouble) => Refusal::new(
                errno::EPIPE,
                format!(
                    "member {} cannot be reached: {}; what was not written yet is untouched",
                    trouble.rank, trouble.source
                ),
            ),
        }
    }
}

/// Carries out a transfer for which all members have come, and tells them.
pub fn carry_out(
    turns: &Turns,
    meeting: &Meeting<Arrival, Run>,
    arrivals: Vec<Arrival>,
    waited: Duration,
) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _turn = turns.take();
        transfer(meeting, arrivals, waited)
    }));
    meeting.conclude(outcome.unwrap_or_else(|_| {
        Err(Refusal::new(
            errno::EIO,
            "the server failed while it directed the transfer: see its log",
        ))
    }));
}

fn transfer(
    meeting: &Meeting<Arrival, Run>,
    arrivals: Vec<Arrival>,
    waited: Duration,
) -> Result<Run, Refusal> {
    let started = Instant::now();
    let first = &arrivals[0];
    for other in &arrivals {
        if (other.file, other.write, &other.layout) != (first.file, first.write, &first.layout) {
            let what = |arrival: &Arrival| {
                let how = if arrival.write { "writes" } else { "reads" };
                format!("{how} file {}", arrival.file)
            };
            let why = format!(
                "member {} {}, member {} {}: all must call for the same",
                first.rank,
                what(first),
                other.rank,
                what(other)
            );
            return Err(Refusal::new(errno::EINVAL, why));
        }
    }
    let layout = Part::decode(&first.layout)
        .map_err(|error| Refusal::protocol(format!("the layout cannot be read: {error}")))?;
    let write = first.write;
    let subfile = first.subfile.clone();
    let (server, servers) = first.server;
    let members: Vec<Member<'_>> = arrivals
        .into_iter()
        .map(|arrival| Member {
            rank: arrival.rank,
            reach: Reach::new(
                arrival.at,
                arrival.view.size(),
                Box::new(Lanes(arrival.lanes)),
            ),
            part: arrival.view,
        })
        .collect();
    let parts: Vec<&Part> = members.iter().map(|member| &member.part).collect();
    let end = parts.iter().map(|part| part.file_span().end).max();
    let work = Work {
        meeting,
        disjoint: multiplicity_within(&parts, 0..end.unwrap_or(0), STEPS)
            .is_some_and(|owners| *owners.end() <= 1),
        members: &members,
        subfile: subfile.as_deref(),
        write,
        server,
        block: if members.iter().any(|member| member.reach.is_away()) {
            FAR_BLOCK
        } else {
            NEAR_BLOCK
        },
        tally: Tally::default(),
    };
    let blocks = Blocks::new(&layout, parts, work.block as u64).starting_at(server, servers);
    let blocks = Mutex::new(in_disk_order(blocks, work.subfile));
    let planned = started.elapsed();
    let results: Vec<Result<u64, Stop>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..WORKERS)
            .map(|worker| {
                scope.spawn({
                    let (work, blocks) = (&work, &blocks);
                    move || work.run(worker, blocks)
                })
            })
            .collect();
        let mine = work.run(0, &blocks);
        std::iter::once(mine)
            .chain(others.into_iter().map(|one| {
                one.join().unwrap_or_else(|_| {
                    Err(Stop::Other(Refusal::new(errno::EIO, "a worker panicked")))
                })
            }))
            .collect()
    });
    let mut cpu_ns = 0;
    for result in results {
        cpu_ns += result.map_err(Stop::refusal)?;
    }
    let mut away = Vec::new();
    for member in members.iter().filter(|member| member.reach.is_away()) {
        member
            .reach
            .finish(Deadline::after(limits::CALL_TIME))
            .map_err(|source| {
                let rank = member.rank;
                Stop::Member(Trouble { rank, source }).refusal()
            })?;
        away.push(member.rank);
    }
    let tally = &work.tally;
    Ok(Run {
        away,
        phases: Phases {
            bytes: tally.bytes.load(Ordering::Relaxed),
            pieces: tally.pieces.load(Ordering::Relaxed),
            blocks: tally.blocks.load(Ordering::Relaxed),
            wait_ns: waited.as_nanos() as u64,
            plan_ns: planned.as_nanos() as u64 + tally.plan_ns.load(Ordering::Relaxed),
            disk_ns: tally.disk_ns.load(Ordering::Relaxed),
            move_ns: tally.move_ns.load(Ordering::Relaxed),
            total_ns: started.elapsed().as_nanos() as u64,
            cpu_ns,
        },
    })
}

/// The blocks in the order of their places on a disk with an arm; as they come on any other.
fn in_disk_order<'a>(
    mut blocks: Blocks<'a>,
    subfile: Option<&'a Subfile>,
) -> Box<dyn Iterator<Item = Block> + Send + 'a> {
    let Some(subfile) = subfile.filter(|subfile| subfile.has_an_arm()) else {
        return Box::new(blocks);
    };
    let mut positions = Positions::new(subfile);
    Box::new(
        std::iter::from_fn(move || {
            let some: Vec<Block> = blocks.by_ref().take(SORTED).collect();
            if some.is_empty() {
                return None;
            }
            let steps = some.iter().enumerate().map(|(index, block)| Step {
                block: index as u64,
                position: positions.of(block.subfile.start).unwrap_or(u64::MAX),
            });
            let mut order = disk_directed(steps, true);
            // One sweep of the arm from where the plan begins, and round: all servers beginning at their
            // first block would all turn to the same member.
            let first = order.iter().position(|step| step.block == 0).unwrap_or(0);
            order.rotate_left(first);
            let mut some: Vec<Option<Block>> = some.into_iter().map(Some).collect();
            let sorted: Vec<Block> = order
                .into_iter()
                .filter_map(|step| some[step.block as usize].take())
                .collect();
            Some(sorted)
        })
        .flatten(),
    )
}

/// What the threads count together.
#[derive(Default)]
struct Tally {
    bytes: AtomicU64,
    pieces: AtomicU64,
    blocks: AtomicU64,
    plan_ns: AtomicU64,
    disk_ns: AtomicU64,
    move_ns: AtomicU64,
}

/// A transfer as its threads see it.
struct Work<'a> {
    meeting: &'a Meeting<Arrival, Run>,
    members: &'a [Member<'a>],
    /// No byte has two owners.
    disjoint: bool,
    subfile: Option<&'a Subfile>,
    write: bool,
    /// Which of the file's servers this is.
    server: u32,
    block: usize,
    tally: Tally,
}

/// A stopwatch for phases.
struct Watch<'a>(&'a AtomicU64, Instant);

impl<'a> Watch<'a> {
    fn start(on: &'a AtomicU64) -> Watch<'a> {
        Watch(on, Instant::now())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let ns = self.1.elapsed().as_nanos() as u64;
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

/// What a thread keeps from block to block.
struct Desk<'a> {
    shuffle: Shuffle<'a>,
    buffer: Aligned,
    intervals: Vec<Interval>,
    pieces: Vec<(usize, Local)>,
    runs: Vec<Range<usize>>,
}

impl Work<'_> {
    /// Takes blocks until there are none; gives the processor time used.
    fn run(
        &self,
        worker: usize,
        blocks: &Mutex<Box<dyn Iterator<Item = Block> + Send + '_>>,
    ) -> Result<u64, Stop> {
        let deadline = Deadline::after(limits::CALL_TIME);
        let mut desk = Desk {
            shuffle: Shuffle::new(self.members, worker, self.block, deadline),
            buffer: if self
                .subfile
                .is_some_and(|subfile| subfile.in_page_cache().is_none())
            {
                Aligned::empty()
            } else {
                Aligned::amid()
            },
            intervals: Vec::new(),
            pieces: Vec::new(),
            runs: Vec::new(),
        };
        let before = thread_cpu();
        loop {
            if let Some(refusal) = self.meeting.aborted() {
                return Err(refusal.into());
            }
            let block = {
                let _watch = Watch::start(&self.tally.plan_ns);
                let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
                blocks.next()
            };
            let Some(block) = block else { break };
            // Each block has its own time: a transfer may take as long as it makes progress.
            desk.shuffle
                .set_deadline(Deadline::after(limits::CALL_TIME));
            let done = self.one(&mut desk, &block);
            if done.is_err() {
                // The other thread need not go on.
                *blocks.lock().unwrap_or_else(PoisonError::into_inner) =
                    Box::new(std::iter::empty());
            }
            done?;
        }
        Ok(thread_cpu() - before)
    }

    fn one(&self, desk: &mut Desk<'_>, block: &Block) -> Result<(), Stop> {
        let survey = {
            let _watch = Watch::start(&self.tally.plan_ns);
            desk.intervals.clear();
            desk.intervals
                .extend(block.ranges.iter().map(|run| Interval {
                    file: run.file,
                    at: (run.view - block.subfile.start) as usize,
                    len: run.len as usize,
                }));
            // Neighbouring servers, and this one's two threads, turn to different members.
            let turn = (block.subfile.start / self.block as u64) as usize + self.server as usize;
            desk.shuffle.load(&desk.intervals, turn)
        };
        let length = (block.subfile.end - block.subfile.start) as usize;
        let at = block.subfile.start;
        if self.write {
            self.write_block(desk, at, length, &survey)?;
        } else {
            self.read_block(desk, at, length, &survey)?;
        }
        self.tally.bytes.fetch_add(survey.bytes, Ordering::Relaxed);
        self.tally
            .pieces
            .fetch_add(survey.pieces, Ordering::Relaxed);
        self.tally.blocks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write_block(
        &self,
        desk: &mut Desk<'_>,
        at: u64,
        length: usize,
        survey: &Survey,
    ) -> Result<(), Stop> {
        let subfile = self.subfile.expect("made when the first member came");
        let full = self.disjoint && survey.bytes == length as u64;
        if full && desk.shuffle.mapped(length, &mut desk.pieces) {
            let runs: Vec<(*const u8, usize)> = desk
                .pieces
                .iter()
                .map(|(_, piece)| (piece.iov_base.cast_const().cast(), piece.iov_len))
                .collect();
            let _watch = Watch::start(&self.tally.disk_ns);
            // SAFETY: inside windows that the members' reaches keep mapped.
            unsafe { subfile.write_raw_at(&runs, at) }.map_err(refusal)?;
            return Ok(());
        }
        let buffer = desk.buffer.get(length);
        if full {
            {
                let _watch = Watch::start(&self.tally.move_ns);
                desk.shuffle.gather(buffer)?;
            }
            let _watch = Watch::start(&self.tally.disk_ns);
            subfile.write_at(buffer, at).map_err(refusal)?;
            return Ok(());
        }
        // Bytes between the members' own are somebody else's.
        let span = survey.span.clone();
        let start = at + span.start as u64;
        let dense = survey.bytes * SPARSE >= span.len() as u64;
        let mut rewrite = !survey.is_coarse() && dense;
        let tally = &self.tally;
        let moving = Instant::now();
        let mut disk = Duration::ZERO;
        desk.shuffle.gather_then(|put| {
            let disk_from = Instant::now();
            if rewrite {
                let window = &mut buffer[span.clone()];
                // Once it may not be rewritten, all that was put into the buffer goes run by run.
                rewrite = subfile
                    .change_at(window, start, |window| put(window, span.start))
                    .map_err(refusal)?;
            }
            if !rewrite {
                put(buffer, 0);
            }
            disk += disk_from.elapsed();
            Ok::<(), Stop>(())
        })?;
        if !rewrite {
            desk.shuffle.owned(&mut desk.runs);
            let disk_from = Instant::now();
            for run in &desk.runs {
                subfile
                    .write_at(&buffer[run.clone()], at + run.start as u64)
                    .map_err(refusal)?;
            }
            disk += disk_from.elapsed();
        }
        let moving = moving.elapsed().saturating_sub(disk);
        tally
            .move_ns
            .fetch_add(moving.as_nanos() as u64, Ordering::Relaxed);
        tally
            .disk_ns
            .fetch_add(disk.as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn read_block(
        &self,
        desk: &mut Desk<'_>,
        at: u64,
        length: usize,
        survey: &Survey,
    ) -> Result<(), Stop> {
        let buffer = desk.buffer.get(length);
        let full = self.disjoint && survey.bytes == length as u64;
        if let Some(subfile) = self.subfile {
            let _watch = Watch::start(&self.tally.disk_ns);
            if full && desk.shuffle.mapped(length, &mut desk.pieces) {
                let runs: Vec<(*mut u8, usize)> = desk
                    .pieces
                    .iter()
                    .map(|(_, piece)| (piece.iov_base.cast(), piece.iov_len))
                    .collect();
                // SAFETY: inside windows that the members' reaches keep mapped.
                unsafe { subfile.read_raw_at(&runs, at) }.map_err(refusal)?;
                return Ok(());
            }
            let span = survey.span.clone();
            if survey.bytes * SPARSE >= span.len() as u64 {
                read_or_zero(subfile, &mut buffer[span.clone()], at + span.start as u64)?;
            } else {
                desk.shuffle.owned(&mut desk.runs);
                for run in &desk.runs {
                    read_or_zero(subfile, &mut buffer[run.clone()], at + run.start as u64)?;
                }
            }
        } else {
            buffer.fill(0);
        }
        let _watch = Watch::start(&self.tally.move_ns);
        desk.shuffle.scatter(buffer)?;
        Ok(())
    }
}

/// Reads; what the subfile does not have is zero.
fn read_or_zero(subfile: &Subfile, buffer: &mut [u8], at: u64) -> Result<(), Refusal> {
    let got = subfile.read_at(buffer, at).map_err(refusal)?;
    buffer[got..].fill(0);
    Ok(())
}

/// Processor time of this thread, nanoseconds.
fn thread_cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
