//! On whose behalf a request is made: user and group come with it, further groups are looked up.

use trireme::Namespace;
use trireme_proto::message::meta::{Caller, GROUPS_LIMIT};

use super::Inner;
use crate::kernel::abi::InHeader;

impl Inner {
    /// Who made a request; `None` is this process's own user, when the manager lets it speak for
    /// nobody else.
    pub(super) fn caller(&self, header: &InHeader) -> Option<Caller> {
        if !self.trusted {
            return None;
        }
        // Root needs no groups; others' are asked each time, as they may change at any.
        let groups = if header.uid == 0 {
            Vec::new()
        } else {
            groups_of(header.pid)
        };
        Some(Caller {
            uid: header.uid,
            gid: header.gid,
            groups,
        })
    }

    /// The names as whoever makes something under one of them uses them, with the umask that came along.
    pub(super) fn maker(&self, header: &InHeader, umask: u32) -> Namespace {
        let names = self.names.masking(umask).keeping_whole(self.keeps_whole());
        match self.caller(header) {
            Some(caller) => names.acting_as(caller),
            None => names,
        }
    }
}

fn groups_of(pid: u32) -> Vec<u32> {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or("")
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .take(GROUPS_LIMIT)
        .collect()
}
