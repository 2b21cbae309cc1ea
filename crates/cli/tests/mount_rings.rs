//! The way that requests take: through io_uring where the kernel can and root mounts, else from the device.

mod mount_support;
mod support;

use mount_support::{sea, wait_until};
use std::fs::OpenOptions;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Threads of a process that have a ring.
fn rings(process: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = threads.filter_map(|thread| std::fs::read(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b"fuse-ring")).count()
}

#[test]
fn requests_come_through_io_uring_unless_told_otherwise_and_its_switch_stays_as_it_was() {
    let test =
        "requests_come_through_io_uring_unless_told_otherwise_and_its_switch_stays_as_it_was";
    if OpenOptions::new().write(true).open(SWITCH).is_err() {
        return support::skip(
            test,
            "the kernel has no io_uring for FUSE, or this is not root",
        );
    }
    let Some(mut sea) = sea(test, 1) else { return };
    let before = std::fs::read(SWITCH).unwrap();
    let place = sea.mount(&[]);
    std::fs::write(place.join("f"), "through a ring").unwrap();
    let process = sea.process(0).id();
    wait_until("each processor has a ring", || {
        rings(process) >= std::thread::available_parallelism().unwrap().get()
    });
    wait_until("the switch is as it was", || {
        std::fs::read(SWITCH).unwrap() == before
    });
    let other = sea.mount(&["--no-io-uring"]);
    assert_eq!(std::fs::read(other.join("f")).unwrap(), b"through a ring");
    let process = sea.process(1).id();
    assert_eq!(rings(process), 0);
}
