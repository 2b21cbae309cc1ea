//! The tour's second stop: a real cluster of processes on this machine, a server killed on the way.

use crate::command::where_is;
use crate::output;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trireme::local::{LocalCluster, Up};
use trireme::{Cluster, File, Options};

/// Large enough to be worth striping, small enough for any laptop.
const SIZE: u64 = 64 << 20;
/// Bytes written or read at a time.
const CHUNK: u64 = 4 << 20;
const VICTIM: usize = 2;
const NAME: &str = "/tour/matrix";

/// Starts, writes, kills, restarts, reads, verifies.
pub fn show() -> anyhow::Result<()> {
    let directory = tempfile::Builder::new().prefix("trireme-demo-").tempdir()?;
    let started = Instant::now();
    let mut up = Up::new(directory.path().join("cluster"));
    up.servers = Some(4);
    up.publish = false;
    let mut running = up.start()?;
    println!(
        "A cluster: 4 I/O servers and a metadata manager, real processes, ready in {:.2} s\n",
        started.elapsed().as_secs_f64()
    );
    let cluster = running.connect(Options::default())?;
    cluster.namespace().mkdir("/tour", 0o755)?;
    let file = cluster.create(NAME)?;

    let pid = running.servers()[VICTIM].pid();
    println!(
        "  writing {} to {NAME}, all servers at once",
        output::bytes(SIZE)
    );
    let time = write_through_a_crash(&mut running, &file)?;
    println!(
        "  server {VICTIM} (process {pid}) was killed with SIGKILL in the middle and started again;"
    );
    println!(
        "  the writer noticed only a pause: {} in {:.2} s",
        output::bytes(SIZE),
        time.as_secs_f64()
    );
    let synced = Instant::now();
    file.sync()?;
    file.close()?;
    println!(
        "  synced to disk in {:.2} s: now it survives a power cut too",
        synced.elapsed().as_secs_f64()
    );

    let time = verify(&cluster)?;
    println!(
        "  read back by a new client: every one of {SIZE} bytes is right ({})\n",
        output::rate(SIZE, time)
    );
    let entry = cluster.stat(NAME)?;
    if let Some(layout) = &entry.layout {
        println!("Where the bytes went (`trireme where`):\n");
        for line in where_is::draw(NAME, layout, entry.attr.size)?.lines() {
            println!("  {line}");
        }
    }
    super::collective::show(&running)?;
    running.stop()?;
    Ok(())
}

/// Writes the whole file while a server is killed and started again.
fn write_through_a_crash(running: &mut LocalCluster, file: &File) -> anyhow::Result<Duration> {
    let written = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> anyhow::Result<()> {
            let mut buffer = vec![0; CHUNK as usize];
            for chunk in 0..SIZE / CHUNK {
                fill(&mut buffer, chunk * CHUNK);
                file.write_at(&buffer, chunk * CHUNK)?;
                written.fetch_add(CHUNK, Ordering::SeqCst);
            }
            Ok(())
        });
        while written.load(Ordering::SeqCst) < SIZE / 4 && !writer.is_finished() {
            std::thread::yield_now();
        }
        running.kill_server(VICTIM);
        std::thread::sleep(Duration::from_millis(200));
        running.restart_server(VICTIM)?;
        writer.join().expect("the writer does not panic")
    })?;
    Ok(started.elapsed())
}

fn verify(cluster: &Cluster) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let file = cluster.open(NAME)?;
    let (mut buffer, mut expected) = (vec![0; CHUNK as usize], vec![0; CHUNK as usize]);
    anyhow::ensure!(file.size()? == SIZE, "the file has {} bytes", file.size()?);
    for chunk in 0..SIZE / CHUNK {
        file.read_exact_at(&mut buffer, chunk * CHUNK)?;
        fill(&mut expected, chunk * CHUNK);
        if let Some(at) = buffer.iter().zip(&expected).position(|(a, b)| a != b) {
            anyhow::bail!("byte {} is wrong", chunk * CHUNK + at as u64);
        }
    }
    Ok(started.elapsed())
}

/// Bytes that depend on where they are, so that none can stand in for another.
fn fill(buffer: &mut [u8], offset: u64) {
    for (index, word) in buffer.chunks_exact_mut(8).enumerate() {
        let number = (offset + index as u64 * 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&number.to_le_bytes());
    }
}
