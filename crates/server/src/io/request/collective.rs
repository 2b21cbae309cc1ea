//! `COLLECTIVE`: a member's one request for a joint transfer that this server directs.

use std::io;
use std::sync::Arc;

use trireme_net::{Link, Region, Whereabouts};
use trireme_partition::Part;
use trireme_proto::message::collective::{Collective, Memory};
use trireme_proto::{Refusal, Rights, refusal::errno};

use super::{Call, group};
use crate::io::directed::{self, Arrival};
use crate::io::group::Came;
use crate::io::session::Session;

/// Waits for all members, has the transfer carried out, and answers with where the time went.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let body: Collective = trireme_proto::decode(call.body)?;
    let room = call.shared.groups.room(&body.seat)?;
    let (rank, sequence) = (body.seat.rank, body.sequence);
    let meeting = room.collective(rank, sequence)?;
    let arrival = arrive(call, session, link, body, &room);
    let arrival = match arrival {
        Ok(arrival) => arrival,
        Err(refusal) => {
            // What one cannot do nobody can: the others need not wait. It may be in the meeting itself, and
            // have lost another server.
            let why = format!("group \"{}\": member {rank}: {refusal}", room.name());
            let refusal = Refusal::new(refusal.errno, why);
            if meeting.refuse(&refusal) {
                room.end_collective(sequence, Some(&refusal));
            }
            return Err(refusal);
        }
    };
    if let Came::Last(all, waited) = meeting.come(rank, arrival)? {
        let (turns, meeting) = (call.shared.turns.clone(), meeting.clone());
        let spawned = std::thread::Builder::new()
            .name("collective".into())
            .spawn(move || directed::carry_out(&turns, &meeting, all, waited));
        if let Err(error) = spawned {
            let refusal = Refusal::io("no thread for the collective", &error);
            room.collective(rank, sequence)?.conclude(Err(refusal));
        }
    }
    let outcome = group::attend(call, link, &room, &meeting, rank);
    room.end_collective(sequence, outcome.as_ref().err());
    let run = outcome?;
    let mut reply = call.header.reply();
    reply.length.set(run.away.contains(&rank).into());
    Ok(link.reply_with(reply, &trireme_proto::encode(&run.phases), &[]))
}

/// What the member brings, checked.
fn arrive(
    call: &Call<'_>,
    session: &mut Session,
    link: &Link,
    body: Collective,
    room: &Arc<crate::io::group::Room>,
) -> Result<Arrival, Refusal> {
    if let Some(refusal) = body.refused {
        return Err(refusal);
    }
    let need = if body.write {
        Rights::WRITE
    } else {
        Rights::READ
    };
    session.check(call.shared, call.header, need)?;
    let file = call.header.file.get();
    let subfile = if body.write {
        Some(session.find_or_make(call.shared, file)?)
    } else {
        session.find(call.shared, file)?
    };
    let part = |bytes: &[u8], what: &str| {
        Part::decode(bytes)
            .map_err(|error| Refusal::protocol(format!("the {what} cannot be read: {error}")))
    };
    let view = part(&body.view, "view")?;
    if !view.is_ordered() {
        return Err(Refusal::protocol("a member's view is in file order"));
    }
    let lanes = room.lanes(body.seat.rank).ok_or_else(|| {
        Refusal::new(
            errno::ESTALE,
            "the member has no lanes to this server; try again",
        )
    })?;
    let peer = link.peer();
    let at = match body.memory {
        Memory::Address(address) if peer.local && peer.pid == std::process::id() => {
            Region::find(address, view.size()).map_or(Whereabouts::Away, Whereabouts::Here)
        }
        Memory::Address(address) if peer.local && peer.pid != 0 => {
            Whereabouts::Process(peer.pid, address)
        }
        Memory::Address(_) => Whereabouts::Away,
        Memory::Window(place) => {
            let window = session.window.clone().ok_or_else(|| {
                Refusal::new(
                    errno::EINVAL,
                    "there is no shared window on this connection",
                )
            })?;
            Whereabouts::Shared(window, place)
        }
    };
    Ok(Arrival {
        rank: body.seat.rank,
        file,
        write: body.write,
        server: body.server,
        layout: body.layout,
        view,
        at,
        lanes,
        subfile,
    })
}
