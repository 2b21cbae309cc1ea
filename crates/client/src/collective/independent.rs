//! Each member alone, through its view and the servers' caches; a meeting ends it.

use super::access::Access;
use super::serve::Memory;
use super::{Collective, Method, Report, meet};
use crate::Result;

pub(crate) fn run(
    collective: &Collective<'_>,
    access: &Access,
    memory: Memory,
    write: bool,
) -> Result<Report> {
    let view = collective
        .file
        .view(access.part())
        .transfer(collective.transfer);
    let all = 0..memory.length() as u64;
    let mine = if write {
        // SAFETY: the caller of the collective lends the buffer until it returns.
        view.write_at(unsafe { memory.slice(&all) }, 0)
    } else {
        // SAFETY: as above, and nobody else has it.
        view.read_at(unsafe { memory.slice_mut(&all) }, 0).map(drop)
    };
    meet(collective.group, mine.as_ref().copied())?;
    mine?;
    Ok(Report::new(Method::Independent, access))
}
