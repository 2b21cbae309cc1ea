//! Subfiles that servers of this host have lent: bytes are written to the page cache, and what it has
//! is read from there, without a word to anybody.
//!
//! A loan is good while the connection that it came over is: when the server goes, reads wait for it as
//! they would without loans, and what it then has is asked for again. Bytes that would have to come from
//! a disk are left to the servers, which read from all disks at once.

mod detour;
mod later;
mod pair;
mod turn;

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use rustix::io::{Errno, ReadWriteFlags};
use trireme_net::{Deadline, NetError, Pool, Tie};
use trireme_proto::Op;
use trireme_proto::refusal::errno;
use trireme_store::range_lock;

use super::Inner;
use detour::DETOUR;
pub use later::Then;
pub(super) use later::hurry;
use pair::PAIR;
use turn::{Piece, turns};

/// Requests that a server carries out before it is asked to lend: most files are read or written once.
const REQUESTS: u32 = 2;

/// Transfers that are long enough to be shared with a second thread.
const SHARED: usize = 128 << 10;

/// Slices that one system call takes.
const SLICES: usize = 1024;

/// What one opening has of each of its servers, for reading or for writing.
#[derive(Debug)]
pub(super) struct Lent {
    write: bool,
    slots: Vec<Slot>,
    /// Whether there has been a loan at all.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    /// Carried out by the server since it was last asked to lend.
    requests: AtomicU32,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unasked,
    Refused,
    Here(Arc<Loan>),
}

#[derive(Debug)]
struct Loan {
    file: OwnedFd,
    tie: Tie,
    /// What the server was when it lent this.
    incarnation: u64,
    /// The connection's: a write that was given up since may still be in the server's hands, and must not
    /// come after one of ours.
    generation: u32,
    /// How to read no more than what is in memory.
    way: ReadWriteFlags,
    /// Range locks are the opening's: its writers take turns, as they would in the kernel.
    turn: Mutex<()>,
    _place: Place,
}

/// One of the descriptors that loans may take of this process.
#[derive(Debug)]
struct Place;

