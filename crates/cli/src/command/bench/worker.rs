//! `trireme bench worker`: one process of a squad (see [`super::squad`]), started by other benchmarks.

use crate::context::Context;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use trireme::{Cluster, Collective, Extent, File, Group, LayoutWish, Method, Part, Partition};
use zerocopy::IntoBytes;

use super::words;

/// A process of another benchmark
#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    number: u32,
    #[arg(long)]
    members: u32,
}

/// What a squad does together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The file: on the cluster, or a local one for `raw`.
    pub path: String,
    pub write: bool,
    /// `raw`, or a method of collectives, or [`ALONE`].
    pub method: String,
    /// A name of Table 2, or `btio`.
    pub pattern: String,
    pub record: u64,
    pub bytes: u64,
    pub seed: u64,
    /// Whether what was moved is compared.
    pub verify: bool,
    /// How new files are laid out.
    pub layout: Option<Layout>,
    /// How blocks are sent.
    pub order: Option<Order>,
}

/// Stripe unit and number of servers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Layout {
    pub unit: u64,
    pub servers: u32,
}

/// Schedule, schedule block, and how many blocks a client has in flight at all.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub schedule: String,
    pub block: u64,
    pub total: u32,
}

impl Job {
    /// The line that members read.
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self).expect("plain data");
        format!("job {text}")
    }
}

/// Each member by itself, without a group: ordinary reads and writes, through a view where need be.
pub const ALONE: &str = "alone";

/// Bytes per call of the raw transfers, and of reading back.
const CALL: usize = 4 << 20;

/// Does jobs until there are no more.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let mut worker = Worker {
        context,
        number: args.number,
        members: args.members,
        cluster: None,
        group: None,
        files: HashMap::new(),
        shares: Vec::new(),
        buffer: words::Buffer::default(),
    };
    let mut lines = std::io::stdin().lock().lines();
    while let Some(line) = lines.next().transpose()? {
        let text = line.strip_prefix("job ").context("not a job")?;
        let job: Job = serde_json::from_str(text)?;
        let transfer = worker.prepare(&job)?;
        say(&format!("ready {}", std::process::id()))?;
        let go = lines.next().transpose()?.unwrap_or_default();
        anyhow::ensure!(go == "go", "the benchmark was given up");
        worker.transfer(&job, &transfer)?;
        say("done")?;
        let check = lines.next().transpose()?.unwrap_or_default();
        anyhow::ensure!(check == "check", "the benchmark was given up");
        let right = !job.verify || worker.verify(&job, &transfer)?;
        say(if right { "verified 1" } else { "verified 0" })?;
    }
    Ok(())
}

fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

struct Worker<'a> {
    context: &'a Context,
    number: u32,
    members: u32,
    cluster: Option<Cluster>,
    group: Option<Group>,
    files: HashMap<String, File>,
    /// What this member has of the pattern in turn, one for each size in use.
    shares: Vec<Share>,
    buffer: words::Buffer,
}

struct Share {
    pattern: (String, u64),
    bytes: u64,
    raw: bool,
    part: Part,
    words: Vec<u64>,
}

/// Where the bytes of a job go.
enum Transfer {
    Local(std::fs::File),
    Cluster,
}

