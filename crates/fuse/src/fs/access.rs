//! Access times: noted when something is read, told to the manager together once a second.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Inner;

/// How long the manager may not know of a read.
const PERIOD: Duration = Duration::from_secs(1);
/// Inodes in one report.
const BATCH: usize = 4096;

/// Starts to report.
pub(super) fn start(inner: &Arc<Inner>) {
    if inner.no_atime {
        return;
    }
    let inner = inner.clone();
    let thread = std::thread::Builder::new()
        .name("fuse-atime".into())
        .spawn(move || {
            loop {
                std::thread::sleep(PERIOD);
                if inner.over.load(Ordering::SeqCst) {
                    return;
                }
                for inode in inner.nodes.passed() {
                    inner.hear_of_passed(inode);
                }
                inner.report_accesses(inner.names.call_time());
            }
        });
    if let Err(error) = thread {
        tracing::warn!("access times are not kept: {error}");
    }
}

impl Inner {
    /// Reports what was read since the last time.
    pub(super) fn report_accesses(&self, patience: Duration) {
        let names = self.names.with_call_time(patience);
        for times in self.nodes.take_accessed().chunks(BATCH) {
            let times = times.to_vec();
            if let Err(error) = names.accessed(times) {
                tracing::debug!("access times were not reported: {error}");
            }
        }
    }
}