static PLACES: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn take() -> Option<Place> {
        static MOST: OnceLock<usize> = OnceLock::new();
        let most = *MOST.get_or_init(|| {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            // The rest is the program's own.
            limit.current.unwrap_or(u64::MAX).min(4096) as usize / 4
        });
        if PLACES.fetch_add(1, Ordering::Relaxed) < most {
            return Some(Place);
        }
        PLACES.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slot {
    /// The loan, if its server is there and nothing was given up since.
    fn loan(&self, pool: &Pool) -> Option<Arc<Loan>> {
        let loan = match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Here(loan) => loan.clone(),
            _ => return None,
        };
        if loan.generation == pool.generation() && loan.tie.holds() {
            return Some(loan);
        }
        self.set(State::Unasked);
        None
    }

    fn set(&self, state: State) {
        self.requests.store(0, Ordering::Relaxed);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Whether to ask for a loan now.
    fn is_due(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1 == REQUESTS && self.is_unasked()
    }

    fn is_unasked(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        matches!(*state, State::Unasked)
    }
}

impl Loan {
    /// Writes all slices from `offset` on. False when not all of it was, or when the server may have been
    /// stopped before: then the server must, again.
    fn write(&self, slices: &[IoSlice<'_>], mut offset: u64) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let length = slices.iter().map(|slice| slice.len() as u64).sum();
        let Some(_nobody_else) = range_lock::try_lock(&self.file, offset, length) else {
            return false;
        };
        for slices in slices.chunks(SLICES) {
            let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
            if rustix::io::pwritev(&self.file, slices, offset) != Ok(wanted) {
                return false;
            }
            offset += wanted as u64;
        }
        // A server that stops ends its connections, and then makes durable what it knows of.
        self.tie.holds()
    }

    /// Fills all slices from `offset` on; false where memory does not have it all.
    fn read(&self, mut slices: &mut [IoSliceMut<'_>], mut offset: u64) -> bool {
        while !slices.is_empty() {
            let now = slices.len().min(SLICES);
            let wanted: usize = slices[..now].iter().map(|slice| slice.len()).sum();
            let got = rustix::io::preadv2(&self.file, &mut slices[..now], offset, self.way);
            if got != Ok(wanted) {
                return false;
            }
            offset += wanted as u64;
            slices = &mut slices[now..];
        }
        true
    }
}

impl Inner {
    /// Whether a transfer is to be shared with the second thread.
    fn shares(&self, length: usize) -> bool {
        length >= SHARED && self.transfer().second
    }

    /// Writes a part to what a server lent; false as for [`Loan::write`].
    fn wrote(&self, server: usize, loan: &Loan, slices: &[IoSlice<'_>], at: u64) -> bool {
        self.heard(server, loan.incarnation);
        loan.write(slices, at)
    }
}

impl Lent {
    pub fn new(servers: usize, write: bool) -> Lent {
        Lent {
            write,
            slots: (0..servers).map(|_| Slot::default()).collect(),
            any: AtomicBool::new(false),
        }
    }

    /// Whether every server has lent its part.
    pub fn all(&self) -> bool {
        self.slots.iter().all(|slot| {
            matches!(
                *slot.state.read().unwrap_or_else(PoisonError::into_inner),
                State::Here(_)
            )
        })
    }

    /// Fills `buffer` if all of it is lent and in memory; otherwise its content is undefined.
    pub fn read(&self, file: &Inner, buffer: &mut [u8], offset: u64) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        if buffer.len() < DETOUR || !detour::pays(buffer, offset) {
            return self.read_straight(file, buffer, offset);
        }
        let places = (offset..).step_by(DETOUR);
        detour::with(|there| {
            buffer.chunks_mut(DETOUR).zip(places).all(|(piece, place)| {
                let there = &mut there[..piece.len()];
                let read = self.read_straight(file, there, place);
                piece.copy_from_slice(there);
                read
            })
        })
    }

    fn read_straight(&self, file: &Inner, buffer: &mut [u8], offset: u64) -> bool {
        if let Some((server, at)) = file.one_server(offset, buffer.len() as u64) {
            let loan = self.slots[server].loan(&file.servers[server]);
            return loan.is_some_and(|loan| loan.read(&mut [IoSliceMut::new(buffer)], at));
        }
        let mut parts = self.parts();
        let length = buffer.len();
        let (mut rest, mut place) = (buffer, offset);
        while !rest.is_empty() {
            let length = unit_at(file, place).min(rest.len() as u64);
            let (slice, after) = std::mem::take(&mut rest).split_at_mut(length as usize);
            add(&mut parts, file, place, IoSliceMut::new(slice));
            (rest, place) = (after, place + length);
        }
        let Some(loans) = self.loans(file, &parts) else {
            return false;
        };
        let shared = file.shares(length);
        // A lock each, for the slices are to be written to, which nobody has to wait for.
        let turns = turns(loans, parts, shared, Mutex::new);
        all(&turns, shared, |turn| {
            let mut slices = turn.slices.lock().unwrap_or_else(PoisonError::into_inner);
            turn.loan.read(&mut slices, turn.at)
        })
    }

    /// Writes `buffer` if all of its places are lent; otherwise anything may have been written of it.
    pub fn write(&self, file: &Inner, buffer: &[u8], offset: u64) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        if let Some((server, at)) = file.one_server(offset, buffer.len() as u64) {
            let loan = self.slots[server].loan(&file.servers[server]);
            return loan.is_some_and(|loan| file.wrote(server, &loan, &[IoSlice::new(buffer)], at));
        }
        let mut parts = self.parts();
        let (mut rest, mut place) = (buffer, offset);
        while !rest.is_empty() {
            let length = unit_at(file, place).min(rest.len() as u64);
            let (slice, after) = rest.split_at(length as usize);
            add(&mut parts, file, place, IoSlice::new(slice));
            (rest, place) = (after, place + length);
        }
        let Some(loans) = self.loans(file, &parts) else {
            return false;
        };
        let shared = file.shares(buffer.len());
        let turns = turns(loans, parts, shared, |slices| slices);
        all(&turns, shared, |turn| {
            file.wrote(turn.server, &turn.loan, &turn.slices, turn.at)
        })
    }

    /// Of each server's part of a request: where it begins, and its slices of the buffer.
    fn parts<T>(&self) -> Vec<(u64, Vec<T>)> {
        let mut parts = Vec::new();
        parts.resize_with(self.slots.len(), || (0, Vec::new()));
        parts
    }

    /// The loans of all servers that have a part; `None` if one is missing.
    fn loans<T>(&self, file: &Inner, parts: &[(u64, Vec<T>)]) -> Option<Vec<Option<Arc<Loan>>>> {
        let slots = self.slots.iter().zip(&file.servers).zip(parts);
        slots
            .map(|((slot, pool), (_, slices))| {
                if slices.is_empty() {
                    return Some(None);
                }
                slot.loan(pool).map(Some)
            })
            .collect()
    }

    /// A server carried out a request: it may be time to ask it for more.
    pub fn answered(&self, file: &Inner, server: usize, deadline: Deadline) {
        if self.slots[server].is_due() {
            self.ask_for(file, server, deadline);
        }
    }

    /// The only subfile of a file that has one, if its server lends it; for writing it is made if need be.
    pub fn whole(&self, file: &Inner, deadline: Deadline) -> Option<OwnedFd> {
        let ([slot], [pool]) = (&*self.slots, &*file.servers) else {
            return None;
        };
        let lent = || slot.loan(pool);
        let wish = if self.write { Wish::Make } else { Wish::Read };
        let mut loan = lent();
        // The first connection may be one to a server that is there no more, but again.
        for _ in 0..2 {
            if loan.is_none() && slot.is_unasked() {
                self.ask(file, 0, wish, deadline);
                loan = lent();
            }
        }
        let loan = loan?;
        if self.write {
            file.heard(0, loan.incarnation);
        }
        loan.file.try_clone().ok()
    }

    fn ask_for(&self, file: &Inner, server: usize, deadline: Deadline) {
        let wish = if self.write { Wish::Write } else { Wish::Read };
        self.ask(file, server, wish, deadline);
    }

    fn ask(&self, file: &Inner, server: usize, wish: Wish, deadline: Deadline) {
        let slot = &self.slots[server];
        let Some(place) = Place::take() else {
            slot.set(State::Unasked);
            return;
        };
        match ask(file, server, wish, place, deadline) {
            Ok(Some(loan)) => {
                slot.set(State::Here(Arc::new(loan)));
                self.any.store(true, Ordering::Relaxed);
            }
            Ok(None) => slot.set(State::Refused),
            // Whoever comes next meets the same trouble and reports it.
            Err(_) => slot.set(State::Unasked),
        }
    }
}

/// Carries out all parts, some of them by the second thread if they are `shared`; false when one failed.
fn all<T: Sync>(parts: &[T], shared: bool, act: impl Fn(&T) -> bool + Sync) -> bool {
    if !shared {
        return parts.iter().all(act);
    }
    let (next, well) = (AtomicUsize::new(0), AtomicUsize::new(0));
    PAIR.together(&|| {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            if act(part) {
                well.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    well.into_inner() == parts.len()
}

/// Bytes from `place` to the end of its stripe unit; without end where there is one server.
fn unit_at(file: &Inner, place: u64) -> u64 {
    if file.layout.servers.len() == 1 {
        return u64::MAX;
    }
    file.layout.unit - place % file.layout.unit
}

/// Adds a slice, which lies in one stripe unit, to its server's part.
fn add<T: Piece>(parts: &mut [(u64, Vec<T>)], file: &Inner, place: u64, slice: T) {
    let found = file.one_server(place, slice.length() as u64);
    let (server, at) = found.expect("not empty, and in one unit");
    let part = &mut parts[server];
    if part.1.is_empty() {
        part.0 = at;
    }
    part.1.push(slice);
}

/// What to be lent a subfile for, as `LEND` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read = 0,
    Write = 1,
    /// To write, and made if there is none.
    Make = 2,
}

fn ask(
    file: &Inner,
    server: usize,
    wish: Wish,
    place: Place,
    deadline: Deadline,
) -> Result<Option<Loan>, NetError> {
    let write = wish != Wish::Read;
    if write && !may_write_any_size() {
        return Ok(None);
    }
    let mut lease = file.servers[server].lease(deadline)?;
    if !lease.socket().is_unix() {
        lease.give_back();
        return Ok(None);
    }
    let asked = lease.call_for_descriptor(&mut file.header(Op::LEND, 0, wish as u64), deadline);
    let (incarnation, generation) = (lease.incarnation(), lease.generation());
    match &asked {
        Ok(_) | Err(NetError::Refused { .. }) => lease.give_back(),
        Err(_) => lease.give_up(),
    }
    let (descriptor, tie) = match asked {
        Ok(lent) => lent,
        Err(NetError::Refused { source, .. }) if source.errno != errno::ENOENT => return Ok(None),
        Err(error) => return Err(error),
    };
    let way = if write {
        Some(ReadWriteFlags::empty())
    } else {
        way_to_read(&descriptor)
    };
    Ok(way.map(|way| Loan {
        file: descriptor,
        tie,
        incarnation,
        generation,
        way,
        turn: Mutex::new(()),
        _place: place,
    }))
}

/// Whether a long file costs this process an error or a signal, which would not be the server's.
fn may_write_any_size() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current.is_none()
}

/// How to read what is in memory and not wait for a disk, where the file system knows a way.
fn way_to_read(file: &OwnedFd) -> Option<ReadWriteFlags> {
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(file, &mut slices, 0, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => Some(ReadWriteFlags::NOWAIT),
        Err(_) => {
            let kind = rustix::fs::fstatfs(file).ok()?.f_type;
            // All of it is in memory.
            (kind == libc::TMPFS_MAGIC).then(ReadWriteFlags::empty)
        }
    }
}
