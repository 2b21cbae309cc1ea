//! One large file, written and read in one piece after the other, by all ways in turn.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trireme::{Cluster, LayoutWish, OpenOptions};
use trireme_fuse::bare::Answer;

use super::bare::Bare;
use super::gluster::Gluster;
use super::settle::{settle, warm};
use super::{Args, Cell, median};

/// The file where the library writes it.
const LIBRARY: &str = "/library";

/// A way to a large file.
enum Way<'a> {
    /// The library, and on how many servers it puts the file; `None` for all of them.
    Library(&'a Cluster, Option<u32>),
    File(PathBuf),
}

/// What one way took, round by round.
#[derive(Default)]
struct Times {
    write: Vec<Duration>,
    at_once: Vec<Duration>,
    read: Vec<Duration>,
    again: Vec<Duration>,
}

/// Writes and reads a large file: through the library, the mount and GlusterFS in turn; and reads one
/// through FUSE and nothing else.
pub fn measure(
    args: &Args,
    cluster: &Cluster,
    place: &Path,
    base: &Path,
    gluster: Option<&Gluster>,
    cells: &mut Vec<Cell>,
) -> anyhow::Result<()> {
    let mut ways = vec![Way::Library(cluster, None), Way::File(place.join("large"))];
    ways.extend(gluster.map(|gluster| Way::File(gluster.place().join("large"))));
    let mut times: [Times; 3] = Default::default();
    let (mut passed, mut limit, mut locally) = (Vec::new(), Vec::new(), Vec::new());
    let (mut foreign, mut spread, mut spreading) = (Vec::new(), Vec::new(), Vec::new());
    // What servers with a disk each would have, though these share one.
    std::fs::create_dir(place.join("striped"))?;
    let all = LayoutWish {
        count: Some(args.servers),
        ..LayoutWish::default()
    };
    cluster.namespace().set_layout("/striped", all)?;
    // One for all, and it begins on a page: where an allocator puts one, mostly 16 bytes after the
    // beginning of a page, some processors copy from the page cache several times slower.
    let mut buffer = cluster.buffer(args.transfer as usize)?;
    let (source, bare) = (base.join("stream-source"), base.join("stream-bare"));
    std::fs::create_dir(&source)?;
    std::fs::create_dir(&bare)?;
    for round in 0..=args.rounds {
        buffer.fill(7);
        // The first round warms up whatever there is to warm.
        let counts = round > 0;
        // Another one first each time: who comes first finds memory that was in use a moment ago, which on a
        // virtual machine is several times faster than memory that the host has taken back.
        for turn in 0..ways.len() {
            let which = (round + turn) % ways.len();
            let took = ways[which].take(args, &mut buffer)?;
            if counts {
                times[which].push(took);
            }
        }
        // What this mount did not write it can have nothing of.
        let mut strange = |servers| {
            let library = Way::Library(cluster, servers);
            library.write(args, &buffer)?;
            let took = Way::File(place.join(&LIBRARY[1..])).read(args, &mut buffer, true);
            library.remove()?;
            took
        };
        let (whole, striped) = (strange(Some(1))?, strange(None)?);
        let scattered = Way::File(place.join("striped/large"));
        let scattering = scattered.write(args, &buffer)?;
        scattered.remove()?;
        let local = Way::File(source.join("large"));
        let written = local.write(args, &buffer)?;
        // A new mount each time: nothing of the file is in the kernel's cache of it.
        let mut through = |answer| {
            let mounted = Bare::start(&source, &bare, answer)?;
            let took = Way::File(bare.join("large")).read(args, &mut buffer, true);
            drop(mounted);
            took
        };
        let (bytes, anything) = (through(Answer::Bytes)?, through(Answer::Anything)?);
        local.remove()?;
        if counts {
            locally.push(written);
            passed.push(bytes);
            limit.push(anything);
            foreign.push(whole);
            spread.push(striped);
            spreading.push(scattering);
        }
    }
    let megabytes = args.size as f64 / 1e6;
    let rate = |times: &mut Vec<Duration>| megabytes / median(times);
    let [library, mount, others] = &mut times;
    let mut add = |work, peer, ours: &mut Vec<Duration>, theirs: &mut Vec<Duration>, target| {
        cells.push(Cell {
            work,
            peer,
            unit: "MB/s",
            ours: rate(ours),
            theirs: (!theirs.is_empty()).then(|| rate(theirs)),
            target,
        });
    };
    let peer = "the client library, one thread, the same calls";
    let half = Some(0.5);
    add("write", peer, &mut mount.write, &mut library.write, half);
    add("read", peer, &mut mount.read, &mut library.read, half);
    add(
        "read again",
        peer,
        &mut mount.again,
        &mut library.again,
        half,
    );
    let (ours, theirs) = (&mut mount.at_once, &mut library.at_once);
    add("read at once", peer, ours, theirs, half);
    add("read others'", peer, &mut foreign, &mut library.read, half);
    add("read striped", peer, &mut spread, &mut library.read, half);
    add("FUSE's limit", peer, &mut limit, &mut library.read, None);
    let (ours, theirs) = (&mut spreading, &mut library.write);
    add("write striped", peer, ours, theirs, half);
    let peer = "a bare FUSE file system over a local file";
    add("read striped", peer, &mut spread, &mut passed, half);
    let peer = "FUSE's limit: answers that nobody put anything into";
    add("read striped", peer, &mut spread, &mut limit, None);
    let peer = "a local file on the same disk";
    add("write", peer, &mut mount.write, &mut locally, None);
    let peer = "GlusterFS, 4 bricks on the same disk, FUSE";
    add(
        "write",
        peer,
        &mut mount.write,
        &mut others.write,
        Some(4.0),
    );
    let (ours, theirs) = (&mut spreading, &mut others.write);
    add("write striped", peer, ours, theirs, Some(4.0));
    let same = Some(1.0);
    add("read", peer, &mut mount.read, &mut others.read, same);
    add(
        "read again",
        peer,
        &mut mount.again,
        &mut others.again,
        same,
    );
    let (ours, theirs) = (&mut mount.at_once, &mut others.at_once);
    add("read at once", peer, ours, theirs, same);
    Ok(())
}

