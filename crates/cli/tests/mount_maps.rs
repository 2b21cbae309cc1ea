//! Files mapped into memory: what is written through a mapping is in the file, for everybody, whatever else is
//! done to the file meanwhile.

mod mount_support;
mod support;

use mount_support::control::in_time;
use mount_support::mapped::Mapped;
use mount_support::{open, two, wait_until};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

#[test]
fn mapped_memory_is_written_back() {
    let Some((_sea, a, b)) = two("mapped_memory_is_written_back", &[]) else {
        return;
    };
    let length = 1 << 20;
    let file = open(&a.join("f"));
    file.set_len(length as u64).unwrap();
    let map = Mapped::of(&file, length);
    for index in 0..length {
        map.put(index, (index * 31 % 251) as u8);
    }
    map.sync();
    let expected: Vec<u8> = (0..length).map(|index| (index * 31 % 251) as u8).collect();
    assert!(std::fs::read(b.join("f")).unwrap() == expected);
    map.put(5, 255);
    drop((map, file));
    assert_eq!(std::fs::read(b.join("f")).unwrap()[5], 255);
}

/// What was written through a mapping is only in the kernel's pages at first. Whoever copies the file without
/// its holes (`cp`) must not leave it out.
#[test]
fn what_was_written_through_a_mapping_is_no_hole() {
    use rustix::fs::{SeekFrom, seek};
    let test = "what_was_written_through_a_mapping_is_no_hole";
    for options in [&[][..], &["--no-cache"]] {
        let Some((sea, place, _)) = two(test, options) else {
            return;
        };
        let file = open(&place.join("f"));
        let (length, written) = (8 << 20, 5 << 20);
        file.set_len(length as u64).unwrap();
        let map = Mapped::of(&file, length);
        // Not later: the kernel writes its pages when a file is opened.
        let other = File::open(place.join("f")).unwrap();
        let data = |file: &File| seek(file, SeekFrom::Data(0)).map(|at| at as usize);
        assert_eq!(data(&file), Err(rustix::io::Errno::NXIO));
        map.put(written, 7);
        for file in [&other, &file] {
            assert_eq!(data(file), Ok(written), "{options:?}");
        }
        let hole = seek(&other, SeekFrom::Hole(written as u64));
        assert_eq!(hole, Ok(written as u64 + 4096));
        // The page was taken away meanwhile, and comes back with what it had.
        assert_eq!(map.get(written), 7);
        drop((map, file, other));
        sea.check();
    }
}

/// Pages of a mapping are written through the opening that it was made by, also if that is for appending and
/// others read the file through the cache. While they are written the kernel cannot forget them.
#[test]
fn a_file_that_is_mapped_for_appending_can_be_read_meanwhile() {
    let test = "a_file_that_is_mapped_for_appending_can_be_read_meanwhile";
    let Some((sea, place, other)) = two(test, &[]) else {
        return;
    };
    let path = place.join("f");
    let mapped = in_time(&place, "reading a mapped file", move || {
        let length = 4 * 4096;
        open(&path).set_len(length as u64).unwrap();
        let append = OpenOptions::new().read(true).append(true).open(&path);
        let append = append.unwrap();
        let map = Mapped::of(&append, length);
        for round in 1..20 {
            map.put(5000, round);
            // Files that were written are opened with an empty cache.
            let file = open(&path);
            let mut byte = [0];
            file.read_exact_at(&mut byte, 5000).unwrap();
            assert_eq!(byte, [round]);
            file.write_all_at(b"x", 9000).unwrap();
            map.sync();
        }
    });
    if !mapped {
        support::skip(test, "no fusectl: a mount that hangs could not be ended");
        return;
    }
    let bytes = std::fs::read(other.join("f")).unwrap();
    assert_eq!((bytes.len(), bytes[5000], bytes[9000]), (16_384, 19, b'x'));
    sea.check();
}

/// The kernel does not write pages of a file while it waits for the answer to a cut: whoever answers must
/// not wait for such a write.
#[test]
fn a_file_that_is_mapped_and_written_can_be_cut() {
    let test = "a_file_that_is_mapped_and_written_can_be_cut";
    let Some((sea, place, other)) = two(test, &[]) else {
        return;
    };
    let path = place.join("f");
    let cut = in_time(&place, "cutting a mapped file", move || {
        let page = 4096;
        let file = open(&path);
        let map = Mapped::of(&file, 4 * page);
        for (round, size) in [3, 5000, 0, 4096, 8192, 12_288].into_iter().enumerate() {
            file.set_len(4 * page as u64).unwrap();
            map.put(0, 7);
            map.put(page + 904, 8);
            map.put(3 * page, 9);
            match round % 3 {
                0 => file.set_len(size).unwrap(),
                1 => open(&path).set_len(size).unwrap(),
                _ => {
                    OpenOptions::new()
                        .write(true)
                        .truncate(true)
                        .open(&path)
                        .unwrap();
                    file.set_len(size).unwrap();
                }
            }
            let kept = if round % 3 == 2 { 0 } else { size };
            let mut bytes = vec![0; 4 * page];
            let length = file.read_at(&mut bytes, 0).unwrap();
            assert_eq!(length as u64, size, "round {round}");
            for (offset, byte) in [(0, 7), (page + 904, 8), (3 * page, 9)] {
                let there = if (offset as u64) < kept { byte } else { 0 };
                assert_eq!(bytes[offset], there, "byte {offset} in round {round}");
            }
        }
    });
    if !cut {
        support::skip(test, "no fusectl: a mount that hangs could not be ended");
        return;
    }
    let cut = std::fs::read(other.join("f")).unwrap();
    assert_eq!((cut.len(), cut[0], cut[4096 + 904]), (12_288, 0, 0));
    sea.check();
}

