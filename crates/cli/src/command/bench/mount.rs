//! `trireme bench mount`: what a mount costs, beside the library, a bare FUSE file system and
//! GlusterFS, all in one run.

mod gluster;
mod tree;

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use gluster::Gluster;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trireme_fuse::bare::Bare;

/// A mount beside the library, a bare FUSE file system and GlusterFS
///
/// Starts a cluster of its own and, where Debian's glusterfs-server is installed and this is root, a
/// GlusterFS volume of 4 bricks on the same disk; removes both afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// Bytes of the large file
    #[arg(long, default_value = "1G", value_parser = output::parse_bytes)]
    size: u64,
    /// Bytes per call
    #[arg(long, default_value = "1M", value_parser = output::parse_bytes)]
    transfer: u64,
    /// Files of the source tree
    #[arg(long, default_value = "5000")]
    files: usize,
    /// Rounds of the large file; medians are printed
    #[arg(long, default_value = "3")]
    rounds: usize,
    /// I/O servers
    #[arg(long, default_value = "4")]
    servers: u32,
    /// Where everything is made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Only these parts: stream, random, tree
    #[arg(long, value_delimiter = ',', default_value = "stream,random,tree")]
    part: Vec<String>,
    /// Do not compare with GlusterFS
    #[arg(long)]
    no_gluster: bool,
}

/// Bytes of a small random read; reads per thread; threads.
const SMALL: usize = 4096;
const SMALL_READS: u64 = 5000;
const THREADS: u64 = 4;

/// One comparison.
struct Cell {
    work: &'static str,
    peer: &'static str,
    unit: &'static str,
    ours: f64,
    theirs: Option<f64>,
    target: f64,
}

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(args.rounds > 0 && args.transfer > 0, "nothing to measure");
    let own = tempfile::Builder::new()
        .prefix("trireme-bench-")
        .tempdir_in(&args.dir)?;
    let base = own.path().canonicalize()?;
    let mut up = trireme::local::Up::new(base.join("cluster"));
    up.publish = false;
    up.servers = Some(args.servers);
    let running = up.start()?;
    let cluster = running.connect(trireme::Options::default())?;
    let place = base.join("mount");
    std::fs::create_dir(&place)?;
    let mounted = Mounted::start(running.dir(), &place)?;
    let wants = |part: &str| args.part.iter().any(|wanted| wanted == part);
    let mut notes = Vec::new();
    let gluster = if args.no_gluster {
        None
    } else {
        match Gluster::start(&base.join("gluster"), args.servers) {
            Ok(gluster) => Some(gluster),
            Err(error) => {
                notes.push(format!("GlusterFS is not compared: {error:#}"));
                None
            }
        }
    };
    let mut cells = Vec::new();
    if wants("stream") {
        stream(args, &cluster, &place, &base, gluster.as_ref(), &mut cells)?;
    }
    if wants("random") {
        random(args, &cluster, &place, &base, &mut cells)?;
    }
    if wants("tree") {
        trees(args, &base, &place, gluster.as_ref(), &mut cells)?;
    }
    drop(gluster);
    mounted.stop()?;
    print(context, args, &cells, &notes);
    Ok(())
}

fn print(context: &Context, args: &Args, cells: &[Cell], notes: &[String]) {
    let mut rows = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    for cell in cells {
        let ratio = cell.theirs.map(|theirs| cell.ours / theirs);
        let pass = ratio.map(|ratio| ratio >= cell.target);
        values.push(json!({
            "work": cell.work, "unit": cell.unit, "ours": cell.ours, "peer": cell.peer,
            "peer_rate": cell.theirs, "ratio": ratio, "target": cell.target, "pass": pass,
        }));
        let theirs = cell
            .theirs
            .map_or("-".into(), |rate| format!("{rate:.0} {}", cell.unit));
        rows.push(vec![
            cell.work.to_owned(),
            format!("{:.0} {}", cell.ours, cell.unit),
            theirs,
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x")),
            format!(
                "{:.2}x {}",
                cell.target,
                match pass {
                    Some(true) => "pass",
                    Some(false) => "MISS",
                    None => "not compared",
                }
            ),
            cell.peer.to_owned(),
        ]);
    }
    if context.json {
        output::print_json(&json!({
            "size": args.size, "transfer": args.transfer, "files": args.files,
            "servers": args.servers, "rounds": args.rounds, "results": values, "notes": notes,
        }));
        return;
    }
    println!(
        "{} in calls of {} (medians of {} rounds), {} random reads of 4 KiB by {THREADS} threads, \
         a tree of {} files",
        output::bytes(args.size),
        output::bytes(args.transfer),
        args.rounds,
        SMALL_READS * THREADS,
        args.files
    );
    let header = ["WORK", "MOUNT", "PEER", "RATIO", "TARGET", "PEER IS"];
    println!("{}", output::table(&header, &rows));
    for note in notes {
        println!("{note}");
    }
}

