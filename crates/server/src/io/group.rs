//! Groups as one I/O server sees them: who is there, and what its members meet for.
//!
//! A member lends each server a few connections (lanes). Their ending is how its death is noticed: every
//! meeting that still waits for it fails at once, with its number in the message.

mod meeting;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trireme_net::{Backchannel, Deadline, Link, random_u64};
use trireme_proto::message::group::{Join, Joined, Seat};
use trireme_proto::{Refusal, limits, refusal::errno};

pub use meeting::{Came, Meeting, ranks};

use super::directed::{Arrival, Run};

/// Failed meetings that a room remembers, so that who comes late hears why at once.
const REMEMBERED: usize = 16;

/// How long a member may be without a lane before it is taken for gone: it may be connecting anew after
/// an error.
const GRACE: Duration = Duration::from_secs(1);

/// How often somebody who waits looks whether its own client is still there.
pub const LOOK: Duration = Duration::from_millis(100);

/// All groups that this server knows.
#[derive(Debug, Default)]
pub struct Groups {
    gathering: Mutex<HashMap<(u32, String), Arc<Gathering>>>,
    rooms: Mutex<HashMap<u64, Arc<Room>>>,
}

/// A group whose members are still coming.
#[derive(Debug)]
struct Gathering {
    size: u32,
    state: Mutex<(Vec<bool>, Option<Joined>)>,
    changed: Condvar,
}

/// A group with members here.
#[derive(Debug)]
pub struct Room {
    name: String,
    size: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: BTreeMap<(u32, u32), Backchannel>,
    /// Members whose lane has ended, and since when.
    gone: BTreeMap<u32, Instant>,
    gathers: Meetings<Vec<u8>, Vec<Vec<u8>>>,
    collectives: Meetings<Arrival, Run>,
}

/// Bytes of each member, for all.
pub type Gather = Meeting<Vec<u8>, Vec<Vec<u8>>>;

/// What members meet for, by number, and how recent meetings failed.
#[derive(Debug)]
struct Meetings<C, R> {
    open: BTreeMap<u64, Arc<Meeting<C, R>>>,
    failed: BTreeMap<u64, Refusal>,
    /// The latest meeting that each member came to.
    latest: BTreeMap<u32, u64>,
}

