//! The thread that sees to requests that do not end: it answers those that a signal came for, and lets there be
//! more threads when all of them wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::abi::op;
use super::request::answer;
use super::ring::{self, Entry};
use super::session::{FileSystem, Shared, allow_more};
use super::signal;
use super::working::LOOK;

/// When all threads have been busy for this long and none took another request, there may be more.
const STALL: Duration = Duration::from_millis(100);

/// An interrupted request that is still not done after this time is answered with EINTR. Others end
/// by themselves, as system calls on a local file system do, where programs do not expect EINTR:
/// long enough for a busy server, shorter than the wait for a dead one.
const INTERRUPT_AFTER: Duration = Duration::from_secs(5);

/// Whether a program must be prepared for EINTR from the call behind a request. The others (names,
/// attributes, cutting a file) are carried to their end, or to the deadline.
fn can_be_interrupted(opcode: u32) -> bool {
    matches!(
        opcode,
        op::READ
            | op::WRITE
            | op::FSYNC
            | op::FLUSH
            | op::OPEN
            | op::CREATE
            | op::TMPFILE
            | op::FALLOCATE
            | op::COPY_FILE_RANGE
    )
}

/// Serves until the mount is over.
pub(super) fn run(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) {
    // Since when no request was taken, and how many had been.
    let mut stalled: Option<(Instant, u64)> = None;
    while !shared.is_over() {
        let worries = shared.requests.worries();
        let now = Instant::now();
        let (late, mut next) = take_late(shared, now);
        for (unique, entry) in late {
            answer(shared, entry, unique, -libc::EINTR, &[], false);
        }
        if shared.rings.wanted {
            next = next.min(LOOK);
            look_for_signals(shared, file_system, now);
        }
        if ring::is_short_of_threads(shared) {
            ring::more_threads(shared);
            next = next.min(STALL);
        }
        let taken = shared.taken();
        stalled = match stalled {
            _ if !shared.is_full() => None,
            Some((since, before)) if before == taken => Some((since, taken)),
            _ => Some((now, taken)),
        };
        if let Some((since, _)) = stalled {
            if now - since >= STALL {
                stalled = None;
                allow_more(shared, file_system);
                continue;
            }
            next = next.min(STALL.saturating_sub(now - since));
        }
        shared.requests.wait(worries, next);
    }
}

/// A request that is answered in the place of whoever carries it out, and where its answer goes.
type Late = (u64, Option<Arc<Entry>>);

/// Requests to be answered with EINTR now, and when to look again.
fn take_late(shared: &Shared, now: Instant) -> (Vec<Late>, Duration) {
    let mut late = Vec::new();
    let mut next = Duration::from_hours(1);
    shared
        .requests
        .table()
        .retain(|unique, request| match &request.signal {
            Some(_) if !can_be_interrupted(request.opcode) || request.is_in_place() => true,
            Some(when) if now - *when >= INTERRUPT_AFTER => {
                late.push((*unique, request.ring.take().map(|ring| ring.entry)));
                false
            }
            Some(when) => {
                next = next.min(INTERRUPT_AFTER.saturating_sub(now - *when));
                true
            }
            None => true,
        });
    (late, next)
}

/// Whether those who have waited for long have a signal that nobody told us of.
fn look_for_signals(shared: &Shared, file_system: &Arc<dyn FileSystem>, now: Instant) {
    for (unique, thread) in shared.requests.old(now) {
        if signal::waits_for(thread) && !file_system.interrupted(unique) {
            shared.requests.signal(unique);
        }
    }
}
