//! One file from one end to the other: reads run ahead of writes by one chunk.

use super::Tally;
use super::end::{Kind, Open, World};
use super::plan::{Job, part_name};
use crate::name::Name;
use indicatif::ProgressBar;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;

/// Bytes moved at a time. A part is written in order and chunk by chunk, so its length says how
/// much of it is there, give or take the last chunk.
const CHUNK: u64 = 8 << 20;

/// Copies a file, or what is missing of it.
pub fn file(
    world: &World,
    job: &Job,
    force: bool,
    bar: &ProgressBar,
    tally: &Tally,
) -> anyhow::Result<()> {
    bar.set_message(job.from.to_string());
    if !force
        && let Some(there) = world.info(&job.to, false)?
        && there.kind == Kind::File
        && there.size == job.size
        && there.mtime == job.mtime
    {
        tally.skipped.fetch_add(1, Ordering::Relaxed);
        bar.inc(job.size);
        return Ok(());
    }
    let part = sibling(&job.to, &part_name(job));
    let source = world.open(&job.from)?;
    let sink = world.open_part(&part)?;
    let there = if force { 0 } else { sink.size()? };
    // The chunk that was being written may have holes: it is written again.
    let start = (there.min(job.size) / CHUNK).saturating_sub(1) * CHUNK;
    if start > 0 {
        tally.resumed.fetch_add(1, Ordering::Relaxed);
        bar.inc(start);
    }
    if there > job.size || (force && sink.size()? > 0) {
        sink.truncate(start)?;
    }
    let end = transfer(&source, &sink, start, bar, tally)?;
    let now = world.info(&job.from, true)?;
    anyhow::ensure!(
        end == job.size && now.is_some_and(|now| now.size == job.size && now.mtime == job.mtime),
        "the source changed while it was copied; copy it again when it is at rest"
    );
    if sink.size()? != job.size {
        sink.truncate(job.size)?;
    }
    world.publish(&part, sink, &job.to, job.mode, job.mtime)?;
    tally.files.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Moves bytes from `start` to the end of the source. Gives where that is.
fn transfer(
    source: &Open,
    sink: &Open,
    start: u64,
    bar: &ProgressBar,
    tally: &Tally,
) -> anyhow::Result<u64> {
    let (full, filled) = sync_channel::<anyhow::Result<(u64, Vec<u8>)>>(1);
    let (empty, emptied) = sync_channel::<Vec<u8>>(2);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut offset = start;
            loop {
                let mut buffer = emptied.try_recv().unwrap_or_default();
                buffer.resize(CHUNK as usize, 0);
                let read = source.read_at(&mut buffer, offset).map(|got| {
                    buffer.truncate(got);
                    (offset, buffer)
                });
                let got = read.as_ref().map_or(0, |(_, buffer)| buffer.len());
                offset += got as u64;
                // Also when the writer has given up: then nobody receives.
                if full.send(read).is_err() || got < CHUNK as usize {
                    return;
                }
            }
        });
        let mut end = start;
        for read in filled {
            let (offset, buffer) = read?;
            if !buffer.is_empty() {
                sink.write_at(&buffer, offset)?;
            }
            end = offset + buffer.len() as u64;
            bar.inc(buffer.len() as u64);
            tally
                .bytes
                .fetch_add(buffer.len() as u64, Ordering::Relaxed);
            let _ = empty.try_send(buffer);
        }
        Ok(end)
    })
}

fn sibling(name: &Name, other: &std::ffi::OsStr) -> Name {
    match name {
        Name::Cluster(path) => Name::Cluster(path.with_file_name(other)),
        Name::Local(path) => Name::Local(path.with_file_name(other)),
    }
}
