//! Where a file's blocks lie on their disks.

use crate::disk::Drive;
use crate::random::Stream;

/// The three layouts of the disk-directed I/O paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Consecutive physical blocks.
    Contiguous,
    /// Independent random physical blocks.
    RandomBlocks,
    /// Random tracks, blocks consecutive within each.
    RandomTracks,
}

impl Layout {
    /// All layouts with the names that users write.
    pub const NAMED: &[(&str, Layout)] = &[
        ("contiguous", Layout::Contiguous),
        ("random-blocks", Layout::RandomBlocks),
        ("random-tracks", Layout::RandomTracks),
    ];

    /// The first sector of each of the first `blocks` blocks of a file that is striped over
    /// `disks`. Depends on the seed only, so that all experiments share their layouts.
    pub fn place(
        self,
        drive: &Drive,
        disks: usize,
        blocks: u64,
        sectors: u64,
        seed: u64,
    ) -> Vec<u64> {
        let mut next: Vec<DiskPlaces> = (0..disks)
            .map(|disk| {
                DiskPlaces::new(self, drive, sectors, Stream::indexed(seed, "layout", disk))
            })
            .collect();
        (0..blocks)
            .map(|block| next[block as usize % disks].take())
            .collect()
    }
}

/// Hands out the places of one disk, one block after the other.
struct DiskPlaces {
    layout: Layout,
    stream: Stream,
    sectors: u64,
    slots: u64,
    per_track: u64,
    track: u64,
    tracks: u64,
    used: std::collections::HashSet<u64>,
    count: u64,
    here: u64,
}

impl DiskPlaces {
    fn new(layout: Layout, drive: &Drive, sectors: u64, stream: Stream) -> DiskPlaces {
        let track = drive.track().max(sectors);
        DiskPlaces {
            layout,
            stream,
            sectors,
            slots: drive.capacity() / sectors,
            per_track: track / sectors,
            track,
            tracks: drive.capacity() / track,
            used: std::collections::HashSet::new(),
            count: 0,
            here: 0,
        }
    }

    fn take(&mut self) -> u64 {
        let index = self.count;
        self.count += 1;
        match self.layout {
            Layout::Contiguous => index * self.sectors,
            Layout::RandomBlocks => self.unused(self.slots) * self.sectors,
            Layout::RandomTracks => {
                if index.is_multiple_of(self.per_track) {
                    self.here = self.unused(self.tracks) * self.track;
                }
                self.here + index % self.per_track * self.sectors
            }
        }
    }

    fn unused(&mut self, of: u64) -> u64 {
        loop {
            let candidate = self.stream.below(of);
            if self.used.insert(candidate) {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_place_every_block_once() {
        let drive = Drive::named("hp97560").unwrap();
        for (name, layout) in Layout::NAMED {
            let places = layout.place(&drive, 4, 400, 16, 3);
            for disk in 0..4 {
                let mut mine: Vec<u64> = places.iter().copied().skip(disk).step_by(4).collect();
                mine.sort_unstable();
                assert!(
                    mine.windows(2).all(|pair| pair[1] - pair[0] >= 16),
                    "{name}"
                );
                assert!(mine[99] + 16 <= drive.capacity());
            }
        }
        assert_eq!(
            Layout::Contiguous.place(&drive, 2, 4, 16, 0),
            [0, 0, 16, 16]
        );
    }

    #[test]
    fn random_tracks_keep_neighbours_on_one_track() {
        let drive = Drive::named("hp97560").unwrap();
        let places = Layout::RandomTracks.place(&drive, 1, 8, 16, 0);
        assert_eq!(places[0] % 72, 0);
        assert_eq!(places[3], places[0] + 48);
        assert_eq!(places[4] % 72, 0);
    }
}
