//! Waiting for the signals that ask a daemon to stop.

/// SIGINT and SIGTERM, blocked in all threads that start after this.
#[derive(Debug)]
pub struct StopSignals {
    set: libc::sigset_t,
}

impl StopSignals {
    /// Blocks them from here on: call before any thread is started.
    pub fn block() -> StopSignals {
        // SAFETY: plain calls on a set that lives on this stack; they cannot fail with valid signals.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            StopSignals { set }
        }
    }

    /// Sleeps until one comes.
    pub fn wait(&self) {
        let mut signal = 0;
        // SAFETY: the set is initialised, the result is a local.
        while unsafe { libc::sigwait(&raw const self.set, &raw mut signal) } != 0 {}
    }

    /// Sleeps until one comes or `time` is over; true when one came.
    pub fn wait_for(&self, time: std::time::Duration) -> bool {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
        };
        // SAFETY: the set is initialised, the time is a local, no details are asked for.
        unsafe {
            libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const time) > 0
        }
    }
}

/// Asks the kernel to send SIGTERM to this process when the one that started it ends, however.
pub fn stop_with_parent() {
    let signal = Some(rustix::process::Signal::TERM);
    if rustix::process::set_parent_process_death_signal(signal).is_err() {
        tracing::warn!("this server will not notice when its parent ends");
    }
}
