//! What several processes and mounts do to the same files at once: appending, mapping, unlinking,
//! truncating, reading directories; and what one sees of the other.

mod mount_support;
mod support;

use mount_support::{open, shell, two, wait_until};
use rustix::fs::{FallocateFlags, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use trireme_proto::message::meta::{Node, Place};

#[test]
fn what_one_closed_another_sees_when_it_opens() {
    let Some((sea, a, b)) = two("what_one_closed_another_sees_when_it_opens", &[]) else {
        return;
    };
    let library = sea.client();
    let seen = |text: &str| {
        assert_eq!(std::fs::read_to_string(b.join("file")).unwrap(), text);
        assert_eq!(std::fs::read_to_string(a.join("file")).unwrap(), text);
    };
    for round in 0..20 {
        // In place, by the other mount, by the library, and by another file under the same name.
        let text = format!("round {round} {}", "x".repeat(round * 700));
        std::fs::write(a.join("file"), &text).unwrap();
        seen(&text);
        let text = format!("{round} from the other");
        std::fs::write(b.join("file"), &text).unwrap();
        seen(&text);
        let text = format!("{round} from the library");
        let file = library.create("/file").unwrap();
        file.write_at(text.as_bytes(), 0).unwrap();
        file.close().unwrap();
        seen(&text);
        let text = format!("{round} renamed over it");
        std::fs::write(a.join("new"), &text).unwrap();
        std::fs::rename(a.join("new"), a.join("file")).unwrap();
        seen(&text);
        let text = format!("{round} moved away and made again");
        std::fs::rename(b.join("file"), b.join(format!("old{round}"))).unwrap();
        std::fs::write(b.join("file"), &text).unwrap();
        assert_eq!(std::fs::read_to_string(a.join("file")).unwrap(), text);
    }
    // Attributes within the time that they are believed.
    std::fs::write(a.join("sized"), "12345").unwrap();
    let _ = b.join("sized").metadata().unwrap();
    std::fs::write(a.join("sized"), "1234567890").unwrap();
    wait_until("the new size shows", || {
        b.join("sized").metadata().unwrap().len() == 10
    });
    sea.check();
}

#[test]
fn holes_count_also_after_another_mount_has_emptied_the_file() {
    let test = "holes_count_also_after_another_mount_has_emptied_the_file";
    let Some((sea, a, b)) = two(test, &["--no-cache"]) else {
        return;
    };
    let file = open(&a.join("file"));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for _ in 0..3 {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 65536).unwrap();
        rustix::fs::fallocate(&file, punch, 0, 32768).unwrap();
        for mount in [&a, &b] {
            assert_eq!(mount.join("file").metadata().unwrap().blocks(), 64);
        }
        open(&b.join("file")).set_len(0).unwrap();
        assert_eq!(a.join("file").metadata().unwrap().blocks(), 0);
    }
    sea.check();
}

#[test]
fn without_caches_every_write_is_seen_at_once() {
    let Some((_sea, a, b)) = two(
        "without_caches_every_write_is_seen_at_once",
        &["--no-cache"],
    ) else {
        return;
    };
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .clone();
    let (one, other) = (
        options.open(a.join("f")).unwrap(),
        options.open(b.join("f")).unwrap(),
    );
    let mut byte = [0; 8];
    for round in 0..200u64 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        writer
            .write_all_at(&round.to_le_bytes(), round * 1000)
            .unwrap();
        reader.read_exact_at(&mut byte, round * 1000).unwrap();
        assert_eq!(u64::from_le_bytes(byte), round);
        assert_eq!(reader.metadata().unwrap().len(), round * 1000 + 8);
        assert_eq!(a.join("f").metadata().unwrap().len(), round * 1000 + 8);
    }
    // Who asks for it late appends where the end is now, too.
    rustix::fs::fcntl_setfl(&one, OFlags::APPEND).unwrap();
    for length in [5000, 3, 0] {
        other.set_len(length).unwrap();
        (&one).write_all(b"end").unwrap();
        assert_eq!(other.metadata().unwrap().len(), length + 3);
        other.read_exact_at(&mut byte[..3], length).unwrap();
        assert_eq!(&byte[..3], b"end");
    }
}

#[test]
fn appenders_of_two_mounts_never_lose_a_line() {
    let Some((_sea, a, b)) = two("appenders_of_two_mounts_never_lose_a_line", &[]) else {
        return;
    };
    std::fs::write(a.join("log"), "").unwrap();
    std::thread::scope(|scope| {
        for (writer, place) in [&a, &b, &a, &b].into_iter().enumerate() {
            scope.spawn(move || {
                let mut file = OpenOptions::new()
                    .append(true)
                    .open(place.join("log"))
                    .unwrap();
                for line in 0..50 {
                    let text = format!("{writer} {line} {}\n", "z".repeat(line * 13));
                    assert_eq!(file.write(text.as_bytes()).unwrap(), text.len());
                }
            });
        }
    });
    let text = std::fs::read_to_string(b.join("log")).unwrap();
    let mut next = [0; 4];
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (writer, number): (usize, usize) =
            (words[0].parse().unwrap(), words[1].parse().unwrap());
        assert_eq!(number, next[writer], "{line}");
        assert_eq!(words[2].len(), number * 13);
        next[writer] += 1;
    }
    assert_eq!(next, [50; 4]);
}

