//! A disk-directed collective as a member sees it: one small request to each server, and then nothing to
//! do but to answer on the lanes of servers that cannot reach its memory by themselves.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trireme_net::{Deadline, Lease, Loan, NetError, large_pages};
use trireme_proto::message::collective::{Collective as Body, Memory as Place, Phases};
use trireme_proto::{Header, Op, Refusal, refusal::errno};
use zerocopy::little_endian::U64;

use super::access::Access;
use super::serve::{Memory, Serving};
use super::{Method, Report, ServerReport};
use crate::file::{File, Inner};
use crate::group::{GRACE, fresh_lease};
use crate::{Error, Group, Result};

/// One server's part in a collective.
struct Call<'a> {
    /// Its place in the layout.
    index: usize,
    lease: Option<Lease<'a>>,
    lanes: Vec<Serving>,
    heard: Instant,
    /// The bytes went over the lanes: each has to say that it is finished, too.
    over_lanes: bool,
    outcome: Option<std::result::Result<Phases, NetError>>,
}

pub(crate) fn run(
    file: &File,
    group: &Group,
    access: &Access,
    memory: Memory,
    write: bool,
) -> Result<Report> {
    let file = &*file.inner;
    let sequence = group.inner.collectives.load(Ordering::Relaxed);
    let deadline = file.cluster.deadline();
    let mut calls = Vec::with_capacity(file.servers.len());
    for index in 0..file.servers.len() {
        match connect(file, group, index, memory, deadline) {
            Ok(call) => calls.push(call),
            Err(error) => {
                let (nothing, soon) = (Memory::source(&[]), Deadline::after(GRACE));
                let rest = index + 1..file.servers.len();
                calls.extend(rest.filter_map(|i| connect(file, group, i, nothing, soon).ok()));
                give_up(file, group, sequence, &mut calls, &error);
                return Err(error);
            }
        }
    }
    // SAFETY: the caller of the collective lends the buffer until it returns, and the loan ends before.
    let _loan = unsafe { Loan::new(memory.address(), memory.length()) };
    if calls.iter().any(Call::reaches_into_memory) {
        // SAFETY: the buffer is lent until this function returns.
        unsafe { large_pages::prepare(memory.address(), memory.length()) };
    }
    let view = access.part().encode();
    for call in &mut calls {
        if let Err(error) = send(file, group, call, sequence, &view, memory, write, deadline) {
            call.fail(error);
        }
    }
    let patience = file.cluster.options().deadline + GRACE;
    let mut told = false;
    while calls.iter().any(|call| !call.is_over()) {
        if !told && let Some(why) = calls.iter().find_map(Call::lost) {
            told = true;
            tell(file, group, sequence, &calls, why);
        }
        wait(&mut calls, patience);
    }
    finish(file, group, access, calls)
}

/// Tells all servers that this member cannot take part.
pub(crate) fn refuse(file: &File, group: &Group, error: &Error) {
    let file = &*file.inner;
    let sequence = group.inner.collectives.load(Ordering::Relaxed);
    let deadline = file.cluster.deadline();
    let nothing = Memory::source(&[]);
    let mut calls: Vec<Call<'_>> = (0..file.servers.len())
        .filter_map(|index| connect(file, group, index, nothing, deadline).ok())
        .collect();
    give_up(file, group, sequence, &mut calls, error);
}

fn connect<'a>(
    file: &'a Inner,
    group: &Group,
    index: usize,
    memory: Memory,
    deadline: Deadline,
) -> Result<Call<'a>> {
    let lanes = group
        .inner
        .take_lanes(file.layout.servers[index], deadline)?
        .into_iter()
        // SAFETY: lanes are served only inside `run`, during which the buffer is lent.
        .map(|connection| unsafe { Serving::new(connection, memory) })
        .collect();
    Ok(Call {
        index,
        lease: Some(fresh_lease(&file.servers[index], deadline)?),
        lanes,
        heard: Instant::now(),
        over_lanes: false,
        outcome: None,
    })
}

