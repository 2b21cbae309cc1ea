//! Small random reads that the kernel has not cached, beside FUSE and nothing else.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use trireme_fuse::bare::Answer;

use super::bare::Bare;
use super::settle::settle;
use super::{Args, Cell, median};

/// Bytes of a read; reads per thread; threads.
const SMALL: usize = 4096;
const SMALL_READS: u64 = 5000;
pub const THREADS: u64 = 4;
/// Reads in all.
pub const READS: u64 = SMALL_READS * THREADS;

/// Measures.
pub fn measure(
    args: &Args,
    cluster: &trireme::Cluster,
    place: &Path,
    base: &Path,
    cells: &mut Vec<Cell>,
) -> anyhow::Result<()> {
    let (source, bare) = (base.join("source"), base.join("bare"));
    std::fs::create_dir(&source)?;
    std::fs::create_dir(&bare)?;
    let size = args.size.min(1 << 30);
    let piece = vec![5; 1 << 20];
    let local = File::create(source.join("file"))?;
    let ours = cluster.create("/file")?;
    for at in (0..size).step_by(1 << 20) {
        local.write_all_at(&piece, at)?;
        ours.write_at(&piece, at)?;
    }
    ours.close()?;
    let mut times: [Vec<Duration>; 2] = Default::default();
    for round in 0..=args.rounds {
        // A new mount each time: nothing of the file is in the kernel's cache of it.
        let passed = Bare::start(&source, &bare, Answer::Bytes)?;
        let theirs = small_reads(&bare.join("file"), size)?;
        drop(passed);
        drop_cached(&place.join("file"))?;
        let ours = small_reads(&place.join("file"), size)?;
        if round > 0 {
            times[0].push(theirs);
            times[1].push(ours);
        }
    }
    let [theirs, ours] = &mut times;
    let reads = READS as f64;
    cells.push(Cell {
        work: "random 4 KiB reads",
        peer: "a bare FUSE file system over a local file",
        unit: "reads/s",
        ours: reads / median(ours),
        theirs: Some(reads / median(theirs)),
        target: Some(0.5),
    });
    Ok(())
}

/// Takes a file's bytes out of the page cache.
fn drop_cached(path: &Path) -> anyhow::Result<()> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

fn small_reads(path: &Path, size: u64) -> anyhow::Result<Duration> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    settle();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let file = &file;
                scope.spawn(move || -> std::io::Result<()> {
                    let mut buffer = [0; SMALL];
                    for i in 0..SMALL_READS {
                        let mixed = (i * THREADS + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        let at = (mixed >> 20) % (size / SMALL as u64) * SMALL as u64;
                        file.read_exact_at(&mut buffer, at)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("reading does not panic")?;
        }
        Ok::<(), std::io::Error>(())
    })?;
    Ok(begin.elapsed())
}
