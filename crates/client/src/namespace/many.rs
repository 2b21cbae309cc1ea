//! Many calls under way at once without a thread for each: they go out on one connection, and nobody
//! waits for an answer that another call needs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trireme_net::{Deadline, NetError, Pipeline};
use trireme_proto::Op;
use trireme_proto::message::meta::{Call, RETRY_SECONDS, Request, Response};

use super::Namespace;
use super::serial::Serial;

/// How many calls of one [`Namespace::ask_many`] are under way unless told otherwise: enough that manager
/// and client rarely wait for each other.
pub const IN_FLIGHT: usize = 64;

/// Pause before calls whose connection broke go out on the next.
const PAUSE: Duration = Duration::from_millis(5);

/// A call without an answer yet.
struct Asked<'a> {
    /// Its place in the order of requests.
    place: usize,
    body: Vec<u8>,
    deadline: Deadline,
    /// Kept until it is over.
    _serial: Option<Serial<'a>>,
}

impl Namespace {
    /// Asks many things that can be asked twice, with up to `in_flight` calls under way at a time.
    /// `done` gets each answer with its request's place in the order, in any order of answers.
    ///
    /// ```no_run
    /// use trireme::namespace::{IN_FLIGHT, place};
    /// use trireme_proto::message::meta::Request;
    /// # fn f(namespace: &trireme::Namespace, names: &[std::path::PathBuf]) {
    /// let looks = names.iter().map(|name| Request::Lookup { place: place(name), follow: true });
    /// let mut found = 0;
    /// namespace.ask_many(looks, IN_FLIGHT, |_, answer| found += u32::from(answer.is_ok()));
    /// # }
    /// ```
    pub fn ask_many(
        &self,
        requests: impl IntoIterator<Item = Request>,
        in_flight: usize,
        done: impl FnMut(usize, Result<Response, NetError>),
    ) {
        self.many(requests.into_iter(), in_flight, false, done);
    }

    /// Asks for many changes, each of which is carried out at most once, as [`Namespace::ask_many`] does.
    /// They share commits; which of two comes first is not said.
    pub fn change_many(
        &self,
        requests: impl IntoIterator<Item = Request>,
        in_flight: usize,
        done: impl FnMut(usize, Result<Response, NetError>),
    ) {
        self.many(requests.into_iter(), in_flight, true, done);
    }

    fn many(
        &self,
        requests: impl Iterator<Item = Request>,
        in_flight: usize,
        change: bool,
        mut done: impl FnMut(usize, Result<Response, NetError>),
    ) {
        let mut requests = requests.enumerate().peekable();
        // Calls that must go out (again) before any new one.
        let mut waiting: VecDeque<Asked<'_>> = VecDeque::new();
        while !waiting.is_empty() || requests.peek().is_some() {
            let deadline = match waiting.front() {
                Some(first) => first.deadline,
                None => Deadline::after(self.many_time(change)),
            };
            let mut lease = match self.shared.pool.lease_or_wait(deadline) {
                Ok(lease) => lease,
                Err(error) => {
                    // One by one, each with its own deadline: the manager may come back meanwhile.
                    let place = match waiting.pop_front() {
                        Some(first) => Some(first.place),
                        None => requests.next().map(|(place, _)| place),
                    };
                    if let Some(place) = place {
                        done(place, Err(error));
                    }
                    continue;
                }
            };
            let reused = lease.reused;
            let mut flying = BTreeMap::new();
            let end = drive(
                &mut Pipeline::new(&mut lease),
                &mut flying,
                |idle| {
                    let first = waiting.pop_front();
                    first.or_else(|| self.prepare(&mut requests, change, idle))
                },
                in_flight.max(1),
                &mut done,
            );
            match end {
                Ok(()) => lease.give_back(),
                Err(error) => {
                    lease.give_up();
                    if !error.passing()
                        && let Some((_, first)) = flying.pop_first()
                    {
                        done(first.place, Err(error));
                    }
                    if !reused {
                        std::thread::sleep(PAUSE);
                    }
                    waiting.extend(flying.into_values());
                }
            }
            self.notice_restart();
        }
    }

    /// The next call, if a number for it is free. Who is `idle` may wait for one; who is not has answers
    /// to take first, which free some.
    fn prepare<'a>(
        &'a self,
        requests: &mut std::iter::Peekable<impl Iterator<Item = (usize, Request)>>,
        change: bool,
        idle: bool,
    ) -> Option<Asked<'a>> {
        requests.peek()?;
        let serials = &self.shared.serials;
        let serial = match change {
            false => None,
            true if idle => Some(serials.take()),
            true => Some(serials.take_if_free()?),
        };
        let (place, request) = requests.next()?;
        let call = Call {
            caller: self.caller.clone(),
            serial: serial.as_ref().map_or(0, Serial::serial),
            soft: self.soft,
            making: self.making,
            request,
        };
        Some(Asked {
            place,
            body: trireme_proto::encode(&call),
            deadline: Deadline::after(self.many_time(change)),
            _serial: serial,
        })
    }

    fn many_time(&self, change: bool) -> Duration {
        if change {
            self.call_time.min(Duration::from_secs(RETRY_SECONDS))
        } else {
            self.call_time
        }
    }
}

/// Keeps `in_flight` calls under way on one connection until there are no more, or it fails.
fn drive<'a>(
    pipeline: &mut Pipeline<'_>,
    flying: &mut BTreeMap<u64, Asked<'a>>,
    mut next: impl FnMut(bool) -> Option<Asked<'a>>,
    in_flight: usize,
    done: &mut impl FnMut(usize, Result<Response, NetError>),
) -> Result<(), NetError> {
    loop {
        while flying.len() < in_flight
            && let Some(asked) = next(flying.is_empty())
        {
            let number = pipeline.push(Op::META, &asked.body, asked.deadline);
            flying.insert(number, asked);
        }
        let Some(oldest) = flying.values().next() else {
            return Ok(());
        };
        let (number, answer) = pipeline.next(oldest.deadline)?;
        if let Some(asked) = flying.remove(&number) {
            done(asked.place, answer);
        }
    }
}
