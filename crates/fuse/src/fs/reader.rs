//! Who reads past the kernel's cache: programs that move large pieces at a time.
//!
//! Through the cache the first reader of a file waits for the kernel to make a page for every 4 KiB, and the
//! bytes are in memory twice where the servers are on the same host. Past it every call is a request, which
//! small ones must not be. What a program will do is not known when it opens a file, so it is remembered what
//! it did: the kernel's first request for a file that it has nothing of is as long as the program's first
//! read makes it, and who wrote much at a time reads so, too, until it does otherwise. Whoever is not known
//! reads through the cache.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trireme::File;

use super::Inner;
use super::handle::Handle;
use super::node::{Node, version};
use super::open::access;
use crate::kernel::abi::{self, InHeader, ReadIn, WriteIn};

/// Files shorter than this are read through the cache: they are read in no time.
const LEAST: u64 = 8 << 20;

/// But they show how a program reads, if they are not too short for that.
const TELLING: u64 = 2 << 20;

/// A first request of this length, or as far as the kernel reads ahead, is for a program that wants much, 128 KiB
/// or more: for small reads it begins with up to four times as much as they ask for.
const LARGE: u32 = 512 << 10;

/// A write of this length is one by a program that moves much at a time.
const LARGE_WRITE: u32 = 128 << 10;

/// Less per call is faster through the cache.
const SMALL: u32 = 64 << 10;

/// Small reads past the cache after which a program is thought of differently.
const PATIENCE: u32 = 8;

/// Who has not read for this long is busy with something else.
const PAUSE: Duration = Duration::from_millis(50);

/// Programs remembered.
const PROGRAMS: usize = 1024;

/// A program: the device and inode number of what is executed.
type Program = (u64, u64);

/// What is known of programs: whether the last file was read in large pieces.
#[derive(Debug)]
pub(super) struct Programs {
    large: Mutex<HashMap<Program, bool>>,
    /// What a first request is as long as, at least, if the program's reads are large.
    long: AtomicU32,
    /// When somebody last read past the cache.
    last: Mutex<Option<Instant>>,
}

impl Default for Programs {
    fn default() -> Programs {
        Programs {
            large: Mutex::default(),
            long: AtomicU32::new(LARGE),
            last: Mutex::default(),
        }
    }
}

/// How an opening reads, and what is to be learned from it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    program: Option<Program>,
    /// Past the kernel's cache.
    pub past_cache: bool,
    /// Its first request, or its first long write, has been seen.
    seen: AtomicBool,
    /// Requests past the cache that were small, less those that were not.
    small: AtomicU32,
}

impl Programs {
    fn table(&self) -> MutexGuard<'_, HashMap<Program, bool>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody is reading past the cache: then nobody should take the processors from it.
    pub fn is_reading(&self) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < PAUSE)
    }

    fn reads_now(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Instant::now());
    }

    fn reads_large(&self, program: Program) -> bool {
        self.table().get(&program) == Some(&true)
    }

    fn learn(&self, program: Program, large: bool) {
        let mut table = self.table();
        if table.len() >= PROGRAMS && !table.contains_key(&program) {
            table.clear();
        }
        table.insert(program, large);
    }

    fn is_known(&self, program: Program) -> bool {
        self.table().contains_key(&program)
    }
}

impl Reading {
    /// Takes note of a request; says whether the program reads in large pieces when that has become clear.
    fn notice(&self, size: u32, long: u32, is_end: bool) -> Option<bool> {
        if !self.past_cache {
            let first = !self.seen.swap(true, Ordering::Relaxed);
            return first.then_some(size >= long);
        }
        let small = size < SMALL && !is_end;
        let change = |count: u32| {
            Some(if small {
                count + 1
            } else {
                count.saturating_sub(1)
            })
        };
        let order = Ordering::Relaxed;
        let before = self.small.fetch_update(order, order, change);
        (small && before == Ok(PATIENCE)).then_some(false)
    }
}

impl Inner {
    /// The kernel reads this far ahead.
    pub(super) fn set_read_ahead(&self, bytes: usize) {
        let long = LARGE.min(bytes as u32);
        self.programs.long.store(long, Ordering::Relaxed);
    }

