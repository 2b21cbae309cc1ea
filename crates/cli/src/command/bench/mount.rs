//! `trireme bench mount`: what a mount costs, beside the library, a bare FUSE file system and
//! GlusterFS, all in one run.

mod bare;
mod gluster;
mod random;
mod settle;
mod stream;
mod tree;

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use gluster::Gluster;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use trireme_fuse::bare::Answer;

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
    /// Serve the peer: the files of one directory, on another
    #[arg(long, hide = true, num_args = 2, value_names = ["SOURCE", "DIR"])]
    serve_bare: Option<Vec<PathBuf>>,
    /// Serve it without looking at the files' bytes
    #[arg(long, hide = true, requires = "serve_bare")]
    serve_anything: bool,
}

/// One comparison.
struct Cell {
    work: &'static str,
    peer: &'static str,
    unit: &'static str,
    ours: f64,
    theirs: Option<f64>,
    /// Not for what is only there to compare with.
    target: Option<f64>,
}

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    if let Some(places) = &args.serve_bare {
        let answer = if args.serve_anything {
            Answer::Anything
        } else {
            Answer::Bytes
        };
        return bare::serve(places, answer);
    }
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
        stream::measure(args, &cluster, &place, &base, gluster.as_ref(), &mut cells)?;
    }
    if wants("random") {
        random::measure(args, &cluster, &place, &base, &mut cells)?;
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
        let pass = ratio
            .zip(cell.target)
            .map(|(ratio, target)| ratio >= target);
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
            cell.target.map_or("-".into(), |target| {
                let word = match pass {
                    Some(true) => "pass",
                    Some(false) => "MISS",
                    None => "not compared",
                };
                format!("{target:.2}x {word}")
            }),
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
        "{} in calls of {} (medians of {} rounds), {} random reads of 4 KiB by {} threads, \
         a tree of {} files",
        output::bytes(args.size),
        output::bytes(args.transfer),
        args.rounds,
        random::READS,
        random::THREADS,
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

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
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
            target: Some(1.0),
        });
    }
    Ok(())
}
