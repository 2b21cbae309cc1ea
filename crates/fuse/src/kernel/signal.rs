//! Whether a signal waits for a thread.
//!
//! The kernel tells of a signal that comes while a request is carried out. Of one that came before the request
//! was taken it tells through the device, but not through rings (Linux 6.18): whoever is killed and closes a
//! file then would wait for a server that is away. So those who wait for long are looked at.

/// Whether a thread has a signal to see to, as far as one may know.
pub(super) fn waits_for(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| is_pending(&status))
}

fn is_pending(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_are_blocked_do_not_count() {
        let status = |own: &str, all: &str, blocked: &str| {
            format!("Name:\tx\nSigPnd:\t{own}\nShdPnd:\t{all}\nSigBlk:\t{blocked}\nSigIgn:\t01\n")
        };
        let none = "0000000000000000";
        assert!(!is_pending(&status(none, none, none)));
        assert!(is_pending(&status(none, "0000000000004000", none)));
        assert!(is_pending(&status(
            "0000000000000100",
            none,
            "0000000000004000"
        )));
        assert!(!is_pending(&status(
            none,
            "0000000000004000",
            "0000000000004000"
        )));
        assert!(!is_pending("State:\tS\n"));
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(!waits_for(own as u32) && !waits_for(u32::MAX));
    }
}