impl<C, R> Default for Meetings<C, R> {
    fn default() -> Self {
        Meetings {
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_seat(rank: u32, size: u32) -> Result<(), Refusal> {
    if size == 0 || size > limits::MEMBERS || rank >= size {
        return Err(Refusal::new(
            errno::EINVAL,
            format!(
                "member {rank} of {size}: a group has 1 to {} members, numbered from 0",
                limits::MEMBERS
            ),
        ));
    }
    Ok(())
}

impl Groups {
    /// Waits until all members of the group have come.
    pub fn join(&self, join: &Join, link: &Link, deadline: Deadline) -> Result<Joined, Refusal> {
        check_seat(join.rank, join.size)?;
        if join.name.len() > limits::GROUP_NAME_BYTES {
            let why = format!(
                "a group's name has at most {} bytes",
                limits::GROUP_NAME_BYTES
            );
            return Err(Refusal::new(errno::ENAMETOOLONG, why));
        }
        let key = (link.peer().uid, join.name.clone());
        let rank = join.rank as usize;
        let mut all = lock(&self.gathering);
        let gathering = all.entry(key.clone()).or_insert_with(|| {
            Arc::new(Gathering {
                size: join.size,
                state: Mutex::new((vec![false; join.size as usize], None)),
                changed: Condvar::new(),
            })
        });
        if gathering.size != join.size {
            let why = format!(
                "group \"{}\": member {rank} says there are {} members, others say {}",
                join.name, join.size, gathering.size
            );
            return Err(Refusal::new(errno::EINVAL, why));
        }
        let gathering = gathering.clone();
        let mut state = lock(&gathering.state);
        if std::mem::replace(&mut state.0[rank], true) {
            let why = format!("group \"{}\" has its member {rank} already", join.name);
            return Err(Refusal::new(errno::EEXIST, why));
        }
        if state.0.iter().all(|here| *here) {
            let joined = Joined {
                group: random_u64(),
            };
            state.1 = Some(joined.clone());
            all.remove(&key);
            gathering.changed.notify_all();
            return Ok(joined);
        }
        drop(all);
        let backchannel = link.backchannel();
        loop {
            if let Some(joined) = &state.1 {
                return Ok(joined.clone());
            }
            let gone = !backchannel.is_open(Duration::ZERO);
            if gone || deadline.over() {
                let missing = ranks((0..join.size).filter(|rank| !state.0[*rank as usize]));
                drop(state);
                // In the order of the locks; somebody may have completed the group meanwhile.
                let mut all = lock(&self.gathering);
                let mut state = lock(&gathering.state);
                if let Some(joined) = &state.1 {
                    return Ok(joined.clone());
                }
                state.0[rank] = false;
                if state.0.iter().all(|here| !here) {
                    all.remove(&key);
                }
                let why = if gone {
                    format!("group \"{}\": member {rank} went away", join.name)
                } else {
                    format!(
                        "group \"{}\": {missing} of {} did not come within {} s",
                        join.name,
                        join.size,
                        deadline.total().as_secs_f64()
                    )
                };
                return Err(Refusal::new(errno::ETIMEDOUT, why));
            }
            let wait = deadline.left().min(LOOK);
            state = gathering
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The room of a group that has lanes here.
    pub fn room(&self, seat: &Seat) -> Result<Arc<Room>, Refusal> {
        check_seat(seat.rank, seat.size)?;
        let room = lock(&self.rooms).get(&seat.group).cloned();
        let room = room.ok_or_else(|| {
            Refusal::new(
                errno::ESTALE,
                "this server does not know the group: it was restarted, or the member has no lane \
                 here; try again",
            )
        })?;
        if room.size != seat.size {
            let why = format!("group \"{}\" has {} members", room.name, room.size);
            return Err(Refusal::new(errno::EINVAL, why));
        }
        Ok(room)
    }

    /// Adds a lane of a member.
    pub fn park(
        &self,
        seat: &Seat,
        name: &str,
        lane: u32,
        backchannel: Backchannel,
    ) -> Result<Arc<Room>, Refusal> {
        check_seat(seat.rank, seat.size)?;
        if lane >= limits::LANES {
            return Err(Refusal::new(
                errno::EINVAL,
                format!("there is no lane {lane}"),
            ));
        }
        let mut rooms = lock(&self.rooms);
        let room = rooms.entry(seat.group).or_insert_with(|| {
            Arc::new(Room {
                name: name.to_owned(),
                size: seat.size,
                state: Mutex::new(State::default()),
            })
        });
        if room.size != seat.size {
            let why = format!("group \"{name}\" has {} members", room.size);
            return Err(Refusal::new(errno::EINVAL, why));
        }
        let room = room.clone();
        let mut state = lock(&room.state);
        state.gone.remove(&seat.rank);
        let old = state.lanes.insert((seat.rank, lane), backchannel);
        drop(state);
        if let Some(old) = old {
            old.end();
        }
        Ok(room)
    }

    /// A lane has ended: its member is gone, unless the lane has been replaced.
    pub fn leave(&self, seat: &Seat, lane: u32, ended: &Backchannel) {
        let mut rooms = lock(&self.rooms);
        let Some(room) = rooms.get(&seat.group).cloned() else {
            return;
        };
        let mut state = lock(&room.state);
        let current = state.lanes.get(&(seat.rank, lane));
        if !current.is_some_and(|current| current.is(ended)) {
            return;
        }
        state.lanes.remove(&(seat.rank, lane));
        state.gone.insert(seat.rank, Instant::now());
        let refusal = room.went_away(seat.rank);
        for meeting in state.gathers.open.values() {
            meeting.lost(seat.rank, &refusal);
        }
        for meeting in state.collectives.open.values() {
            meeting.lost(seat.rank, &refusal);
        }
        if state.lanes.is_empty() {
            rooms.remove(&seat.group);
        }
    }
}

impl Room {
    /// The group's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the others are told when a member is gone.
    pub fn went_away(&self, rank: u32) -> Refusal {
        let why = format!("group \"{}\": member {rank} went away", self.name);
        Refusal::new(errno::EPIPE, why)
    }

    fn gave_up(&self, rank: u32) -> Refusal {
        let why = format!("group \"{}\": member {rank} has given up", self.name);
        Refusal::new(errno::EPIPE, why)
    }

    /// Ends a meeting that waits for a member who is gone for good.
    pub fn give_up_on_the_gone<C, R>(&self, meeting: &Meeting<C, R>) {
        let waited_for = meeting.absent();
        let gone = self.absent();
        if let Some(rank) = gone.into_iter().find(|rank| waited_for.contains(rank)) {
            meeting.refuse(&self.went_away(rank));
        }
    }

    /// Members who are gone for good.
    pub fn absent(&self) -> Vec<u32> {
        let state = lock(&self.state);
        let gone = state.gone.iter();
        gone.filter(|(_, since)| since.elapsed() > GRACE)
            .map(|(rank, _)| *rank)
            .collect()
    }

    /// Ends a meeting that waits for a member of whom nothing is known here: it had no connection to this
    /// server since that was started, or ever.
    pub fn give_up_on_strangers<C, R>(&self, meeting: &Meeting<C, R>) {
        let mut strangers = meeting.absent();
        let state = lock(&self.state);
        strangers.retain(|rank| !state.lanes.keys().any(|(member, _)| member == rank));
        drop(state);
        if !strangers.is_empty() {
            let missing = ranks(strangers.into_iter());
            let why = format!(
                "group \"{}\": {missing} did not come, nor connect to this server anew",
                self.name
            );
            meeting.refuse(&Refusal::new(errno::ETIMEDOUT, why));
        }
    }

    /// A member's lanes, all of them.
    pub fn lanes(&self, rank: u32) -> Option<Vec<Backchannel>> {
        let state = lock(&self.state);
        (0..limits::LANES)
            .map(|lane| state.lanes.get(&(rank, lane)).cloned())
            .collect()
    }

    /// The gather with this number, for a member that comes to it.
    pub fn gather(&self, rank: u32, sequence: u64) -> Result<Arc<Gather>, Refusal> {
        self.meeting(rank, sequence, |state| &mut state.gathers)
    }

    /// The collective with this number, for a member that comes to it.
    pub fn collective(
        &self,
        rank: u32,
        sequence: u64,
    ) -> Result<Arc<Meeting<Arrival, Run>>, Refusal> {
        self.meeting(rank, sequence, |state| &mut state.collectives)
    }

    fn meeting<C, R>(
        &self,
        rank: u32,
        sequence: u64,
        of: impl Fn(&mut State) -> &mut Meetings<C, R>,
    ) -> Result<Arc<Meeting<C, R>>, Refusal> {
        let mut state = lock(&self.state);
        let meetings = of(&mut state);
        if let Some(refusal) = meetings.failed.get(&sequence) {
            return Err(refusal.clone());
        }
        let meeting = meetings
            .open
            .entry(sequence)
            .or_insert_with(|| Arc::new(Meeting::new(&self.name, self.size)))
            .clone();
        let latest = meetings.latest.entry(rank).or_insert(sequence);
        *latest = sequence.max(*latest);
        // A member's calls come in order. One that failed for it without this server's knowledge, say
        // because that was restarted, must not keep the others for ever.
        for (open, meeting) in &meetings.open {
            for (rank, _) in meetings.latest.iter().filter(|(_, latest)| *latest > open) {
                meeting.passed_by(*rank, &self.gave_up(*rank));
            }
        }
        Ok(meeting)
    }

    /// Forgets a gather that has ended.
    pub fn end_gather(&self, sequence: u64, failed: Option<&Refusal>) {
        self.end(sequence, failed, |state| &mut state.gathers);
    }

    /// Forgets a collective that has ended.
    pub fn end_collective(&self, sequence: u64, failed: Option<&Refusal>) {
        self.end(sequence, failed, |state| &mut state.collectives);
    }

    fn end<C, R>(
        &self,
        sequence: u64,
        failed: Option<&Refusal>,
        of: impl Fn(&mut State) -> &mut Meetings<C, R>,
    ) {
        let mut state = lock(&self.state);
        let meetings = of(&mut state);
        meetings.open.remove(&sequence);
        if let Some(refusal) = failed {
            meetings.failed.insert(sequence, refusal.clone());
            while meetings.failed.len() > REMEMBERED {
                meetings.failed.pop_first();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_at_a_later_meeting_is_not_waited_for() {
        let room = Room {
            name: "all".into(),
            size: 2,
            state: Mutex::default(),
        };
        let wait = |gather: &Gather| gather.wait(None, LOOK, || ()).unwrap_err().to_string();
        // Who waits already.
        let first = room.gather(0, 1).unwrap();
        assert!(matches!(first.come(0, Vec::new()), Ok(Came::Wait)));
        let second = room.gather(1, 2).unwrap();
        assert!(matches!(second.come(1, Vec::new()), Ok(Came::Wait)));
        assert!(wait(&first).contains("member 1 has given up"));
        // Who comes later.
        let third = room.gather(1, 4).unwrap();
        assert!(matches!(third.come(1, Vec::new()), Ok(Came::Wait)));
        room.end_gather(4, None);
        let late = room.gather(0, 3).unwrap();
        assert!(wait(&late).contains("member 1 has given up"));
    }

    #[test]
    fn nobody_is_sent_away_from_work_that_goes_on() {
        let meeting: Gather = Meeting::new("all", 2);
        assert!(matches!(meeting.come(0, Vec::new()), Ok(Came::Wait)));
        let Ok(Came::Last(all, _)) = meeting.come(1, Vec::new()) else {
            panic!("all are there");
        };
        assert!(!meeting.refuse(&Refusal::new(errno::EIO, "lost another server")));
        meeting.conclude(Ok(all));
        assert_eq!(meeting.wait(None, LOOK, || ()).unwrap().len(), 2);
    }
}
