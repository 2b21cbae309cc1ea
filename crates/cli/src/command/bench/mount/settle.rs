//! Between two measurements: nobody pays for what the one before left to be done later, be it writing back to
//! the disk or putting bytes into caches, nor for where free memory comes from.

use std::time::{Duration, Instant};

/// How long to wait for idle processors, at most: others may be using them.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long they must have been idle, and how idle.
const LOOK: Duration = Duration::from_millis(100);
const IDLE: f64 = 0.9;

/// Waits until everything is on the disk and the processors are idle.
pub fn settle() {
    rustix::fs::sync();
    let end = Instant::now() + PATIENCE;
    let mut before = Ticks::now();
    while Instant::now() < end {
        std::thread::sleep(LOOK);
        let now = Ticks::now();
        if now.idle_since(before) >= IDLE {
            return;
        }
        before = now;
    }
}

/// Has as much free memory as these bytes and a half more ready for use. The hosts of virtual machines take back what
/// has been free for some seconds, from the largest free pieces, and giving it again takes longer than what is to be
/// measured: whoever happens to write in larger pieces would pay for that.
pub fn warm(bytes: u64) {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let length = (bytes + bytes / 2) as usize;
    let (rights, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: memory of its own, wherever there is room.
    let Ok(memory) = (unsafe { mmap_anonymous(std::ptr::null_mut(), length, rights, kind) }) else {
        return;
    };
    // In the largest pieces that there are.
    for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
        // SAFETY: exactly what was mapped; its bytes stay what they are.
        let _ = unsafe { madvise(memory, length, advice) };
    }
    // SAFETY: nobody has a reference into it.
    let _ = unsafe { munmap(memory, length) };
}

/// What the processors of this machine did so far, in ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn now() -> Ticks {
        Ticks::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line: user, nice, system, idle, waiting for disks, interrupts of two kinds. What the host
    /// takes away comes after them and is nobody's.
    fn parse(text: &str) -> Ticks {
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(7)
            .filter_map(|word| word.parse().ok())
            .collect();
        Ticks {
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().sum(),
        }
    }

    fn idle_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all);
        self.idle.saturating_sub(before.idle) as f64 / all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_disks_is_idle_and_interrupts_are_not() {
        let before = Ticks::parse("cpu  100 0 100 1000 50 5 5 700 0 0\ncpu0 1 2 3");
        let now = Ticks::parse("cpu  101 0 101 1006 52 6 5 900 0 0\n");
        assert!((now.idle_since(before) - 8.0 / 11.0).abs() < 1e-9);
        assert!(now.idle_since(now) < IDLE, "nothing was seen yet");
    }
}