#[test]
fn an_unlinked_file_lives_until_its_last_user_on_any_mount() {
    let Some((sea, a, b)) = two(
        "an_unlinked_file_lives_until_its_last_user_on_any_mount",
        &[],
    ) else {
        return;
    };
    std::fs::write(a.join("file"), vec![7; 300_000]).unwrap();
    let held = OpenOptions::new()
        .read(true)
        .write(true)
        .open(b.join("file"))
        .unwrap();
    std::fs::remove_file(a.join("file")).unwrap();
    sea.client().namespace().reap().unwrap();
    let mut bytes = vec![0; 300_000];
    held.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    held.write_all_at(b"still here", 100).unwrap();
    held.read_exact_at(&mut bytes[..10], 100).unwrap();
    assert_eq!(&bytes[..10], b"still here");
    assert_eq!(held.metadata().unwrap().nlink(), 0);
    drop(held);
    let client = sea.client();
    wait_until("its bytes are gone", || {
        client.namespace().reap().unwrap() == 0
    });
    assert!(
        trireme::strays::find_strays(&client)
            .unwrap()
            .strays
            .is_empty()
    );
    sea.check();
}

#[test]
fn programs_that_ask_are_told_to_move_much_at_a_time() {
    let Some((_sea, a, _)) = two("programs_that_ask_are_told_to_move_much_at_a_time", &[]) else {
        return;
    };
    std::fs::write(a.join("f"), "x").unwrap();
    assert_eq!(std::fs::metadata(a.join("f")).unwrap().blksize(), 128 << 10);
    assert_eq!(std::fs::metadata(&a).unwrap().blksize(), 4096);
    // What a file takes is still counted in small blocks.
    assert!(std::fs::metadata(a.join("f")).unwrap().blocks() <= 8);
}

#[test]
fn direct_io_of_any_alignment_works() {
    let Some((_sea, a, b)) = two("direct_io_of_any_alignment_works", &[]) else {
        return;
    };
    let direct = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(a.join("f"))
        .unwrap();
    let mut model = Vec::new();
    let mut random = support::Random::new(3);
    for _ in 0..60 {
        let (at, length) = (random.below(200_000) as usize, random.size(70_000) as usize);
        let bytes = random.bytes(length);
        direct.write_all_at(&bytes, at as u64).unwrap();
        if model.len() < at + length {
            model.resize(at + length, 0);
        }
        model[at..at + length].copy_from_slice(&bytes);
    }
    let mut back = vec![0; model.len() - 3];
    direct.read_exact_at(&mut back, 3).unwrap();
    assert!(back == model[3..]);
    assert!(std::fs::read(b.join("f")).unwrap() == model);
}

#[test]
fn a_hundred_thousand_entries_are_listed_while_they_come_and_go() {
    let Some((sea, a, b)) = two(
        "a_hundred_thousand_entries_are_listed_while_they_come_and_go",
        &[],
    ) else {
        return;
    };
    let names = sea.client().namespace().softly(true);
    names.mkdir("/big", 0o755).unwrap();
    let big = names.stat("/big").unwrap().attr.inode;
    std::thread::scope(|scope| {
        for worker in 0..32 {
            let names = names.clone();
            scope.spawn(move || {
                for number in (worker..100_000).step_by(32) {
                    let place = Place::name(big, format!("name{number}"));
                    names.create(place, 0o644, Node::Socket).unwrap();
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(a.join("big")).unwrap().count(), 100_000);
    // Every thousandth is removed and as many come while somebody reads: those that stay all the
    // time are listed exactly once.
    let (mut stayed, mut listed) = (0, std::collections::HashSet::new());
    for (index, entry) in std::fs::read_dir(a.join("big")).unwrap().enumerate() {
        // Those that come may be listed too: then there are more than began.
        if index % 1000 == 0 && index < 100_000 {
            std::fs::remove_file(b.join(format!("big/name{index}"))).unwrap();
            std::fs::write(b.join(format!("big/extra{index}")), "").unwrap();
        }
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(number) = name.strip_prefix("name") {
            stayed += usize::from(number.parse::<usize>().unwrap() % 1000 != 0);
        }
        assert!(listed.insert(name), "listed twice");
    }
    assert_eq!(stayed, 99_900);
    assert_eq!(shell(&b.join("big"), "ls -U | wc -l").trim(), "100000");
}

#[test]
fn truncating_and_extending_from_two_mounts_agree_with_a_model() {
    let Some((sea, a, b)) = two(
        "truncating_and_extending_from_two_mounts_agree_with_a_model",
        &["--no-cache"],
    ) else {
        return;
    };
    let files = [open(&a.join("f")), open(&b.join("f")), open(&a.join("f"))];
    let mut random = support::Random::new(support::seed() + 11);
    let mut model: Vec<u8> = Vec::new();
    for step in 0..support::times(300) {
        let file = &files[random.below(3) as usize];
        let (at, length) = (
            random.below(400_000) as usize,
            random.size(100_000) as usize,
        );
        match random.below(6) {
            0 => {
                file.set_len(at as u64).unwrap();
                model.resize(at, 0);
            }
            1 => {
                drop(
                    OpenOptions::new()
                        .write(true)
                        .truncate(true)
                        .open(b.join("f"))
                        .unwrap(),
                );
                model.clear();
            }
            2 | 3 => {
                let bytes = random.bytes(length);
                file.write_all_at(&bytes, at as u64).unwrap();
                model.resize(model.len().max(at + length), 0);
                model[at..at + length].copy_from_slice(&bytes);
            }
            _ => {
                let mut bytes = Vec::new();
                File::open(a.join("f"))
                    .unwrap()
                    .read_to_end(&mut bytes)
                    .unwrap();
                assert!(
                    bytes == model,
                    "step {step}: {} and {} bytes",
                    bytes.len(),
                    model.len()
                );
            }
        }
        assert_eq!(
            b.join("f").metadata().unwrap().len(),
            model.len() as u64,
            "step {step}"
        );
    }
    drop(files);
    assert_eq!(a.join("f").metadata().unwrap().len(), model.len() as u64);
    sea.check();
}
