//! What the kernel's cache of a mount holds: what was written through the mount, and never what the file no
//! longer is.

mod mount_support;
mod support;

use mount_support::{sea, wait_until};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use support::Random;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// How many pages of a file are in memory, as the kernel sees it through the mount. By `cachestat` (Linux 6.5): to
/// look through a mapping has the kernel drop what it has of a file that is read past its cache.
fn cached_pages(path: &Path) -> usize {
    const CACHESTAT: libc::c_long = 451;
    let file = File::open(path).unwrap();
    // From the beginning to the end.
    let range = [0u64; 2];
    // In the cache, changed, being written, driven out, driven out not long ago.
    let mut counts = [0u64; 5];
    // SAFETY: both are as long as the kernel's structures, and outlive the call.
    let done = unsafe {
        let (range, counts) = (range.as_ptr(), counts.as_mut_ptr());
        libc::syscall(CACHESTAT, file.as_raw_fd(), range, counts, 0)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    counts[0] as usize
}

/// Whether a file is in memory. Not to the last page: the first one is left out, so that whoever reads is noticed,
/// and some hosts take pages back that they think nobody uses (DAMON), one here and one there every few seconds.
fn is_cached(path: &Path) -> bool {
    let pages = path.metadata().unwrap().len() as usize / PAGE;
    cached_pages(path) >= pages / 10 * 9
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn what_was_written_is_found_in_the_kernels_cache() {
    let Some(mut sea) = sea("what_was_written_is_found_in_the_kernels_cache", 3) else {
        return;
    };
    let place = sea.mount(&["--striped"]);
    let path = place.join("file");
    let bytes = noise(16 * MIB + 77, 1);
    let mut file = File::create(&path).unwrap();
    for piece in bytes.chunks(MIB) {
        file.write_all(piece).unwrap();
    }
    drop(file);
    wait_until("it is in the kernel's cache", || is_cached(&path));
    assert!(std::fs::read(&path).unwrap() == bytes, "other bytes");
    wait_until("it is known to have been read", || {
        let data = path.metadata().unwrap();
        (data.atime(), data.atime_nsec()) > (data.mtime(), data.mtime_nsec())
    });
    // A little more at its end: only that is new, and all of it is right.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"more").unwrap();
    drop(file);
    let all = [&bytes[..], b"more"].concat();
    assert!(std::fs::read(&path).unwrap() == all, "after appending");
    sea.check();
}

/// Takes a processor from all who are less important, while it lives.
struct Busy {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn on(processor: &CpuSet) -> Busy {
        let end = Arc::new(AtomicBool::new(false));
        let (until, processor) = (end.clone(), *processor);
        let thread = std::thread::spawn(move || {
            sched_setaffinity(None, &processor).unwrap();
            while !until.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy {
            end,
            thread: Some(thread),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Whoever opens the file while it is put into the cache may get to run only when all of it is there.
#[test]
fn who_opens_at_once_and_runs_late_takes_nothing_from_the_cache() {
    let test = "who_opens_at_once_and_runs_late_takes_nothing_from_the_cache";
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.mount(&["--striped"]);
    let length = 8 * MIB;
    let mut processor = CpuSet::new();
    processor.set(rustix::thread::sched_getcpu());
    for round in 0..8 {
        // Of every other one the kernel has pages, which are old then.
        let path = place.join(format!("file{}", round / 2));
        let bytes = noise(length, round);
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(false).open(&path);
        let mut file = file.unwrap();
        file.write_all(&bytes).unwrap();
        let busy = Busy::on(&processor);
        let late = path.clone();
        let opened = std::thread::spawn(move || {
            sched_setaffinity(None, &processor).unwrap();
            rustix::process::setpriority_process(None, 19).unwrap();
            drop(file);
            File::open(late).unwrap()
        });
        let opened = opened.join().unwrap();
        drop(busy);
        wait_until("it is in the kernel's cache", || is_cached(&path));
        let mut seen = vec![0; length];
        opened.read_exact_at(&mut seen, 0).unwrap();
        assert!(seen == bytes, "other bytes in round {round}");
    }
    sea.check();
}

/// Overwrites a part of a file, or cuts it, in one of several ways; `model` is changed alike.
fn disturb(random: &mut Random, here: &Path, there: &Path, model: &mut Vec<u8>) -> &'static str {
    let offset = random.below((model.len() - 300_000) as u64) as usize;
    let piece = noise(1 + random.below(200_000) as usize, random.next());
    let write = |file: File, model: &mut Vec<u8>| {
        file.write_all_at(&piece, offset as u64).unwrap();
        model[offset..offset + piece.len()].copy_from_slice(&piece);
    };
    match random.below(6) {
        0 => {
            write(OpenOptions::new().write(true).open(there).unwrap(), model);
            "written by the other mount"
        }
        1 => {
            write(OpenOptions::new().write(true).open(here).unwrap(), model);
            "written past the cache"
        }
        2 => {
            let both = OpenOptions::new().read(true).write(true).clone();
            write(both.open(here).unwrap(), model);
            "written through the cache"
        }
        3 => {
            let file = OpenOptions::new().write(true).open(here).unwrap();
            file.set_len(offset as u64).unwrap();
            model.truncate(offset);
            "cut"
        }
        4 => {
            let file = OpenOptions::new().write(true).open(there).unwrap();
            file.set_len(offset as u64).unwrap();
            file.set_len(model.len() as u64).unwrap();
            model[offset..].fill(0);
            "cut and stretched by the other mount"
        }
        _ => "left alone",
    }
}

#[test]
fn what_is_put_into_the_cache_is_never_old() {
    let Some(mut sea) = sea("what_is_put_into_the_cache_is_never_old", 2) else {
        return;
    };
    let (a, b) = (sea.mount(&["--striped"]), sea.mount(&["--striped"]));
    let mut random = Random::new(support::seed());
    for round in 0..120 {
        let (here, there) = (a.join("file"), b.join("file"));
        // The longer ones are read past the cache where nothing of them is in it.
        let length = if round % 4 == 0 { 9 * MIB } else { 3 * MIB };
        let mut model = noise(length + 1000, random.next());
        let mut file = File::create(&here).unwrap();
        for piece in model.chunks(256 << 10) {
            file.write_all(piece).unwrap();
        }
        drop(file);
        // At once, or when some or all of it is there, if somebody puts it there soon enough.
        let moment = random.below(5) as usize * 180;
        let _ = (0..random.below(100)).find(|_| cached_pages(&here) >= moment);
        let how = disturb(&mut random, &here, &there, &mut model);
        for (whose, path) in [("the same", &here), ("the other", &there)] {
            let seen = std::fs::read(path).unwrap();
            let wrong = seen.iter().zip(&model).position(|(a, b)| a != b);
            assert!(
                seen == model,
                "round {round}, {how}: {whose} mount sees {} bytes of {}, the first wrong one is {wrong:?}",
                seen.len(),
                model.len()
            );
        }
    }
    sea.check();
}

#[test]
fn who_has_a_file_open_sees_what_others_closed_after_a_while() {
    let test = "who_has_a_file_open_sees_what_others_closed_after_a_while";
    let Some(mut sea) = sea(test, 2) else { return };
    let (a, b) = (sea.mount(&["--striped"]), sea.mount(&["--striped"]));
    let mut bytes = [0; 5];
    std::fs::write(a.join("file"), "first").unwrap();
    let reader = File::open(b.join("file")).unwrap();
    reader.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"first");
    let writer = OpenOptions::new().write(true).open(a.join("file")).unwrap();
    writer.write_all_at(b"other", 0).unwrap();
    drop(writer);
    wait_until("it shows through the open file", || {
        reader.read_exact_at(&mut bytes, 0).unwrap();
        &bytes == b"other"
    });
}

/// Files that are there before the mount that reads them knows of them.
fn strange_files(place: &Path, names: &[&str]) -> Vec<Vec<u8>> {
    let write = |(number, name): (usize, &&str)| {
        let bytes = noise(16 * MIB + 77 * number, number as u64);
        std::fs::write(place.join(name), &bytes).unwrap();
        bytes
    };
    names.iter().enumerate().map(write).collect()
}

/// Another program reads a file in pieces of so many bytes, and finds what it should.
fn read_by_dd(path: &Path, piece: &str, expected: &[u8]) {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", path.display()))
        .args([&format!("bs={piece}"), "status=none"]);
    finds(&mut dd, expected);
}

fn finds(program: &mut Command, expected: &[u8]) {
    let output = program.output().unwrap();
    assert!(output.status.success(), "{program:?}: {output:?}");
    assert!(output.stdout == expected, "{program:?}: other bytes");
}

#[test]
fn programs_that_read_much_at_a_time_read_past_the_kernels_cache() {
    let test = "programs_that_read_much_at_a_time_read_past_the_kernels_cache";
    let Some(mut sea) = sea(test, 3) else { return };
    let (there, here) = (sea.mount(&["--striped"]), sea.mount(&["--striped"]));
    let names = ["first", "second", "third", "fourth", "fifth"];
    let mut bytes = strange_files(&there, &names);
    let paths: Vec<PathBuf> = names.iter().map(|name| here.join(name)).collect();
    let pages = |file: usize| cached_pages(&paths[file]);
    // Nobody knows the program yet; what it does with the first file tells.
    read_by_dd(&paths[0], "1M", &bytes[0]);
    assert!(pages(0) > 16 * MIB / PAGE / 2, "{} pages", pages(0));
    read_by_dd(&paths[1], "1M", &bytes[1]);
    assert_eq!(pages(1), 0);
    // It turns to small pieces: that is right, and remembered.
    read_by_dd(&paths[2], "4k", &bytes[2]);
    assert_eq!(pages(2), 0);
    read_by_dd(&paths[3], "4k", &bytes[3]);
    assert!(pages(3) > 16 * MIB / PAGE / 2, "{} pages", pages(3));
    // And back.
    read_by_dd(&paths[4], "1M", &bytes[4]);
    assert!(pages(4) > 0);
    // What changes is seen, and what is read again and again gets into the cache.
    bytes[1].reverse();
    std::fs::write(there.join(names[1]), &bytes[1]).unwrap();
    for _ in 0..3 {
        read_by_dd(&paths[1], "1M", &bytes[1]);
    }
    wait_until("it is in the kernel's cache", || is_cached(&paths[1]));
    read_by_dd(&paths[1], "1M", &bytes[1]);
    sea.check();
}

#[test]
fn how_programs_write_and_read_short_files_tells_how_they_read_long_ones() {
    let test = "how_programs_write_and_read_short_files_tells_how_they_read_long_ones";
    let Some(mut sea) = sea(test, 3) else { return };
    let (there, here) = (sea.mount(&["--striped"]), sea.mount(&["--striped"]));
    let bytes = strange_files(&there, &["first", "second"]);
    let short = noise(3 * MIB, 9);
    std::fs::write(there.join("short"), &short).unwrap();
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=256k", "count=8", "status=none"])
        .arg(format!("of={}", here.join("own").display()));
    finds(&mut dd, b"");
    read_by_dd(&here.join("first"), "1M", &bytes[0]);
    assert_eq!(cached_pages(&here.join("first")), 0);
    // It moves 128 KiB at a time.
    finds(Command::new("cat").arg(here.join("short")), &short);
    finds(Command::new("cat").arg(here.join("second")), &bytes[1]);
    assert_eq!(cached_pages(&here.join("second")), 0);
    sea.check();
}

#[test]
fn what_is_read_past_the_cache_can_be_mapped_and_is_fresh() {
    let test = "what_is_read_past_the_cache_can_be_mapped_and_is_fresh";
    let Some(mut sea) = sea(test, 2) else { return };
    let (there, here) = (sea.mount(&["--striped"]), sea.mount(&["--striped"]));
    let bytes = strange_files(&there, &["first", "second"]);
    // This program reads all at once, so the second file is read past the cache.
    assert!(std::fs::read(here.join("first")).unwrap() == bytes[0]);
    let file = File::open(here.join("second")).unwrap();
    let length = bytes[1].len();
    let mut seen = vec![0; length];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert!(seen == bytes[1], "other bytes");
    assert_eq!(cached_pages(&here.join("second")), 0);
    // SAFETY: a fresh mapping of the whole file, which stays as long as it is.
    let map = unsafe {
        let null = std::ptr::null_mut();
        let how = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(null, length, how.0, how.1, file.as_raw_fd(), 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    let mapped = |place: usize| {
        // SAFETY: inside of the mapping.
        unsafe { map.cast::<u8>().add(place).read_volatile() }
    };
    assert!((0..length).all(|place| mapped(place) == bytes[1][place]));
    let writer = OpenOptions::new()
        .write(true)
        .open(there.join("second"))
        .unwrap();
    let place = length / 2;
    let new = !bytes[1][place];
    writer.write_all_at(&[new], place as u64).unwrap();
    drop(writer);
    let mut byte = [0];
    file.read_exact_at(&mut byte, place as u64).unwrap();
    assert_eq!(byte, [new], "a read past the cache is never old");
    wait_until("it shows in the mapped memory", || mapped(place) == new);
    // SAFETY: our own mapping.
    unsafe { libc::munmap(map, length) };
}
