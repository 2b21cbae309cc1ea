//! A process that ends a mount when the mount's own process was killed. Mostly the kernel does, but not while a
//! thread of that process waits for it (`trireme_fuse::kernel::AbortSwitch`).

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;
use trireme_fuse::kernel::AbortSwitch;
use trireme_server::signal::StopSignals;

/// How often it looks whether it was not told.
const LOOK: Duration = Duration::from_mins(1);

/// The guard of a mount that this process serves; ends when this is dropped.
pub struct Guard(Child);

impl Guard {
    /// Guards what is mounted on `dir`. To be called by the process' first thread, whose end it waits for.
    pub fn start(dir: &Path) -> anyhow::Result<Guard> {
        let switch = AbortSwitch::of(dir).context("the kernel's switch for it")?;
        let child = Command::new(std::env::current_exe()?)
            .args(["mount", "--guard", &std::process::id().to_string()])
            .arg(dir)
            .stdin(switch.into_file())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Guard(child))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process itself: waits for the end of the one that started it.
pub fn run(process: u32) -> anyhow::Result<()> {
    let signals = StopSignals::block();
    // What the terminal has to say is for the mount.
    rustix::process::setsid().context("start a session")?;
    let switch = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    while is_served_by(process) {
        signals.wait_for(LOOK);
    }
    // If it had ended, all is well.
    let _ = AbortSwitch::from_file(switch).abort();
    Ok(())
}

/// Whether the first thread of a process is there. The process may outlive it, if it was killed.
fn is_served_by(process: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ours = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get() as u32);
    ours == Some(process) && is_alive(&text)
}

fn is_alive(stat: &str) -> bool {
    // The name before the state may have anything in it.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    state
        .flatten()
        .is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_told_from_the_living() {
        assert!(is_alive("7 (a) Z (b) S 1 7 7"));
        assert!(!is_alive("7 (tri) R) Z 1 7 7"));
        assert!(!is_alive("7 (trireme) X 1 7 7"));
        assert!(!is_alive(""), "gone");
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(is_alive(&own));
        assert!(!is_served_by(std::process::id()), "we are not our parent");
    }
}
