//! `JOIN`, `LANE`, `GATHER` and `ABSENT`: processes find each other, stay in touch, meet, and look who is
//! left.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use trireme_net::{Deadline, Link};
use trireme_proto::message::group::{Absent, Gather, Gathered, Join, Lane, Seat};
use trireme_proto::{Flags, Op, Refusal, limits, refusal::errno};

use super::Call;
use crate::io::group::{Came, LOOK, Meeting, Room};

/// How long the asker will wait.
fn patience(call: &Call<'_>) -> Deadline {
    match call.header.patience_ms.get() {
        0 => Deadline::after(limits::CALL_TIME),
        ms => Deadline::after(Duration::from_millis(ms.into())),
    }
}

/// Waits for all members; answers with the group's number.
pub fn join(call: &Call<'_>, link: &mut Link) -> Result<io::Result<()>, Refusal> {
    let join: Join = trireme_proto::decode(call.body)?;
    let joined = call.shared.groups.join(&join, link, patience(call))?;
    Ok(link.reply_body(call.header, &joined))
}

/// Answers, and then leaves the connection to those who direct transfers until it ends.
pub fn lane(call: &Call<'_>, link: &mut Link) -> Result<io::Result<()>, Refusal> {
    let lane: Lane = trireme_proto::decode(call.body)?;
    let backchannel = link.backchannel();
    let groups = &call.shared.groups;
    groups.park(&lane.seat, &lane.name, lane.lane, backchannel.clone())?;
    let replied = link.reply(call.header.reply());
    if replied.is_ok() {
        while backchannel.is_open(Duration::from_mins(1)) {}
    }
    groups.leave(&lane.seat, lane.lane, &backchannel);
    Ok(Err(replied.err().unwrap_or_else(|| {
        io::ErrorKind::ConnectionAborted.into()
    })))
}

/// Takes the member's payload and answers with everybody's.
pub fn gather(call: &Call<'_>, link: &mut Link) -> Result<io::Result<()>, Refusal> {
    let body: Gather = trireme_proto::decode(call.body)?;
    let room = call.shared.groups.room(&body.seat)?;
    let share = limits::PAYLOAD_BYTES as usize / body.seat.size as usize;
    if link.payload_left() > share {
        let why = format!(
            "a member brings {} bytes, the limit for {} members is {share} each",
            link.payload_left(),
            body.seat.size
        );
        return Err(Refusal::new(errno::EINVAL, why));
    }
    let mut bytes = vec![0; link.payload_left()];
    if let Err(error) = link.receive_payload(&mut bytes) {
        return Ok(Err(error));
    }
    let meeting = room.gather(body.seat.rank, body.sequence)?;
    if let Came::Last(all, _) = meeting.come(body.seat.rank, bytes)? {
        meeting.conclude(Ok(all));
    }
    let outcome = attend(call, link, &room, &meeting, body.seat.rank);
    room.end_gather(body.sequence, outcome.as_ref().err());
    let all = outcome?;
    let gathered = Gathered {
        lengths: all.iter().map(|bytes| bytes.len() as u32).collect(),
    };
    let slices: Vec<IoSlice<'_>> = all.iter().map(|bytes| IoSlice::new(bytes)).collect();
    Ok(link.reply_with(
        call.header.reply(),
        &trireme_proto::encode(&gathered),
        &slices,
    ))
}

/// Answers with the members that are gone.
pub fn absent(call: &Call<'_>, link: &mut Link) -> Result<io::Result<()>, Refusal> {
    let seat: Seat = trireme_proto::decode(call.body)?;
    let ranks = call.shared.groups.room(&seat)?.absent();
    Ok(link.reply_body(call.header, &Absent { ranks }))
}

/// Waits with a member for the outcome of a meeting that it has come to, and lets it know that this server
/// is alive.
pub fn attend<C, R>(
    call: &Call<'_>,
    link: &mut Link,
    room: &Room,
    meeting: &Meeting<C, R>,
    rank: u32,
) -> Result<Arc<R>, Refusal> {
    let deadline = patience(call);
    let patient = call.header.flags().has(Flags::PATIENT);
    let listens = patient || call.header.op() == Op::COLLECTIVE;
    let backchannel = link.backchannel();
    let mut told = Instant::now();
    meeting.wait((!patient).then_some(deadline), LOOK, || {
        room.give_up_on_the_gone(meeting);
        if patient && deadline.over() {
            room.give_up_on_strangers(meeting);
        }
        if !backchannel.is_open(Duration::ZERO) {
            meeting.lost(rank, &room.went_away(rank));
        } else if listens && told.elapsed() >= limits::PROGRESS_TIME {
            told = Instant::now();
            let mut header = call.header.reply();
            header.op.set(Op::PROGRESS.0);
            // Who does not hear it is gone, which its lanes show.
            let _ = link.reply(header);
        }
    })
}