#[allow(clippy::too_many_arguments)] // One request has that many parts.
fn send(
    file: &Inner,
    group: &Group,
    call: &mut Call<'_>,
    sequence: u64,
    view: &[u8],
    memory: Memory,
    write: bool,
    deadline: Deadline,
) -> std::result::Result<(), NetError> {
    let lease = call.lease.as_mut().expect("just connected");
    let mut place = Place::Address(memory.address() as u64);
    if lease.socket().is_unix() && memory.length() > 0 {
        // SAFETY: the caller of the collective lends the buffer until it returns.
        let bytes = unsafe { memory.slice(&(0..memory.length() as u64)) };
        if let Some(window) = file.cluster.shared.memory.around(bytes)
            && let Some(at) = window.place_of(bytes)
        {
            if !lease.shares(&window) {
                lease.share_memory(&window, deadline)?;
            }
            place = Place::Window(at);
        }
    }
    let body = Body {
        seat: group.inner.seat,
        sequence,
        write,
        server: (call.index as u32, file.servers.len() as u32),
        layout: file.parts[call.index].encode(),
        view: view.to_vec(),
        memory: place,
        refused: None,
    };
    let mut header = header(file, group);
    lease.send(&mut header, &trireme_proto::encode(&body), &[], deadline)
}

fn header(file: &Inner, group: &Group) -> Header {
    let grant = &file.opened.grant;
    let mut header = group.request(Op::COLLECTIVE);
    header.add_flags(grant.rights.flags());
    header.file = U64::new(grant.file);
    header.token = U64::new(grant.token.0);
    header
}

/// Says why this member does not take part, so that nobody waits for it.
fn give_up(file: &Inner, group: &Group, sequence: u64, calls: &mut Vec<Call<'_>>, why: &Error) {
    let deadline = Deadline::after(GRACE);
    let refusal = Refusal::new(why.errno(), why.to_string());
    for call in calls.drain(..) {
        if let Some(lease) = call.lease {
            decline(file, group, sequence, lease, &refusal, deadline);
        }
        let lanes = call.lanes.into_iter().map(|lane| lane.connection).collect();
        group
            .inner
            .keep_lanes(file.layout.servers[call.index], lanes);
    }
}

/// A server is lost: the others, who may wait for members that take their time, need not.
fn tell(file: &Inner, group: &Group, sequence: u64, calls: &[Call<'_>], why: &NetError) {
    let deadline = Deadline::after(GRACE);
    let refusal = Refusal::new(errno::EIO, why.to_string());
    for call in calls.iter().filter(|call| call.outcome.is_none()) {
        if let Ok(lease) = fresh_lease(&file.servers[call.index], deadline) {
            decline(file, group, sequence, lease, &refusal, deadline);
        }
    }
}

/// Tells one server that this member does not take part.
fn decline(
    file: &Inner,
    group: &Group,
    sequence: u64,
    mut lease: Lease<'_>,
    why: &Refusal,
    deadline: Deadline,
) {
    let body = Body {
        seat: group.inner.seat,
        sequence,
        write: false,
        server: (0, 1),
        layout: Vec::new(),
        view: Vec::new(),
        memory: Place::Address(0),
        refused: Some(why.clone()),
    };
    let mut header = header(file, group);
    let body = trireme_proto::encode(&body);
    let said = lease.call(&mut header, &body, &[], &mut [], deadline);
    if matches!(said, Err(NetError::Refused { .. })) {
        lease.give_back();
    } else {
        lease.give_up();
    }
}

impl Call<'_> {
    /// Nothing more is to be expected of this server: closing the connections tells it to keep off our
    /// memory.
    fn fail(&mut self, error: NetError) {
        if let Some(lease) = self.lease.take() {
            shutdown(lease.socket());
            lease.give_up();
        }
        for lane in self.lanes.drain(..) {
            shutdown(lane.connection.socket());
        }
        self.outcome = Some(Err(error));
    }

    /// Whether the server is on this host and may move the bytes by itself.
    fn reaches_into_memory(&self) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.socket().is_unix())
    }

    /// Why the server is out of reach, if it is.
    fn lost(&self) -> Option<&NetError> {
        let error = self.outcome.as_ref()?.as_ref().err()?;
        (!matches!(error, NetError::Refused { .. })).then_some(error)
    }

    fn is_over(&self) -> bool {
        match &self.outcome {
            None => false,
            Some(Ok(_)) if self.over_lanes => self.lanes.iter().all(|lane| lane.finished),
            Some(_) => true,
        }
    }

    /// Hears what the server has to say on the request's own connection.
    fn hear(&mut self, deadline: Deadline) {
        let lease = self.lease.as_mut().expect("not failed");
        match lease.receive(&mut [], deadline) {
            Ok(reply) if reply.header.op() == Op::PROGRESS => self.heard = Instant::now(),
            Ok(reply) => {
                self.over_lanes = reply.header.length.get() != 0;
                let peer = lease.peer().to_owned();
                self.outcome = Some(
                    trireme_proto::decode(&reply.body)
                        .map_err(|source| NetError::Refused { peer, source }),
                );
            }
            Err(error @ NetError::Refused { .. }) => self.outcome = Some(Err(error)),
            Err(error) => self.fail(error),
        }
    }
}

