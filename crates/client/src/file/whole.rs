//! Files that are whole on one server of this host, for who has the kernel read and write them as local ones.

use std::os::fd::OwnedFd;
use std::time::Duration;

use trireme_store::range_lock;
pub use trireme_store::range_lock::Announcement;

use super::File;

/// How long to wait for somebody who changes a part of a file alone, each time.
const ALONE: Duration = Duration::from_micros(50);

/// How long to wait for a server that may be away: whoever opens a file need not.
const MOMENT: Duration = Duration::from_secs(1);

impl File {
    /// Whether it is on one server only.
    pub fn is_whole(&self) -> bool {
        self.inner.layout.servers.len() == 1
    }

    /// For who has its bytes read and written by the kernel: the one local file that they are in, if there is only
    /// one and its server lends it to this opening. It is what the file is, whoever changes that, as long as the file
    /// exists. For writing it is made if there is none yet; who lets it be written [announces](File::announce) that.
    pub fn whole_here(&self, write: bool) -> Option<OwnedFd> {
        let inner = &self.inner;
        let lent = if write {
            &inner.lent_to_write
        } else {
            &inner.lent_to_read
        };
        let deadline = inner.cluster.deadline().at_most(MOMENT);
        inner.transfer().lend.then(|| lent.whole(inner, deadline))?
    }

    /// Says that the local file ([`File::whole_here`]) is going to be written by the kernel, until what this gives
    /// is dropped: nobody writes back what they have read before. `None` if the file is not lent to be written, or
    /// if somebody changes it alone for longer than a call may take.
    pub fn announce(&self) -> Option<Announcement> {
        let mut file = self.whole_here(true)?;
        let deadline = self.inner.cluster.deadline();
        // Another client's may be the same, but hardly again and again.
        let mut number = self.inner.cluster.seed() ^ self.opening().rotate_left(32);
        loop {
            match range_lock::announce(file, number) {
                Ok(announcement) => return Some(announcement),
                Err(back) => file = back,
            }
            if deadline.over() {
                return None;
            }
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            std::thread::sleep(ALONE);
        }
    }

    /// Somebody wrote to it by the local file that it is in, up to `end`; the manager does not know.
    pub fn was_written_here(&self, end: u64) {
        self.inner.has_written(end);
    }
}
