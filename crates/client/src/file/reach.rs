//! How far servers' disks let a file reach. Beyond what any disk has they are asked before anything is
//! written, so that a request that one of them must refuse changes nothing on the others.

use std::sync::atomic::{AtomicU64, Ordering};

use trireme_proto::Op;
use trireme_proto::limits::ANY_DISK_BYTES;
use trireme_proto::message::io::Seek;
use trireme_proto::refusal::errno;

use super::Inner;
use crate::transfer::{self, Buffer, Ranges};
use crate::{Error, Result};

/// A server is asked for this much at a time, and the rest of the way is free.
const STEP: u64 = 1 << 40;

/// Per server, how long its subfile can be as far as is known.
#[derive(Debug)]
pub(super) struct Reach(Vec<AtomicU64>);

impl Reach {
    pub fn new(servers: usize) -> Reach {
        let known = || AtomicU64::new(ANY_DISK_BYTES);
        Reach(std::iter::repeat_with(known).take(servers).collect())
    }
}

impl Inner {
    /// `EFBIG` if a server that has a part of this range cannot have it that far from the beginning.
    pub(super) fn check_reach(&self, offset: u64, length: u64) -> Result<()> {
        let Some(wanted) = self.unknown_reach(offset, length) else {
            return Ok(());
        };
        let ahead: Vec<_> = wanted
            .iter()
            .map(|bytes| bytes.map(|bytes| bytes.next_multiple_of(STEP)))
            .collect();
        let reached = match self.ask_reach(&ahead) {
            Err(error) if error.errno() == errno::EFBIG => {
                self.ask_reach(&wanted)?;
                wanted
            }
            asked => {
                asked?;
                ahead
            }
        };
        for (known, reached) in self.reach.0.iter().zip(reached) {
            known.fetch_max(reached.unwrap_or(0), Ordering::Relaxed);
        }
        Ok(())
    }

    /// The servers that must be asked before this range is written, and for how much each; none, most often.
    pub(super) fn unknown_reach(&self, offset: u64, length: u64) -> Option<Vec<Option<u64>>> {
        let end = offset + length;
        if end <= ANY_DISK_BYTES || length == 0 {
            return None;
        }
        let mut wanted = vec![None; self.servers.len()];
        for server in self.servers_of(offset, length) {
            let bytes = self.parts[server].bytes_in(0..end);
            if bytes > self.reach.0[server].load(Ordering::Relaxed) {
                wanted[server] = Some(bytes);
            }
        }
        wanted.iter().any(Option::is_some).then_some(wanted)
    }

    fn ask_reach(&self, ends: &[Option<u64>]) -> Result<()> {
        let plan = Ranges {
            op: Op::SEEK,
            body: trireme_proto::encode(&Seek::Reach),
            ranges: ends.iter().map(|end| end.map(|end| (end, 0))).collect(),
        };
        let job = self.job(self.cluster.deadline());
        transfer::run(&job, plan, Buffer::In(&mut []), |done| {
            self.heard(done.server as usize, done.incarnation);
        })
        .map_err(Error::from)
    }
}