    /// How a file that is being opened is to be read.
    pub(super) fn reading(&self, header: &InHeader, file: &File, flags: u32) -> Reading {
        let mut reading = Reading::default();
        let possible = self.caches()
            && self.direct_maps.get() == Some(&true)
            && !access(flags).write
            && flags as i32 & libc::O_DIRECT == 0;
        if !possible {
            return reading;
        }
        let worth = self.nodes.with(header.nodeid, |node| {
            let same = node.cached == Some(version(&node.attr));
            let filling = node.fill.is_some();
            let has_pages = node.has_pages && same && !filling;
            let worth = node.attr.settled && node.attr.size >= TELLING && !has_pages;
            worth.then_some((filling, node.attr.size >= LEAST))
        });
        let Some((filling, long)) = worth.flatten() else {
            return reading;
        };
        let Some(program) = program(header.pid) else {
            return reading;
        };
        reading.past_cache = long && file.is_on_this_host() && self.programs.reads_large(program);
        // Of what it has parts of, the kernel's requests tell nothing.
        if reading.past_cache || !filling {
            reading.program = Some(program);
        }
        reading
    }

    /// A program writes: if that is all that is known of it, it is remembered how.
    pub(super) fn learn_from_write(&self, header: &InHeader, handle: &Handle, what: &WriteIn) {
        let by_kernel = what.write_flags & abi::WRITE_CACHE != 0;
        if what.size < LARGE_WRITE || by_kernel || handle.reading.seen.load(Ordering::Relaxed) {
            return;
        }
        handle.reading.seen.store(true, Ordering::Relaxed);
        if let Some(program) = program(header.pid).filter(|one| !self.programs.is_known(*one)) {
            self.programs.learn(program, true);
        }
    }

    /// A program reads: remembers how.
    pub(super) fn learn_from(&self, handle: &Handle, what: &ReadIn) {
        let for_pages = what.read_flags & abi::READ_LOCKOWNER == 0;
        if for_pages {
            self.nodes.with(handle.inode, Node::gets_pages);
        }
        // After all: somebody maps the file, or splices from it.
        if for_pages && handle.direct {
            return;
        }
        let Some(program) = handle.reading.program else {
            return;
        };
        if handle.reading.past_cache {
            self.programs.reads_now();
        }
        let long = self.programs.long.load(Ordering::Relaxed);
        let end = what.offset.saturating_add(u64::from(what.size));
        let size = || self.nodes.with(handle.inode, |node| node.attr.size);
        let is_end = what.size < SMALL && size().is_none_or(|size| end >= size);
        if let Some(large) = handle.reading.notice(what.size, long, is_end) {
            self.programs.learn(program, large);
        }
    }
}

/// What a process executes, where we may know.
fn program(process: u32) -> Option<Program> {
    let data = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
    Some((data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_through_the_cache_tells_how_a_program_reads() {
        let large = Reading::default();
        assert_eq!(large.notice(LARGE, LARGE, false), Some(true));
        assert_eq!(large.notice(4096, LARGE, false), None);
        let small = Reading::default();
        assert_eq!(small.notice(16 << 10, LARGE, false), Some(false));
        // Where the kernel does not read far ahead.
        let unprivileged = Reading::default();
        assert_eq!(unprivileged.notice(128 << 10, 128 << 10, false), Some(true));
    }

    #[test]
    fn some_small_reads_past_the_cache_are_forgiven_and_many_are_not() {
        let reading = Reading {
            past_cache: true,
            ..Reading::default()
        };
        for _ in 0..100 {
            assert_eq!(reading.notice(4096, LARGE, false), None);
            assert_eq!(reading.notice(LARGE, LARGE, false), None);
            // The rest of a file is as short as it is.
            assert_eq!(reading.notice(100, LARGE, true), None);
        }
        let told: Vec<_> = (0..100)
            .filter_map(|_| reading.notice(4096, LARGE, false))
            .collect();
        assert_eq!(told, [false]);
    }

    #[test]
    fn the_last_word_on_a_program_counts_and_they_are_not_too_many() {
        let programs = Programs::default();
        assert!(!programs.reads_large((1, 1)) && !programs.is_known((1, 1)));
        programs.learn((1, 1), true);
        assert!(programs.reads_large((1, 1)) && !programs.reads_large((1, 2)));
        programs.learn((1, 1), false);
        assert!(!programs.reads_large((1, 1)) && programs.is_known((1, 1)));
        for number in 0..3 * PROGRAMS as u64 {
            programs.learn((2, number), true);
        }
        assert!(programs.table().len() <= PROGRAMS);
        assert!(programs.reads_large((2, 3 * PROGRAMS as u64 - 1)));
    }
}
