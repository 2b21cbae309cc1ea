//! The tour's third stop: a matrix written in one distribution and read back in another, by each method.

use std::time::{Duration, Instant};

use trireme::local::LocalCluster;
use trireme::{ArraySpec, Cluster, Collective, Dist, File, Group, Method, Options, Partition};

use crate::output;

/// 2048 x 1024 doubles: 16 MiB.
const SHAPE: [u64; 2] = [2048, 1024];
const RECORD: u64 = 8;
const MEMBERS: u32 = 4;
const WIDTH: f64 = 34.0;

/// Writes by rows, reads by dealt-out columns, verifies, and draws how fast each method was.
pub fn show(running: &LocalCluster) -> anyhow::Result<()> {
    let rows = ArraySpec::new(&SHAPE, RECORD, &[Dist::Block, Dist::None], &[MEMBERS, 1]);
    let columns = ArraySpec::new(
        &SHAPE,
        RECORD,
        &[Dist::None, Dist::Cyclic(1)],
        &[1, MEMBERS],
    );
    let bytes = rows.bytes()?;
    println!(
        "\nA matrix of {} x {} doubles: {MEMBERS} members of a group write it by rows, and read it with the \
         columns\ndealt out one by one, pieces of {RECORD} bytes:\n",
        SHAPE[0], SHAPE[1]
    );
    let mut results = Vec::new();
    for method in Method::ALL {
        let times = std::thread::scope(|scope| {
            let members: Vec<_> = (0..MEMBERS)
                .map(|rank| {
                    let (rows, columns) = (&rows, &columns);
                    scope.spawn(move || -> anyhow::Result<[Duration; 2]> {
                        let cluster = running.connect(Options::default())?;
                        let group =
                            Group::join(&cluster, &format!("tour {method}"), rank, MEMBERS)?;
                        one_member(&cluster, &group, method, rows, columns)
                    })
                })
                .collect();
            let results = members
                .into_iter()
                .map(|member| member.join().expect("members do not panic"));
            results.collect::<anyhow::Result<Vec<_>>>()
        })?;
        let slowest = |which: usize| times.iter().map(|times| times[which]).max();
        results.push((
            method,
            slowest(0).unwrap_or_default(),
            slowest(1).unwrap_or_default(),
        ));
    }
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64().max(1e-9);
    let best = results
        .iter()
        .flat_map(|result| [rate(result.1), rate(result.2)])
        .fold(0.0, f64::max);
    for (method, write, read) in results {
        for (what, time) in [("write rows   ", write), ("read columns ", read)] {
            let bar = "█".repeat(((rate(time) / best * WIDTH).round() as usize).max(1));
            println!("  {method:<14}{what}{bar} {}", output::rate(bytes, time));
        }
    }
    println!("\n  every byte verified; one run each, so only the large differences mean something");
    Ok(())
}

fn one_member(
    cluster: &Cluster,
    group: &Group,
    method: Method,
    rows: &ArraySpec,
    columns: &ArraySpec,
) -> anyhow::Result<[Duration; 2]> {
    let file = open(cluster, method)?;
    let part = |spec: &ArraySpec| Partition::array(spec.clone())?.part(group.rank());
    let (rows, columns) = (part(rows)?, part(columns)?);
    let content = |part: &trireme::Part| {
        let mut bytes = Vec::with_capacity(part.size() as usize);
        for run in part.runs(part.file_span()) {
            let elements = (run.file..run.file + run.len).step_by(RECORD as usize);
            bytes.extend(elements.flat_map(|at| (at / RECORD).to_le_bytes()));
        }
        bytes
    };
    let mine = content(&rows);
    group.barrier()?;
    let started = Instant::now();
    let collective = Collective::new(&file, group).method(method);
    collective.clone().view(rows).write(&mine)?;
    let write = started.elapsed();
    let mut back = vec![0; columns.size() as usize];
    group.barrier()?;
    let started = Instant::now();
    collective.view(columns.clone()).read(&mut back)?;
    let read = started.elapsed();
    anyhow::ensure!(back == content(&columns), "{method}: bytes are wrong");
    Ok([write, read])
}

fn open(cluster: &Cluster, method: Method) -> anyhow::Result<File> {
    Ok(trireme::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .open(cluster, format!("/tour/{method}"))?)
}
