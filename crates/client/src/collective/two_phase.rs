//! Two-phase: members exchange bytes so that each has one large range of the file, and move that with
//! large contiguous requests.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use trireme_net::{Interval, Member, Shuffle, Trouble};
use trireme_partition::{Extent, Part, multiplicity_within};
use trireme_policy::plan::domain;

use super::access::Access;
use super::exchange::{Card, Door};
use super::serve::Memory;
use super::{Collective, Method, Report, meet};
use crate::{Error, Group, Result};

/// Bytes that a member holds for others at a time: one frame's payload at most.
const ROUND: u64 = 4 << 20;

/// Steps for finding out whether views overlap; when they do not suffice, as if they did.
const STEPS: u64 = 1 << 20;

pub(crate) fn run(
    collective: &Collective<'_>,
    access: &Access,
    memory: Memory,
    write: bool,
) -> Result<Report> {
    let group = collective.group;
    let inner = &group.inner;
    let mut slot = inner.door.lock().unwrap_or_else(PoisonError::into_inner);
    let door = match slot.take() {
        Some(door) => Ok(door),
        None => Door::new(&inner.cluster, group),
    };
    let door = match door {
        Ok(door) => door,
        Err(error) => {
            refuse(group, &error);
            return Err(error);
        }
    };
    let report = exchange(collective, access, memory, write, &door);
    if report.is_ok() {
        // After a failure somebody may still reach for our memory: closing the door stops it.
        *slot = Some(door);
    }
    report
}

/// What a member tells the others: the file, whether it writes, and its card; or why it cannot.
type Said = std::result::Result<(u64, bool, Card), String>;

/// Tells the others that this member cannot take part.
pub(crate) fn refuse(group: &Group, error: &Error) {
    let said: Said = Err(error.to_string());
    if group.gather(&trireme_proto::encode(&said)).is_ok() {
        let _ = meet(group, Err(error));
    }
}

fn exchange(
    collective: &Collective<'_>,
    access: &Access,
    memory: Memory,
    write: bool,
    door: &Door,
) -> Result<Report> {
    let group = collective.group;
    let inner = &*collective.file.inner;
    let sequence = group.inner.collectives.load(Ordering::Relaxed);
    let view = access.part().encode();
    // SAFETY: the caller of the collective lends the buffer until it returns; `open` is gone by then.
    let (open, card) = unsafe { door.open(sequence, view, memory, write) };
    let said: Said = Ok((inner.opened.grant.file, write, card));
    let cards = group.gather(&trireme_proto::encode(&said))?;
    let members = members(
        group,
        door,
        sequence,
        (inner.opened.grant.file, write),
        &cards,
    );
    let mine = members.and_then(|members| phases(collective, &members, write));
    meet(group, mine.as_ref().copied())?;
    drop(open);
    mine?;
    Ok(Report::new(Method::TwoPhase, access))
}

/// All members, as this one reaches them.
fn members<'a>(
    group: &Group,
    door: &'a Door,
    sequence: u64,
    call: (u64, bool),
    cards: &[Vec<u8>],
) -> Result<Vec<Member<'a>>> {
    let deadline = group.inner.cluster.deadline();
    cards
        .iter()
        .enumerate()
        .map(|(rank, card)| {
            let rank = rank as u32;
            let said = |why: String| Error::Invalid(format!("member {rank}: {why}"));
            let card: Said =
                trireme_proto::decode(card).map_err(|refusal| said(refusal.to_string()))?;
            let (file, write, card) = card.map_err(said)?;
            if (file, write) != call {
                let how = if write { "writes" } else { "reads" };
                return Err(said(format!(
                    "{how} file {file}: all must call for the same"
                )));
            }
            let part = Part::decode(&card.view)?;
            Ok(Member {
                rank,
                reach: door.reach(rank, &card, part.size(), sequence, deadline),
                part,
            })
        })
        .collect()
}

/// Both phases, round by round, for this member's range of the file.
fn phases(collective: &Collective<'_>, members: &[Member<'_>], write: bool) -> Result<()> {
    let (file, group) = (&*collective.file.inner, collective.group);
    let parts: Vec<&Part> = members.iter().map(|member| &member.part).collect();
    let spans = parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| part.file_span());
    let span = spans.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
    let Some(span) = span else {
        return Ok(());
    };
    let disjoint =
        multiplicity_within(&parts, span.clone(), STEPS).is_some_and(|owners| *owners.end() <= 1);
    let mine = domain(span, group.rank(), group.size(), file.layout.unit);
    let mut shuffle = Shuffle::new(members, 0, ROUND as usize, file.cluster.deadline());
    let mut buffer = Vec::new();
    let mut at = mine.start;
    while at < mine.end {
        // What nobody owns is skipped.
        let next = parts.iter().filter_map(|part| part.next_owned(at)).min();
        let Some(next) = next.filter(|next| *next < mine.end) else {
            break;
        };
        let range = next..(next / ROUND * ROUND + ROUND).min(mine.end);
        at = range.end;
        shuffle.set_deadline(file.cluster.deadline());
        round(
            collective,
            &mut shuffle,
            &mut buffer,
            range,
            write,
            disjoint,
        )?;
    }
    Ok(())
}

fn round(
    collective: &Collective<'_>,
    shuffle: &mut Shuffle<'_>,
    buffer: &mut Vec<u8>,
    range: Range<u64>,
    write: bool,
    disjoint: bool,
) -> Result<()> {
    let (file, group) = (&*collective.file.inner, collective.group);
    let transfer = collective.transfer;
    let length = (range.end - range.start) as usize;
    let interval = Interval {
        file: range.start,
        at: 0,
        len: length,
    };
    let survey = shuffle.load(&[interval], group.rank() as usize);
    let span = survey.span.clone();
    let start = range.start + span.start as u64;
    buffer.resize(length, 0);
    let lost = |trouble: Trouble| Error::Invalid(format!("{trouble} cannot be reached"));
    let whole = disjoint && survey.bytes == span.len() as u64;
    if write && whole {
        shuffle.gather(buffer).map_err(lost)?;
        return file.write_at_with(transfer, &buffer[span], start);
    }
    // Only what members own is moved when they leave holes.
    let mut runs = Vec::new();
    if !whole {
        shuffle.owned(&mut runs);
    }
    if write {
        shuffle
            .gather_then(|put| {
                put(buffer, 0);
                Ok(())
            })
            .map_err(lost)?;
        let owned: Vec<u8> = runs
            .iter()
            .flat_map(|run| &buffer[run.clone()])
            .copied()
            .collect();
        return file
            .view(&extents(range.start, &runs)?)
            .transfer(transfer)
            .write_at(&owned, 0);
    }
    if whole {
        let bytes = &mut buffer[span];
        let got = file.read_at_with(transfer, bytes, start)?;
        bytes[got..].fill(0);
    } else {
        let mut owned = vec![0; runs.iter().map(Range::len).sum()];
        file.view(&extents(range.start, &runs)?)
            .transfer(transfer)
            .read_at(&mut owned, 0)?;
        let mut rest = &owned[..];
        for run in &runs {
            let (one, after) = rest.split_at(run.len());
            buffer[run.clone()].copy_from_slice(one);
            rest = after;
        }
    }
    shuffle.scatter(buffer).map_err(lost)
}

/// Runs of a range of the file as a part.
fn extents(start: u64, runs: &[Range<usize>]) -> Result<Part> {
    let extents: Vec<Extent> = runs
        .iter()
        .map(|run| Extent {
            offset: start + run.start as u64,
            len: run.len() as u64,
        })
        .collect();
    Ok(Part::from_extents(&extents)?)
}
