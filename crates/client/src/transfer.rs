//! Parallel transfer: one large request, split by the layout, all servers kept busy at once.
//!
//! The decisions (which block to which server next, C in flight, the schedule) are those of
//! [`trireme_policy::transfer`]; this file moves the bytes. One thread drives all servers with
//! `poll`: each connection is drained on its own, nothing is copied but into and out of the
//! caller's buffer, and a server that goes away is waited for until the deadline while the others
//! go on. A block may be sent again, so blocks must be safe to repeat.

mod lane;
mod plan;

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trireme_net::{Deadline, NetError, Pool};
use trireme_policy::schedule::Schedule;
use trireme_policy::transfer::{Transfer, Window};
use trireme_proto::key::Grant;

pub(crate) use lane::Buffer;
use lane::Lane;
pub(crate) use plan::{Contiguous, Each, Frame, Packed, Plan, Ranges};

/// How transfers are carried out. The defaults are what measured best; see `docs/semantics.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferOptions {
    /// Blocks in flight per server: the paper's C. Two keep a server's disk and the wire busy
    /// at the same time.
    pub in_flight: u32,
    /// Blocks in flight to all servers together; 0: no limit. With 1 a client does one transfer at
    /// a time, and the schedule decides alone who waits for whom.
    pub total: u32,
    /// In which order servers are visited.
    pub schedule: Schedule,
    /// The schedule block b: bytes per request to one server.
    pub block: u64,
    /// Whether writes to servers on this host go through shared memory.
    pub window: bool,
    /// Whether servers on this host are asked to lend their files: then the bytes are written to and
    /// read from the page cache without them, and nothing of the above matters.
    pub lend: bool,
    /// Whether a second thread of this process takes a part of long transfers to and from lent files. It stays
    /// awake for 2 ms after each of them: for programs whose processors have nothing better to do, as a mount's.
    pub second: bool,
}

impl Default for TransferOptions {
    fn default() -> TransferOptions {
        TransferOptions {
            in_flight: 2,
            total: 0,
            schedule: Schedule::Hash,
            block: 1 << 20,
            window: true,
            lend: true,
            second: false,
        }
    }
}

/// What a transfer needs besides its plan and buffer.
pub(crate) struct Job<'a> {
    /// Pools of the servers, in the layout's order.
    pub servers: &'a [Arc<Pool>],
    pub grant: Grant,
    pub options: TransferOptions,
    pub deadline: Deadline,
    /// Shared memory that the caller's bytes lie in.
    pub memory: Option<Arc<trireme_net::Window>>,
    /// This client's number among its peers, for `hash`.
    pub own: u32,
    pub seed: u64,
}

/// What became of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Index of the server in the layout.
    pub server: u32,
    /// The block's number.
    pub block: u32,
    /// Bytes planned.
    pub wanted: u64,
    /// Bytes moved; fewer than planned only for reads at a subfile's end.
    pub bytes: u64,
    /// The subfile's size, when fewer bytes came.
    pub size: u64,
    /// To `STAT`: the subfile's last change, nanoseconds since 1970.
    pub modified_ns: u64,
    /// To `STAT`: the space that the subfile takes.
    pub stored: u64,
    /// The server's incarnation.
    pub incarnation: u64,
}

/// Runs a transfer to its end; `done` hears of each block.
///
/// On an error nothing is known about blocks that `done` has not heard of.
pub(crate) fn run<P: Plan>(
    job: &Job<'_>,
    plan: P,
    mut buffer: Buffer<'_>,
    mut done: impl FnMut(Done),
) -> Result<(), NetError> {
    let servers = plan.servers();
    let mut window = Window::per_server(job.options.in_flight.clamp(1, 64));
    if job.options.total > 0 {
        window.total = job.options.total;
    }
    let mut lanes: Vec<Lane<'_>> = (0..servers)
        .map(|server| Lane::new(&job.servers[server as usize], job))
        .collect();
    let mut transfer = Transfer::new(plan, window, job.options.schedule, job.own, job.seed);
    loop {
        while let Some(turn) = transfer.next_turn() {
            let lane = &mut lanes[turn.server as usize];
            transfer
                .blocks()
                .describe(turn.server, turn.block, lane.next_frame(turn.block));
            lane.advance(job, &mut buffer)?;
        }
        if transfer.is_done() {
            break;
        }
        for lane in &mut lanes {
            lane.advance(job, &mut buffer)?;
        }
        let mut moved = false;
        for (server, lane) in lanes.iter_mut().enumerate() {
            while let Some(mut finished) = lane.take_finished() {
                finished.server = server as u32;
                done(finished);
                transfer.acknowledged(server as u32);
                moved = true;
            }
        }
        if moved {
            continue;
        }
        if job.deadline.over() {
            return Err(lanes
                .iter()
                .find_map(|lane| lane.late(job))
                .expect("something is in flight"));
        }
        let writing = matches!(buffer, Buffer::Out(_));
        wait(&mut lanes, job, writing && transfer.unsent() == 0)?;
    }
    for lane in lanes {
        lane.finish();
    }
    Ok(())
}

/// Waits until some lane can go on. With `acknowledgements` nothing but those is outstanding: then
/// it is enough to wait for one server's, as all must come anyway, and to be woken once for many.
fn wait(lanes: &mut [Lane<'_>], job: &Job<'_>, acknowledgements: bool) -> Result<(), NetError> {
    let mut time = job.deadline.left();
    let mut fds = Vec::with_capacity(lanes.len());
    let mut waiting = Vec::with_capacity(lanes.len());
    let one_is_enough = acknowledgements && lanes.iter().all(Lane::is_sent);
    for (number, lane) in lanes.iter().enumerate() {
        if one_is_enough && !fds.is_empty() {
            break;
        }
        let (flags, pause) = lane.waits_for();
        if let Some(pause) = pause {
            time = time.min(pause);
        }
        if let Some(socket) = lane.socket().filter(|_| !flags.is_empty()) {
            fds.push(PollFd::new(socket, flags));
            waiting.push((number, PollFlags::empty()));
        }
    }
    let time = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    match poll(&mut fds, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => {
            let peer = "the I/O servers".to_owned();
            return Err(NetError::Lost {
                peer,
                source: error.into(),
            });
        }
    }
    for (one, fd) in waiting.iter_mut().zip(&fds) {
        one.1 = fd.revents();
    }
    drop(fds);
    for (number, events) in waiting {
        lanes[number].wake(events);
    }
    if one_is_enough {
        // Likely answered meanwhile, too: looking is cheaper than being woken.
        for lane in lanes {
            lane.wake(PollFlags::IN);
        }
    }
    Ok(())
}
