//! A meeting: every member brings something once, and all get the same outcome.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trireme_net::Deadline;
use trireme_proto::{Refusal, refusal::errno};

/// What a meeting is in.
#[derive(Debug)]
struct State<C, R> {
    brought: Vec<Option<C>>,
    came: Vec<bool>,
    first: Option<Instant>,
    /// All have come; somebody works on the outcome.
    working: bool,
    /// Why whoever works should stop.
    abort: Option<Refusal>,
    outcome: Option<Result<Arc<R>, Refusal>>,
}

/// A meeting of all members of a group.
#[derive(Debug)]
pub struct Meeting<C, R> {
    name: String,
    state: Mutex<State<C, R>>,
    changed: Condvar,
}

/// How a meeting ended badly.
pub type Failed = Refusal;

/// What one who came is to do.
#[derive(Debug)]
pub enum Came<C> {
    /// Wait for the outcome.
    Wait,
    /// All are there: make the outcome of this, and conclude. Second: since when the first waited.
    Last(Vec<C>, Duration),
}

/// A list of members for a message: `member 3`, `members 1, 2 and 5`.
pub fn ranks(ranks: impl Iterator<Item = u32>) -> String {
    let ranks: Vec<u32> = ranks.collect();
    let shown: Vec<String> = ranks.iter().take(8).map(u32::to_string).collect();
    match (&shown[..], ranks.len()) {
        ([], _) => "nobody".into(),
        ([one], _) => format!("member {one}"),
        ([first @ .., last], count) if count == shown.len() => {
            format!("members {} and {last}", first.join(", "))
        }
        (_, count) => format!(
            "members {} and {} more",
            shown.join(", "),
            count - shown.len()
        ),
    }
}

impl<C, R> Meeting<C, R> {
    /// A meeting of `size` members.
    pub fn new(name: &str, size: u32) -> Meeting<C, R> {
        let count = size as usize;
        Meeting {
            name: name.to_owned(),
            state: Mutex::new(State {
                brought: (0..count).map(|_| None).collect(),
                came: vec![false; count],
                first: None,
                working: false,
                abort: None,
                outcome: None,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<C, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member comes and brings something.
    pub fn come(&self, rank: u32, brings: C) -> Result<Came<C>, Failed> {
        let mut state = self.lock();
        if let Some(Err(refusal)) = &state.outcome {
            return Err(refusal.clone());
        }
        if std::mem::replace(&mut state.came[rank as usize], true) {
            return Err(Refusal::new(
                errno::EINVAL,
                format!("group \"{}\": member {rank} came twice", self.name),
            ));
        }
        state.first.get_or_insert_with(Instant::now);
        state.brought[rank as usize] = Some(brings);
        if !state.came.iter().all(|came| *came) {
            return Ok(Came::Wait);
        }
        state.working = true;
        let waited = state.first.map_or(Duration::ZERO, |first| first.elapsed());
        let all = state.brought.drain(..).flatten().collect();
        Ok(Came::Last(all, waited))
    }

    /// The lane of a member has ended. If it has come, whoever works must stop, or the meeting fails;
    /// if it has not, it may be about to come on a new lane: see [`Meeting::absent`].
    pub fn lost(&self, rank: u32, refusal: &Refusal) {
        let mut state = self.lock();
        if state.working && state.outcome.is_none() {
            state.abort.get_or_insert_with(|| refusal.clone());
        } else if state.came[rank as usize] {
            drop(state);
            self.conclude(Err(refusal.clone()));
        }
    }

    /// A member cannot take part, or no longer: unless all have come, nobody need wait. Whether so.
    pub fn refuse(&self, refusal: &Refusal) -> bool {
        let mut state = self.lock();
        if state.working || state.outcome.is_some() {
            return false;
        }
        state.outcome = Some(Err(refusal.clone()));
        drop(state);
        self.changed.notify_all();
        true
    }

    /// A member is at a later meeting: it does not come to this one any more.
    pub fn passed_by(&self, rank: u32, refusal: &Refusal) {
        if self.absent().contains(&rank) {
            self.refuse(refusal);
        }
    }

    /// Members that have not come.
    pub fn absent(&self) -> Vec<u32> {
        let state = self.lock();
        (0..state.came.len() as u32)
            .filter(|rank| !state.came[*rank as usize])
            .collect()
    }

    /// Ends the meeting for everybody.
    pub fn conclude(&self, outcome: Result<R, Refusal>) {
        let mut state = self.lock();
        if state.outcome.is_none() {
            state.outcome = Some(outcome.map(Arc::new));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Why whoever works on the outcome should stop, if so.
    pub fn aborted(&self) -> Option<Refusal> {
        self.lock().abort.clone()
    }

    /// Waits for the outcome, calling `tick` now and then. `deadline`, if there is one, is for the
    /// others' coming: work that goes on is waited for.
    pub fn wait(
        &self,
        deadline: Option<Deadline>,
        every: Duration,
        mut tick: impl FnMut(),
    ) -> Result<Arc<R>, Failed> {
        let mut state = self.lock();
        let mut next = Instant::now() + every;
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            let deadline = deadline.filter(|_| !state.working);
            if let Some(deadline) = deadline.filter(Deadline::over) {
                let missing =
                    ranks((0..state.came.len() as u32).filter(|rank| !state.came[*rank as usize]));
                let refusal = Refusal::new(
                    errno::ETIMEDOUT,
                    format!(
                        "group \"{}\": {missing} did not come within {} s",
                        self.name,
                        deadline.total().as_secs_f64()
                    ),
                );
                state.outcome = Some(Err(refusal));
                self.changed.notify_all();
                continue;
            }
            let mut wait = next.saturating_duration_since(Instant::now());
            if let Some(deadline) = deadline {
                wait = wait.min(deadline.left());
            }
            state = self
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if Instant::now() >= next {
                next = Instant::now() + every;
                drop(state);
                tick();
                state = self.lock();
            }
        }
    }
}
