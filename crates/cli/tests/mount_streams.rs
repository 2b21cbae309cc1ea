//! Programs that write as fast as they can: their writes go on after the answer, and nobody finds less than what
//! was written, or hears nothing of what was not.

mod mount_support;
mod support;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mount_support::{sea, sea_in};
use support::Random;
use support::small::Small;

const MIB: usize = 1 << 20;

/// A stream: the second thread of the mount is awake from its third write or so on.
fn stream(file: &File, at: usize, model: &mut Vec<u8>, random: &mut Random, writes: usize) {
    let noise = random.bytes(2 * MIB);
    let mut at = at;
    for _ in 0..writes {
        let length = (128 << 10) + random.below((MIB - (128 << 10)) as u64 + 1) as usize;
        let bytes = &noise[random.below(MIB as u64) as usize..][..length];
        if model.len() < at + length {
            model.resize(at + length, 0);
        }
        model[at..at + length].copy_from_slice(bytes);
        file.write_all_at(bytes, at as u64).unwrap();
        at += length;
    }
}

fn writer(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

#[test]
fn what_is_being_written_is_found_by_whoever_looks() {
    let Some(mut sea) = sea("what_is_being_written_is_found_by_whoever_looks", 4) else {
        return;
    };
    let (place, other) = (sea.mount(&["--striped"]), sea.mount(&["--striped"]));
    let mut random = Random::new(support::seed());
    for round in 0..support::times(4) {
        let path = place.join(format!("f{round}"));
        let mut model = Vec::new();
        let file = writer(&path);
        stream(&file, 0, &mut model, &mut random, 30);
        for step in 0..40 {
            let at = random.below(model.len() as u64) as usize;
            stream(&file, at, &mut model, &mut random, 4);
            let at = random.below(model.len() as u64) as usize;
            let what = format!("round {round}, step {step}, at {at} of {}", model.len());
            match step % 5 {
                0 => {
                    let size = path.metadata().unwrap().len();
                    assert_eq!(size, model.len() as u64, "{what}");
                }
                1 => {
                    file.set_len(at as u64).unwrap();
                    model.truncate(at);
                }
                2 => {
                    // What was written last is what is read first.
                    let mut back = vec![0; (2 * MIB).min(model.len())];
                    let from = model.len() - back.len();
                    let reader = File::open(&path).unwrap();
                    reader.read_exact_at(&mut back, from as u64).unwrap();
                    assert!(back == model[from..], "{what}");
                }
                3 => {
                    let once_more = writer(&path);
                    stream(&once_more, at, &mut model, &mut random, 2);
                }
                _ => file.sync_all().unwrap(),
            }
            if model.is_empty() {
                stream(&file, 0, &mut model, &mut random, 10);
            }
        }
        drop(file);
        let name = path.file_name().unwrap();
        for place in [&other, &place] {
            let back = std::fs::read(place.join(name)).unwrap();
            assert!(back == model, "round {round}: {}", place.display());
        }
        std::fs::remove_file(&path).unwrap();
    }
    sea.check();
}

#[test]
fn a_disk_that_fills_up_in_the_middle_is_told_and_costs_nobody_else_anything() {
    let test = "a_disk_that_fills_up_in_the_middle_is_told_and_costs_nobody_else_anything";
    let dir = tempfile::tempdir().unwrap();
    let Some(_small) = Small::in_memory(dir.path().join("cluster/io1"), 64) else {
        support::skip(test, "mounting a small file system needs root");
        return;
    };
    let Some(mut sea) = sea_in(test, dir, 2) else {
        return;
    };
    let place = sea.mount(&["--striped"]);
    let piece = Random::new(support::seed()).bytes(MIB);
    let kept = place.join("kept");
    std::fs::write(&kept, &piece).unwrap();
    let path = place.join("large");
    for round in 0..6 {
        let mut file = File::create(&path).unwrap();
        let mut sure = 0;
        let written = (0..300).find_map(|number| {
            let written = file.write_all(&piece);
            // Not by closing a descriptor: the next write would have to tell the manager that there is more.
            let told = written.and_then(|()| file.sync_all());
            sure = number + usize::from(told.is_ok());
            told.err()
        });
        let error = written.expect("half of it does not fit");
        assert_eq!(
            error.raw_os_error(),
            Some(libc::ENOSPC),
            "round {round}: {error}"
        );
        assert!(sure > 40, "round {round}: {sure} pieces");
        drop(file);
        let back = std::fs::read(&path).unwrap();
        let right = |index: usize| back.chunks(MIB).nth(index) == Some(&piece[..]);
        let wrong = (0..sure).find(|index| !right(*index));
        assert_eq!(wrong, None, "round {round}: {sure} pieces were written");
        assert!(std::fs::read(&kept).unwrap() == piece, "round {round}");
        std::fs::remove_file(&path).unwrap();
        // There is room again, at the latest when the disk has forgotten the file.
        mount_support::wait_until("there is room again", || {
            let mut file = File::create(&path).unwrap();
            let fits = (0..16).all(|_| file.write_all(&piece).is_ok());
            fits && file.sync_all().is_ok()
        });
    }
    sea.check();
}

#[test]
fn what_was_synced_survives_the_death_of_the_mount() {
    let Some(mut sea) = sea("what_was_synced_survives_the_death_of_the_mount", 4) else {
        return;
    };
    let place = sea.mount(&["--striped"]);
    let mut random = Random::new(support::seed());
    let mut model = Vec::new();
    let file = writer(&place.join("f"));
    stream(&file, 0, &mut model, &mut random, 40);
    file.sync_all().unwrap();
    let synced = model.len();
    stream(&file, synced, &mut model, &mut random, 40);
    sea.process(0).kill().unwrap();
    sea.process(0).wait().unwrap();
    drop(file);
    let cluster = sea.client();
    let back = cluster.open("/f").unwrap();
    let mut bytes = vec![0; synced];
    back.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == model[..synced]);
}
