//! Files mapped into memory: what is written through a mapping is in the file, for everybody, whatever else is
//! done to the file meanwhile.

mod mount_support;
mod support;

use mount_support::control::in_time;
use mount_support::{open, two};
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
    // SAFETY: a fresh mapping of a file that nobody cuts, unmapped below.
    let map = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
            &file,
            0,
        )
        .unwrap()
    };
    // SAFETY: the mapping is that long, and this is the only slice of it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(map.cast::<u8>(), length) };
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = (index * 31 % 251) as u8;
    }
    // SAFETY: the whole mapping.
    unsafe { rustix::mm::msync(map, length, rustix::mm::MsyncFlags::SYNC).unwrap() };
    let expected: Vec<u8> = (0..length).map(|index| (index * 31 % 251) as u8).collect();
    assert!(std::fs::read(b.join("f")).unwrap() == expected);
    bytes[5] = 255;
    // SAFETY: nobody uses `bytes` after this.
    unsafe { rustix::mm::munmap(map, length).unwrap() };
    drop(file);
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
        // SAFETY: a fresh mapping of a file that nobody cuts, unmapped below.
        let map = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                &file,
                0,
            )
            .unwrap()
        };
        // Not later: the kernel writes its pages when a file is opened.
        let other = File::open(place.join("f")).unwrap();
        let data = |file: &File| seek(file, SeekFrom::Data(0)).map(|at| at as usize);
        assert_eq!(data(&file), Err(rustix::io::Errno::NXIO));
        // SAFETY: within the mapping, and within the file.
        unsafe { map.cast::<u8>().add(written).write_volatile(7) };
        for file in [&other, &file] {
            assert_eq!(data(file), Ok(written), "{options:?}");
        }
        let hole = seek(&other, SeekFrom::Hole(written as u64));
        assert_eq!(hole, Ok(written as u64 + 4096));
        // SAFETY: as above. The page was taken away meanwhile, and comes back with what it had.
        let byte = unsafe { map.cast::<u8>().add(written).read_volatile() };
        assert_eq!(byte, 7);
        // SAFETY: the whole mapping, which nobody uses after this.
        unsafe { rustix::mm::munmap(map, length).unwrap() };
        drop((file, other));
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
        // SAFETY: a fresh mapping of a file that nobody cuts, unmapped below.
        let map = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                &append,
                0,
            )
            .unwrap()
        };
        for round in 1..20 {
            // SAFETY: within the mapping, and within the file.
            unsafe { map.cast::<u8>().add(5000).write_volatile(round) };
            // Files that were written are opened with an empty cache.
            let file = open(&path);
            let mut byte = [0];
            file.read_exact_at(&mut byte, 5000).unwrap();
            assert_eq!(byte, [round]);
            file.write_all_at(b"x", 9000).unwrap();
            // SAFETY: the whole mapping.
            unsafe { rustix::mm::msync(map, length, rustix::mm::MsyncFlags::SYNC).unwrap() };
        }
        // SAFETY: the whole mapping, which nobody uses after this.
        unsafe { rustix::mm::munmap(map, length).unwrap() };
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
        // SAFETY: a fresh mapping; only pages that the file has at that moment are touched.
        let map = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                4 * page,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                &file,
                0,
            )
            .unwrap()
        };
        let put = |offset: usize, byte: u8| {
            // SAFETY: within the mapping, and within the file.
            unsafe { map.cast::<u8>().add(offset).write_volatile(byte) };
        };
        for (round, size) in [3, 5000, 0, 4096, 8192, 12_288].into_iter().enumerate() {
            file.set_len(4 * page as u64).unwrap();
            put(0, 7);
            put(page + 904, 8);
            put(3 * page, 9);
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
        // SAFETY: the whole mapping, which nobody uses after this.
        unsafe { rustix::mm::munmap(map, 4 * page).unwrap() };
    });
    if !cut {
        support::skip(test, "no fusectl: a mount that hangs could not be ended");
        return;
    }
    let cut = std::fs::read(other.join("f")).unwrap();
    assert_eq!((cut.len(), cut[0], cut[4096 + 904]), (12_288, 0, 0));
    sea.check();
}