/// What `sendfile` finds at an offset: it takes pages of the kernel's cache, whatever reads do.
fn sent(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let into = tempfile::tempfile().unwrap();
    let (mut place, end) = (offset, offset + length as u64);
    loop {
        let left = (end - place) as usize;
        if rustix::fs::sendfile(&into, file, Some(&mut place), left).unwrap() == 0 {
            break;
        }
    }
    let mut bytes = vec![0; (place - offset) as usize];
    into.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Whoever is told a new end gets there, by whatever means.
#[test]
fn a_file_that_another_mount_lengthened_can_be_mapped_to_its_end() {
    let test = "a_file_that_another_mount_lengthened_can_be_mapped_to_its_end";
    let page = 4096;
    for options in [["--cache", "0.2"], ["--no-cache", "--no-atime"]] {
        let Some((sea, here, there)) = two(test, &options) else {
            return;
        };
        let writer = open(&there.join("f"));
        writer.write_all_at(&[1; 100], 0).unwrap();
        drop(writer);
        let file = File::open(here.join("f")).unwrap();
        let mut length = 100;
        // It is by chance who finds out: whoever asks, or the mount itself.
        for round in 2..12 {
            assert_eq!(sent(&file, 0, length).len(), length);
            let more = length + 2 * page;
            let writer = open(&there.join("f"));
            let piece = vec![round; more - length];
            writer.write_all_at(&piece, length as u64).unwrap();
            if round % 2 == 0 {
                drop(writer);
            }
            wait_until("the new size shows", || {
                file.metadata().unwrap().len() == more as u64
            });
            let bytes = sent(&file, length as u64, 2 * page);
            assert!(
                bytes == piece,
                "{options:?}, round {round}: {} bytes",
                bytes.len()
            );
            let map = Mapped::to_read(&file, more);
            assert_eq!((map.get(length), map.get(more - 1)), (round, round));
            length = more;
        }
        sea.check();
    }
}

#[test]
fn without_caches_mappings_follow_what_others_write() {
    let test = "without_caches_mappings_follow_what_others_write";
    let Some((sea, here, there)) = two(test, &["--no-cache"]) else {
        return;
    };
    let length = 3 * 4096;
    let writer = open(&there.join("f"));
    writer.write_all_at(&vec![1; length], 0).unwrap();
    let reader = File::open(here.join("f")).unwrap();
    let mut maps = vec![Mapped::to_read(&reader, length)];
    let mut both = None;
    for round in 2..10 {
        let place = round as usize * 1200;
        assert!(maps.iter().all(|map| map.get(place) == 1));
        writer.write_all_at(&[round], place as u64).unwrap();
        // Whoever asks what the file is like sees that, or locks it, and others do soon.
        match round {
            2 | 3 => assert_eq!(reader.metadata().unwrap().len(), length as u64),
            4 | 7 => rustix::fs::flock(&reader, FlockOperation::LockShared).unwrap(),
            _ => {}
        }
        if matches!(round, 2 | 3 | 4 | 7) {
            assert_eq!(sent(&reader, place as u64, 1), [round]);
            rustix::fs::flock(&reader, FlockOperation::Unlock).unwrap();
        }
        wait_until("it shows in the mapped memory", || {
            maps.iter().all(|map| map.get(place) == round)
        });
        wait_until("it is sent", || sent(&reader, place as u64, 1) == [round]);
        if round == 5 {
            // From now on it can be written here, too.
            let file = both.insert(open(&here.join("f")));
            maps.push(Mapped::of(file, length));
        }
    }
    // The other way round, and neither takes the other's away.
    maps[1].put(7, 77);
    writer.write_all_at(&[88], 5000).unwrap();
    wait_until("both are there", || {
        let mut byte = [0];
        writer.read_exact_at(&mut byte, 7).unwrap();
        byte == [77] && maps.iter().all(|map| map.get(5000) == 88)
    });
    assert_eq!((maps[0].get(7), maps[1].get(7)), (77, 77));
    drop((maps, reader, both, writer));
    sea.check();
}
