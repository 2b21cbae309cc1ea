//! `trireme cp`: copies in, out and within, in parallel, resumable.
//!
//! A file is copied under a name of its own (`.NAME.IDENTITY.part`, the identity being the source's
//! size and time) and takes its real name when it is whole. So an interrupted copy leaves no half
//! file under a real name, and the next run goes on where the part ends, unless the source changed.
//! A target of the same size and time as its source is left alone; `--force` copies it anyway.

mod copy;
mod end;
mod plan;

use crate::command::mkdir::LayoutArgs;
use crate::context::Context;
use crate::name::Name;
use crate::output;
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Copy files and trees in, out and within the cluster
///
/// Names on the cluster are written trireme:/path, others are local. Interrupted, the same command
/// goes on where it stopped: whole files (same size and time) are skipped, parts continued.
#[derive(clap::Args)]
pub struct Args {
    /// What to copy, and last where to
    #[arg(required = true, num_args = 2..)]
    names: Vec<OsString>,
    /// Directories and everything below them
    #[arg(short, long)]
    recursive: bool,
    /// Copy also what seems to be there already, and begin parts anew
    #[arg(short, long)]
    force: bool,
    /// Files in flight
    #[arg(short, long, default_value = "4", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Make the copies durable before returning
    #[arg(long)]
    sync: bool,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// What was done.
#[derive(Default)]
pub struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    resumed: AtomicU64,
}

/// Copies.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let mut names = args
        .names
        .iter()
        .map(|n| Name::parse(n))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let target = names.pop().expect("at least two names");
    let on_cluster = |name: &Name| matches!(name, Name::Cluster(_));
    anyhow::ensure!(
        on_cluster(&target) || names.iter().any(on_cluster),
        "no name is on the cluster: write those as trireme:{}",
        target.path().display()
    );
    let cluster = context.connect()?;
    let world = end::World {
        cluster,
        wish: args.layout.wish(),
        sync: args.sync,
    };
    let plan = plan::make(&world, &names, &target, args.recursive)?;

    let bar = progress(args.quiet || context.json, plan.bytes);
    let tally = Tally::default();
    let started = Instant::now();
    let work = Mutex::new(plan.files.iter());
    let next = || work.lock().ok()?.next();
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..usize::from(args.jobs).min(plan.files.len()) {
            scope.spawn(|| {
                while let Some(job) = next() {
                    if let Err(error) = copy::file(&world, job, args.force, &bar, &tally) {
                        let error = error.context(format!("{} to {}", job.from, job.to));
                        bar.suspend(|| eprintln!("trireme: {}", output::error(&error)));
                        failures
                            .lock()
                            .expect("no panic under this lock")
                            .push(error);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    plan.finish(&world)?;
    let failed = failures
        .into_inner()
        .expect("no panic under this lock")
        .len();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let time = started.elapsed();
    if context.json {
        output::print_json(&json!({
            "files": count(&tally.files),
            "bytes": count(&tally.bytes),
            "skipped": count(&tally.skipped),
            "resumed": count(&tally.resumed),
            "directories": plan.directories,
            "failed": failed,
            "seconds": time.as_secs_f64(),
        }));
    } else if !args.quiet && std::io::stderr().is_terminal() {
        eprintln!(
            "{} files, {} in {:.1} s ({}), {} skipped, {} resumed",
            count(&tally.files),
            output::bytes(count(&tally.bytes)),
            time.as_secs_f64(),
            output::rate(count(&tally.bytes), time),
            count(&tally.skipped),
            count(&tally.resumed),
        );
    }
    anyhow::ensure!(
        failed == 0,
        "{failed} of {} files were not copied; the same command tries them again",
        plan.files.len()
    );
    Ok(())
}

fn progress(hidden: bool, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    let style = ProgressStyle::with_template(
        "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} {wide_msg}",
    );
    if hidden || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    } else if let Ok(style) = style.context("the progress template") {
        bar.set_style(style);
    }
    bar
}