/// The cluster as a mount of its own process.
struct Mounted {
    place: PathBuf,
    gone: bool,
}

impl Mounted {
    fn start(cluster: &Path, place: &Path) -> anyhow::Result<Mounted> {
        let status = Command::new(std::env::current_exe()?)
            .arg("--cluster")
            .arg(cluster)
            .arg("mount")
            .arg(place)
            .stdout(Stdio::null())
            .status()?;
        anyhow::ensure!(status.success(), "the cluster could not be mounted");
        Ok(Mounted {
            place: place.into(),
            gone: false,
        })
    }

    fn stop(mut self) -> anyhow::Result<()> {
        self.gone = true;
        trireme_fuse::kernel::unmount(&self.place, false)
            .or_else(|_| trireme_fuse::kernel::unmount(&self.place, true))
            .context("unmount")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.gone {
            let _ = trireme_fuse::kernel::unmount(&self.place, true);
        }
    }
}

/// Nobody pays for what the one before left to be written back.
fn settle_disk() {
    rustix::fs::sync();
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// What one way to a large file took, round by round.
#[derive(Default)]
struct Way {
    write: Vec<Duration>,
    read: Vec<Duration>,
    again: Vec<Duration>,
}

impl Way {
    fn push(&mut self, [write, read, again]: [Duration; 3]) {
        self.write.push(write);
        self.read.push(read);
        self.again.push(again);
    }
}

/// Writes and reads a large file: through the library, the mount and GlusterFS in turn; and reads one
/// through FUSE and nothing else.
fn stream(
    args: &Args,
    cluster: &trireme::Cluster,
    place: &Path,
    base: &Path,
    gluster: Option<&Gluster>,
    cells: &mut Vec<Cell>,
) -> anyhow::Result<()> {
    let mut ways: [Way; 3] = Default::default();
    let mut passed = Vec::new();
    let mut foreign = Vec::new();
    // One for all, and it begins on a page: where an allocator puts one, mostly 16 bytes after the
    // beginning of a page, some processors copy from the page cache several times slower.
    let mut buffer = cluster.buffer(args.transfer as usize)?;
    let (source, bare) = (base.join("stream-source"), base.join("stream-bare"));
    std::fs::create_dir(&source)?;
    std::fs::create_dir(&bare)?;
    for round in 0..=args.rounds {
        buffer.fill(7);
        // Another one first each time: who comes first finds memory that was in use a moment ago, which on a
        // virtual machine is several times faster than memory that the host has taken back.
        let mut took = [const { None }; 3];
        for turn in 0..3 {
            let way = (round + turn) % 3;
            let dir = match way {
                0 => None,
                1 => Some(place),
                _ => match gluster {
                    Some(gluster) => Some(gluster.place()),
                    None => continue,
                },
            };
            took[way] = Some(if let Some(dir) = dir {
                let path = dir.join("large");
                let times = [
                    file_write(args, &path, &buffer)?,
                    file_read(args, &path, &mut buffer)?,
                    file_read(args, &path, &mut buffer)?,
                ];
                std::fs::remove_file(&path)?;
                times
            } else {
                [
                    library_write(args, cluster, &buffer)?,
                    library_read(args, cluster, &mut buffer)?,
                    library_read(args, cluster, &mut buffer)?,
                ]
            });
        }
        file_write(args, &source.join("large"), &buffer)?;
        // What this mount did not write it can have nothing of.
        let strange = file_read(args, &place.join("library"), &mut buffer)?;
        // A new mount each time: nothing of the file is in the kernel's cache of it.
        let mounted = Bare::start(&source, &bare)?;
        let through = file_read(args, &bare.join("large"), &mut buffer)?;
        drop(mounted);
        std::fs::remove_file(source.join("large"))?;
        cluster.namespace().unlink("/library")?;
        cluster.namespace().reap()?;
        // The first round warms up whatever there is to warm.
        if round > 0 {
            passed.push(through);
            foreign.push(strange);
            for (way, times) in ways.iter_mut().zip(took) {
                if let Some(times) = times {
                    way.push(times);
                }
            }
        }
    }
    let megabytes = args.size as f64 / 1e6;
    let rate = |times: &mut Vec<Duration>| megabytes / median(times);
    let [library, mount, others] = &mut ways;
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
    add("write", peer, &mut mount.write, &mut library.write, 0.5);
    add("read", peer, &mut mount.read, &mut library.read, 0.5);
    add(
        "read again",
        peer,
        &mut mount.again,
        &mut library.again,
        0.5,
    );
    add("read others'", peer, &mut foreign, &mut library.read, 0.5);
    let peer = "a bare FUSE file system over a local file";
    add("read others'", peer, &mut foreign, &mut passed, 0.5);
    let peer = "GlusterFS, 4 bricks on the same disk, FUSE";
    add("write", peer, &mut mount.write, &mut others.write, 4.0);
    add("read", peer, &mut mount.read, &mut others.read, 1.0);
    add("read again", peer, &mut mount.again, &mut others.again, 1.0);
    Ok(())
}

fn library_write(
    args: &Args,
    cluster: &trireme::Cluster,
    buffer: &[u8],
) -> anyhow::Result<Duration> {
    settle_disk();
    let begin = Instant::now();
    let file = cluster.create("/library")?;
    for at in (0..args.size).step_by(args.transfer as usize) {
        let length = args.transfer.min(args.size - at) as usize;
        file.write_at(&buffer[..length], at)?;
    }
    file.close()?;
    Ok(begin.elapsed())
}

fn library_read(
    args: &Args,
    cluster: &trireme::Cluster,
    buffer: &mut [u8],
) -> anyhow::Result<Duration> {
    settle_disk();
    let begin = Instant::now();
    let file = cluster.open("/library")?;
    for at in (0..args.size).step_by(args.transfer as usize) {
        let length = args.transfer.min(args.size - at) as usize;
        file.read_exact_at(&mut buffer[..length], at)?;
    }
    file.close()?;
    Ok(begin.elapsed())
}

fn file_write(args: &Args, path: &Path, buffer: &[u8]) -> anyhow::Result<Duration> {
    settle_disk();
    let begin = Instant::now();
    let mut file = File::create(path)?;
    for at in (0..args.size).step_by(args.transfer as usize) {
        let length = args.transfer.min(args.size - at) as usize;
        file.write_all(&buffer[..length])?;
    }
    drop(file);
    Ok(begin.elapsed())
}

fn file_read(args: &Args, path: &Path, buffer: &mut [u8]) -> anyhow::Result<Duration> {
    settle_disk();
    let begin = Instant::now();
    let mut file = File::open(path)?;
    let mut total = 0;
    loop {
        let got = file.read(buffer)?;
        if got == 0 {
            break;
        }
        total += got as u64;
    }
    anyhow::ensure!(
        total == args.size,
        "{total} of {} bytes came back",
        args.size
    );
    Ok(begin.elapsed())
}

/// Small random reads that the kernel has not cached, beside FUSE and nothing else.
fn random(
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
        let passed = Bare::start(&source, &bare)?;
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
    let reads = (SMALL_READS * THREADS) as f64;
    cells.push(Cell {
        work: "random 4 KiB reads",
        peer: "a bare FUSE file system over a local file",
        unit: "reads/s",
        ours: reads / median(ours),
        theirs: Some(reads / median(theirs)),
        target: 0.5,
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
    settle_disk();
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

/// A source tree comes, is looked at by git, and goes.
fn trees(
    args: &Args,
    base: &Path,
    place: &Path,
    gluster: Option<&Gluster>,
    cells: &mut Vec<Cell>,
) -> anyhow::Result<()> {
    let archive = tree::archive(&base.join("tree"), args.files)?;
    let ours = tree::measure(&archive, place)?;
    let theirs = gluster
        .map(|gluster| tree::measure(&archive, gluster.place()))
        .transpose()?;
    let works = ["untar", "git status", "rm -r"];
    for (index, work) in works.into_iter().enumerate() {
        let rate = |times: &[Duration; 3]| args.files as f64 / times[index].as_secs_f64();
        cells.push(Cell {
            work,
            peer: "GlusterFS, 4 bricks on the same disk, FUSE",
            unit: "files/s",
            ours: rate(&ours),
            theirs: theirs.as_ref().map(rate),
            target: 1.0,
        });
    }
    Ok(())
}
