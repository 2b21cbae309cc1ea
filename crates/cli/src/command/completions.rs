//! `trireme completions SHELL`: completion scripts.

/// Print a completion script for a shell
///
/// For example: trireme completions bash > ~/.local/share/bash-completion/completions/trireme
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the script.
#[allow(clippy::unnecessary_wraps)]
pub fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<()> {
    clap_complete::generate(args.shell, &mut command, "trireme", &mut std::io::stdout());
    Ok(())
}
