//! What a process used: processor time and memory, as the kernel accounts for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Processor seconds of a process so far, of all its threads, also those that ended.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both calls only write the variable that they are given a pointer to.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    anyhow::ensure!(!failed, "process {pid} has ended");
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// Processor seconds of several processes.
pub fn cpu_seconds_of(pids: &[u32]) -> anyhow::Result<f64> {
    pids.iter().map(|pid| cpu_seconds(*pid)).sum()
}

/// Bytes of memory that belong to a process alone: neither pages of files nor shared memory.
pub fn memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kilobytes.unwrap_or(0u64) << 10
}

/// Looks at the memory of processes again and again and keeps the most it has seen of each.
pub struct MemoryWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl MemoryWatch {
    /// How often it looks. Not while anything is timed: it takes some processor time itself.
    const EVERY: Duration = Duration::from_millis(2);

    pub fn start(pids: &[u32]) -> MemoryWatch {
        let stop = Arc::new(AtomicBool::new(false));
        let (pids, seen) = (pids.to_vec(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut most = vec![0; pids.len()];
            while !seen.load(Ordering::Relaxed) {
                for (most, pid) in most.iter_mut().zip(&pids) {
                    *most = memory(*pid).max(*most);
                }
                std::thread::sleep(MemoryWatch::EVERY);
            }
            most
        });
        MemoryWatch { stop, thread }
    }

    /// The most that each process had.
    pub fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_work_is_seen() {
        let pid = std::process::id();
        let (cpu, mut sum) = (cpu_seconds(pid).unwrap(), 0u64);
        for i in 0..20_000_000u64 {
            sum = sum.wrapping_mul(31).wrapping_add(std::hint::black_box(i));
        }
        assert!(std::hint::black_box(sum) != 1 && cpu_seconds(pid).unwrap() > cpu);
        let before = memory(pid);
        let page = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(memory(pid) > before + (32 << 20), "{}", page.len());
    }
}