impl Worker<'_> {
    fn prepare(&mut self, job: &Job) -> anyhow::Result<Transfer> {
        let raw = job.method == "raw";
        let pattern = (job.pattern.clone(), job.record);
        self.shares.retain(|share| share.pattern == pattern);
        if found(&self.shares, job).is_none() {
            let mut part = part(job, self.number, self.members)?;
            if raw {
                part = beside(job, self.number, self.members, &part)?;
            }
            let words = words::of_part(&part);
            self.shares.push(Share {
                pattern,
                bytes: job.bytes,
                raw,
                part,
                words,
            });
        }
        let share = found(&self.shares, job).expect("just made");
        if job.write {
            self.buffer.seed(&share.words, job.seed);
        } else {
            self.buffer.poison(share.words.len());
        }
        if raw {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            return Ok(Transfer::Local(options.open(&job.path)?));
        }
        self.open(job)?;
        Ok(Transfer::Cluster)
    }

    /// Opens the job's file once, and connects to its servers before the clock starts.
    fn open(&mut self, job: &Job) -> anyhow::Result<()> {
        if self.cluster.is_none() {
            let cluster = self.context.connect()?;
            let mut options = *cluster.options();
            options.own = self.number;
            self.cluster = Some(cluster.with_options(options));
        }
        let cluster = self.cluster.as_ref().expect("just made");
        if job.method == ALONE {
            self.group = None;
        } else if self.group.is_none() {
            // The benchmark's own number keeps two of them on one cluster apart.
            let name = format!("bench-{}", std::os::unix::process::parent_id());
            self.group = Some(Group::join(cluster, &name, self.number, self.members)?);
        }
        if !self.files.contains_key(&job.path) {
            let layout = job
                .layout
                .map_or_else(LayoutWish::default, |layout| LayoutWish {
                    unit: Some(layout.unit),
                    count: Some(layout.servers),
                    first: Some(0),
                    ..LayoutWish::default()
                });
            let file = trireme::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .layout(layout)
                .open(cluster, &job.path)?;
            file.size()?;
            self.files.insert(job.path.clone(), file);
        }
        let mut transfer = cluster.options().transfer;
        if let Some(order) = &job.order {
            transfer.schedule = order.schedule.parse()?;
            transfer.block = order.block;
            transfer.total = order.total;
        }
        self.files[&job.path].set_transfer(transfer);
        Ok(())
    }

    fn transfer(&mut self, job: &Job, transfer: &Transfer) -> anyhow::Result<()> {
        let share = found(&self.shares, job).expect("prepared");
        let buffer = self.buffer.as_mut_bytes();
        match transfer {
            Transfer::Local(file) => {
                let mut at = share.part.file_span().start;
                for call in buffer.chunks_mut(CALL) {
                    if job.write {
                        file.write_all_at(call, at)?;
                    } else {
                        file.read_exact_at(call, at)?;
                    }
                    at += call.len() as u64;
                }
            }
            Transfer::Cluster => {
                let (file, part) = (&self.files[&job.path], &share.part);
                let span = part.file_span();
                let contiguous = span.end - span.start == part.size();
                match (&self.group, job.write) {
                    _ if job.method == ALONE && part.is_empty() => {}
                    (None, true) if contiguous => file.write_at(buffer, span.start)?,
                    (None, false) if contiguous => file.read_exact_at(buffer, span.start)?,
                    (None, true) => file.view(part).write_at(buffer, 0)?,
                    (None, false) => {
                        file.view(part).read_at(buffer, 0)?;
                    }
                    (Some(group), write) => {
                        let collective = Collective::new(file, group)
                            .method(job.method.parse::<Method>()?)
                            .view(part.clone());
                        if write {
                            collective.write(buffer)?;
                        } else {
                            collective.read(buffer)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// After a read: the buffer. After a write: an even share of the file, read by ordinary calls.
    fn verify(&mut self, job: &Job, transfer: &Transfer) -> anyhow::Result<bool> {
        let share = found(&self.shares, job).expect("prepared");
        if !job.write {
            return Ok(words::same(&self.buffer, &share.words, job.seed));
        }
        let words = job.bytes / 8;
        let [from, to] = [self.number, self.number + 1]
            .map(|n| words * u64::from(n) / u64::from(self.members) * 8);
        let mut call = vec![0u64; CALL / 8];
        for at in (from..to).step_by(CALL) {
            let call = &mut call[..((to - at) as usize).min(CALL) / 8];
            call.fill(words::POISON);
            match transfer {
                Transfer::Local(file) => file.read_exact_at(call.as_mut_bytes(), at)?,
                Transfer::Cluster => {
                    self.files[&job.path].read_exact_at(call.as_mut_bytes(), at)?;
                }
            }
            if !words::same_from(call, at, job.seed) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn found<'a>(shares: &'a [Share], job: &Job) -> Option<&'a Share> {
    let raw = job.method == "raw";
    shares
        .iter()
        .find(|share| share.bytes == job.bytes && share.raw == raw)
}

/// What a member owns.
fn part(job: &Job, number: u32, members: u32) -> anyhow::Result<Part> {
    if job.pattern == "btio" {
        return btio(job.record, number, members);
    }
    let partition = Partition::named(&job.pattern, job.record, job.bytes, members)?;
    Ok(partition.part(number)?)
}

/// As many bytes as the member owns, but contiguous, each member's after those of the ones before it;
/// where all own everything, all of them.
fn beside(job: &Job, number: u32, members: u32, part: &Part) -> anyhow::Result<Part> {
    if part.size() == job.bytes {
        return Ok(part.clone());
    }
    let before = (0..number).map(|n| anyhow::Ok(self::part(job, n, members)?.size()));
    let offset = before.sum::<anyhow::Result<u64>>()?;
    Ok(Part::contiguous(offset, part.size())?)
}

/// One process's share of one I/O step of the BT benchmark of size n: a cube of n x n x n points of
/// 40 bytes, x fastest, multi-partitioned over q x q processes.
///
/// The cube is cut into q x q x q cells; in layer k process (i, j) has cell (i + k, j + k) mod q, one
/// in each layer, so that sweeps in any direction keep all processes busy.
fn btio(n: u64, number: u32, members: u32) -> anyhow::Result<Part> {
    const POINT: u64 = 40;
    let q = u64::from(members.isqrt());
    anyhow::ensure!(
        q * q == u64::from(members) && n.is_multiple_of(q),
        "BT needs a square number of processes whose root divides {n}, not {members}"
    );
    let (i, j, edge) = (u64::from(number) / q, u64::from(number) % q, n / q);
    let mut extents = Vec::new();
    for layer in 0..q {
        let (x, y) = ((i + layer) % q * edge, (j + layer) % q * edge);
        for z in layer * edge..(layer + 1) * edge {
            for row in y..y + edge {
                extents.push(Extent {
                    offset: ((z * n + row) * n + x) * POINT,
                    len: edge * POINT,
                });
            }
        }
    }
    Ok(Part::from_extents(&extents)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_of_btio_is_in_pieces_of_2160_bytes_and_covers_the_cube() {
        let parts: Vec<Part> = (0..9).map(|p| btio(162, p, 9).unwrap()).collect();
        let whole = 162 * 162 * 162 * 40;
        assert_eq!(parts.iter().map(Part::size).sum::<u64>(), whole);
        let all: Vec<&Part> = parts.iter().collect();
        assert_eq!(trireme_partition::multiplicity(&all, 0..whole), 1..=1);
        let runs: Vec<_> = parts[4].runs(0..whole).take(3).collect();
        assert!(runs.iter().all(|run| run.len == 2160), "{runs:?}");
        assert!(btio(162, 0, 8).is_err());
    }

    #[test]
    fn the_raw_twin_of_a_pattern_is_contiguous_and_as_large() {
        let job = |pattern: &str| Job {
            path: String::new(),
            write: true,
            method: "raw".into(),
            pattern: pattern.into(),
            record: 8,
            bytes: 4096,
            seed: 0,
            verify: true,
            layout: None,
            order: None,
        };
        for (pattern, from, to) in [("wcc", 2048, 3072), ("wn", 4096, 4096), ("ra", 0, 4096)] {
            let job = job(pattern);
            let own = part(&job, 2, 4).unwrap();
            let raw = beside(&job, 2, 4, &own).unwrap();
            if !raw.is_empty() {
                assert_eq!(raw.file_span(), from..to, "{pattern}");
            }
            assert_eq!(raw.size(), to - from, "{pattern}");
        }
    }
}
