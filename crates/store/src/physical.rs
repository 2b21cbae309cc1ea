//! Where bytes lie on the disk itself: worth knowing only where a disk has an arm to move.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

use crate::Subfile;

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;

/// The kernel's `struct fiemap` with room for one extent.
#[repr(C)]
#[derive(Default)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extent: Extent,
}

/// The kernel's `struct fiemap_extent`.
#[repr(C)]
#[derive(Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

impl Subfile {
    /// Whether the subfile is on a rotating disk, as far as the kernel knows.
    pub fn has_an_arm(&self) -> bool {
        *self.arm.get_or_init(|| self.look_for_an_arm())
    }

    fn look_for_an_arm(&self) -> bool {
        let Ok(data) = self.file().metadata() else {
            return false;
        };
        let (major, minor) = (libc::major(data.dev()), libc::minor(data.dev()));
        // A partition has no queue of its own; its disk's is one level up.
        ["queue", "../queue"].iter().any(|queue| {
            let path = format!("/sys/dev/block/{major}:{minor}/{queue}/rotational");
            std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
        })
    }

    /// Where the bytes around `offset` lie together on the disk: their offsets in the subfile, and the
    /// disk's address of the first; `None` where nothing is stored yet or the file system does not say.
    pub fn extent(&self, offset: u64) -> Option<(Range<u64>, u64)> {
        let mut map = Map {
            start: offset,
            length: 1,
            count: 1,
            ..Map::default()
        };
        // SAFETY: the kernel writes at most one extent, for which `map` has room.
        let done = unsafe { libc::ioctl(self.as_fd().as_raw_fd(), FIEMAP, &raw mut map) };
        let Extent {
            logical,
            physical,
            length,
            ..
        } = map.extent;
        (done == 0 && map.mapped == 1).then(|| (logical..logical.saturating_add(length), physical))
    }
}

/// Finds places on the disk, asking the kernel once per extent and not once per place.
#[derive(Debug)]
pub struct Positions<'a> {
    subfile: &'a Subfile,
    last: Option<(Range<u64>, u64)>,
}

impl<'a> Positions<'a> {
    /// The places of `subfile`.
    pub fn new(subfile: &'a Subfile) -> Positions<'a> {
        Positions {
            subfile,
            last: None,
        }
    }

    /// The disk's address of the byte at `offset`, if it is known.
    pub fn of(&mut self, offset: u64) -> Option<u64> {
        if !matches!(&self.last, Some((range, _)) if range.contains(&offset)) {
            self.last = self.subfile.extent(offset);
        }
        let (range, physical) = self.last.as_ref()?;
        Some(physical + offset.checked_sub(range.start)?)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn positions_grow_within_an_extent_or_are_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let file = std::fs::File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let subfile = crate::Subfile::new(file, path, &crate::Options::default()).unwrap();
        assert_eq!(
            super::Positions::new(&subfile).of(0),
            None,
            "nothing is stored"
        );
        subfile.write_at(&vec![1; 64 << 10], 0).unwrap();
        subfile.file().sync_all().unwrap();
        let mut positions = super::Positions::new(&subfile);
        if let (Some(first), Some(next)) = (positions.of(0), positions.of(4096)) {
            assert_ne!(first, next);
            assert_eq!(positions.of(0), Some(first));
            assert_eq!(super::Positions::new(&subfile).of(4096), Some(next));
        }
        let _ = subfile.has_an_arm();
    }
}