impl Times {
    fn push(&mut self, [first, at_once, write, read, again]: [Duration; 5]) {
        self.write.extend([first, write]);
        self.at_once.push(at_once);
        self.read.push(read);
        self.again.push(again);
    }
}

impl Way<'_> {
    /// Writing; reading at once; reading another one when all is quiet again; and once more.
    fn take(&self, args: &Args, buffer: &mut [u8]) -> anyhow::Result<[Duration; 5]> {
        let first = self.write(args, buffer)?;
        let at_once = self.read(args, buffer, false)?;
        self.remove()?;
        let write = self.write(args, buffer)?;
        let read = self.read(args, buffer, true)?;
        let again = self.read(args, buffer, true)?;
        self.remove()?;
        Ok([first, at_once, write, read, again])
    }

    fn write(&self, args: &Args, buffer: &[u8]) -> anyhow::Result<Duration> {
        settle();
        warm(args.size);
        let pieces = (0..args.size).step_by(args.transfer as usize).map(|at| {
            let length = args.transfer.min(args.size - at) as usize;
            (at, &buffer[..length])
        });
        let begin = Instant::now();
        match self {
            Way::Library(cluster, servers) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true);
                options.layout(LayoutWish {
                    count: *servers,
                    ..LayoutWish::default()
                });
                let file = options.open(cluster, LIBRARY)?;
                for (at, piece) in pieces {
                    file.write_at(piece, at)?;
                }
                file.close()?;
            }
            Way::File(path) => {
                let mut file = File::create(path)?;
                for (_, piece) in pieces {
                    file.write_all(piece)?;
                }
            }
        }
        Ok(begin.elapsed())
    }

    fn read(&self, args: &Args, buffer: &mut [u8], quiet: bool) -> anyhow::Result<Duration> {
        if quiet {
            settle();
        }
        let begin = Instant::now();
        let mut total = 0;
        match self {
            Way::Library(cluster, _) => {
                let file = cluster.open(LIBRARY)?;
                loop {
                    let got = file.read_at(buffer, total)?;
                    if got == 0 {
                        break;
                    }
                    total += got as u64;
                }
                file.close()?;
            }
            Way::File(path) => {
                let mut file = File::open(path)?;
                loop {
                    let got = file.read(buffer)?;
                    if got == 0 {
                        break;
                    }
                    total += got as u64;
                }
            }
        }
        let took = begin.elapsed();
        let wanted = args.size;
        anyhow::ensure!(total == wanted, "{total} of {wanted} bytes came back");
        Ok(took)
    }

    fn remove(&self) -> anyhow::Result<()> {
        match self {
            Way::Library(cluster, _) => {
                cluster.namespace().unlink(LIBRARY)?;
                cluster.namespace().reap()?;
            }
            Way::File(path) => std::fs::remove_file(path)?,
        }
        Ok(())
    }
}
