//! `trireme fsck`: checks the namespace, and finds subfiles that belong to nobody.
//!
//! The rule that everything here obeys: something is removed only when every question about it was
//! answered, by the server that has it (that it is there) and by the manager (that its number was
//! given out, and that no file has it; numbers are never given out again). A listing that ends in an
//! error proves nothing about what it did not list, and is never acted upon.

use crate::context::Context;
use crate::output;
use serde_json::json;
use trireme::Cluster;
use trireme::strays::{Stray, find_strays};

/// Check the file system; repair it with --repair
///
/// Looks for names that lead nowhere, inodes without a name, wrong counts, and for subfiles on the
/// I/O servers that no file owns. Says what it would do, and does it with --repair. Exits with an
/// error while something is wrong or could not be checked.
#[derive(clap::Args)]
pub struct Args {
    /// Do what is proposed
    #[arg(long)]
    repair: bool,
}

/// Checks.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let cluster = context.connect()?;
    let namespace = cluster.namespace();
    // First what the manager has to do anyway: unlinked files whose subfiles are still there.
    let pending = if args.repair {
        namespace.reap()?
    } else {
        namespace.statfs()?.pending
    };
    let report = namespace.check(args.repair)?;
    let strays = find_strays(&cluster)?;
    let removed = if args.repair {
        remove(&cluster, &strays.strays)
    } else {
        Removed::default()
    };

    let open = report
        .problems
        .iter()
        .filter(|problem| !problem.repaired)
        .count();
    let left = strays.strays.len() - removed.count;
    if context.json {
        output::print_json(&json!({
            "inodes": report.inodes,
            "entries": report.entries,
            "subfiles": strays.subfiles,
            "pending_removals": pending,
            "problems": report.problems.iter().map(|p| json!({
                "what": p.what, "remedy": p.remedy, "repaired": p.repaired,
            })).collect::<Vec<_>>(),
            "strays": strays.strays.iter().map(|s| json!({
                "server": s.server, "inode": s.inode,
            })).collect::<Vec<_>>(),
            "strays_removed": removed.count,
            "not_checked": strays.unchecked.iter().chain(&removed.errors).collect::<Vec<_>>(),
            "repair": args.repair,
        }));
    } else {
        for problem in &report.problems {
            let done = if problem.repaired { "done" } else { "would" };
            println!("{}\n  {done}: {}", problem.what, problem.remedy);
        }
        for stray in strays.strays.iter().take(20) {
            let done = if args.repair {
                "removed"
            } else {
                "would remove"
            };
            println!(
                "server {}: subfile of inode {}, which is gone\n  {done}",
                stray.server, stray.inode
            );
        }
        if strays.strays.len() > 20 {
            println!(
                "... and {} more subfiles of files that are gone",
                strays.strays.len() - 20
            );
        }
        for error in strays.unchecked.iter().chain(&removed.errors) {
            println!("NOT CHECKED: {error}");
        }
        println!(
            "{} inodes, {} names, {} subfiles: {} problems, {} strays, {pending} removals to do",
            report.inodes,
            report.entries,
            strays.subfiles,
            report.problems.len(),
            strays.strays.len()
        );
    }
    let unchecked = strays.unchecked.len() + removed.errors.len();
    anyhow::ensure!(
        unchecked == 0,
        "{unchecked} checks could not be finished; nothing was removed that was not checked"
    );
    anyhow::ensure!(
        open == 0 && left == 0,
        "{open} problems and {left} strays; `trireme fsck --repair` mends them"
    );
    Ok(())
}

#[derive(Default)]
struct Removed {
    count: usize,
    errors: Vec<String>,
}

fn remove(cluster: &Cluster, strays: &[Stray]) -> Removed {
    let mut removed = Removed::default();
    for stray in strays {
        match stray.remove(cluster) {
            Ok(()) => removed.count += 1,
            Err(error) => removed.errors.push(format!(
                "removing the subfile of inode {} on server {}: {error}",
                stray.inode, stray.server
            )),
        }
    }
    removed
}
