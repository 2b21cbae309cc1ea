//! The kernel's permission to use io_uring for requests, which is for root to give and off by default: it is
//! asked for while a mount is made, and left as it was found.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// How long somebody else's mount, which is being made right now, is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// While it lives, the kernel offers io_uring to mounts that are made; afterwards those that have it keep it.
#[derive(Debug)]
pub struct Permit {
    /// Locked, so that nobody else leaves it as we made it.
    switch: File,
    was_on: bool,
}

impl Permit {
    /// Tries to get it; without it mounts use `/dev/fuse`.
    pub fn get() -> Option<Permit> {
        Permit::turn_on()
            .inspect_err(|error| tracing::debug!("{SWITCH}: {error}; requests use /dev/fuse"))
            .ok()
    }

    fn turn_on() -> io::Result<Permit> {
        let mut switch = OpenOptions::new().read(true).write(true).open(SWITCH)?;
        let end = Instant::now() + PATIENCE;
        while let Err(error) = rustix::fs::flock(&switch, FlockOperation::NonBlockingLockExclusive)
        {
            if Instant::now() > end {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut state = String::new();
        switch.read_to_string(&mut state)?;
        let was_on = state.starts_with('Y');
        let mut permit = Permit { switch, was_on };
        permit.set(true)?;
        Ok(permit)
    }

    fn set(&mut self, on: bool) -> io::Result<()> {
        self.switch.rewind()?;
        self.switch.write_all(if on { b"Y" } else { b"N" })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.was_on {
            return;
        }
        if let Err(error) = self.set(false) {
            tracing::debug!("{SWITCH} stays on: {error}");
        }
    }
}