fn shutdown(socket: &trireme_net::socket::Socket) {
    socket.shutdown();
}

/// Waits for the next event and deals with it.
fn wait(calls: &mut [Call<'_>], patience: Duration) {
    let mut fds = Vec::new();
    let mut whose = Vec::new();
    let mut left = patience;
    for (number, call) in calls.iter().enumerate() {
        if call.is_over() {
            continue;
        }
        left = left.min(patience.saturating_sub(call.heard.elapsed()));
        if let Some(lease) = &call.lease
            && call.outcome.is_none()
        {
            fds.push(PollFd::new(lease.socket(), PollFlags::IN));
            whose.push((number, None));
        }
        for (lane, serving) in call.lanes.iter().enumerate() {
            let socket = serving.connection.socket();
            fds.push(PollFd::new(socket, serving.waits_for()));
            whose.push((number, Some(lane)));
        }
    }
    let time = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    let _ = poll(&mut fds, Some(&time));
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    for ((number, lane), ready) in whose.into_iter().zip(ready) {
        let call = &mut calls[number];
        if call.is_over() {
            continue;
        }
        if ready {
            match lane {
                None => call.hear(Deadline::after(patience)),
                Some(lane) => match call.lanes[lane].advance() {
                    Ok(()) => call.heard = Instant::now(),
                    Err(error) => call.fail(error),
                },
            }
        } else if call.heard.elapsed() >= patience {
            let peer = call
                .lease
                .as_ref()
                .map_or_else(String::new, |lease| lease.peer().to_owned());
            call.fail(NetError::TimedOut {
                peer,
                total: patience,
            });
        }
    }
}

fn finish(file: &Inner, group: &Group, access: &Access, calls: Vec<Call<'_>>) -> Result<Report> {
    let mut report = Report::new(Method::DiskDirected, access);
    let mut failed: Option<NetError> = None;
    for call in calls {
        let server = file.layout.servers[call.index];
        match call.outcome {
            Some(Ok(phases)) => {
                report.server_cpu += phases.cpu_ns as f64 / 1e9;
                report.servers.push(ServerReport { server, phases });
            }
            Some(Err(error)) => {
                // A server that says who is missing says more than one that is gone.
                let better = matches!(error, NetError::Refused { .. })
                    && !matches!(failed, Some(NetError::Refused { .. }));
                if failed.is_none() || better {
                    failed = Some(error);
                }
            }
            None => {}
        }
        if let Some(lease) = call.lease {
            file.heard(call.index, lease.incarnation());
            lease.give_back();
        }
        if call.lanes.iter().all(Serving::is_idle) && !call.lanes.is_empty() {
            let lanes = call.lanes.into_iter().map(|lane| lane.connection).collect();
            group.inner.keep_lanes(server, lanes);
        }
    }
    match failed {
        None => Ok(report),
        Some(error) => Err(error.into()),
    }
}
