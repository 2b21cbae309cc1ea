//! `trireme man`: manual pages.

use anyhow::Context as _;
use std::path::PathBuf;

/// Print the manual page, or write the pages of all commands to a directory
#[derive(clap::Args)]
pub struct Args {
    /// Write trireme.1, trireme-cp.1, ... here
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes.
pub fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<()> {
    command.build();
    let Some(dir) = &args.dir else {
        clap_mangen::Man::new(command).render(&mut std::io::stdout())?;
        return Ok(());
    };
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("write manual pages to {}", dir.display()))?;
    Ok(())
}
