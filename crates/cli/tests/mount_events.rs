//! Programs that watch files of a mount are told what others do with them, and get at what they are told of.

mod mount_support;
mod support;

use mount_support::{open, sea, wait_until};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What fanotify was asked to tell.
const WATCHED: u64 = libc::FAN_OPEN | libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE;

/// A listener to what happens to one file, which never waits; its events come with a descriptor each.
fn listen(path: &Path) -> File {
    // SAFETY: no pointers; the descriptor that it gives is nobody else's.
    let listener = unsafe {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        let fd = libc::fanotify_init(flags, libc::O_RDONLY as u32);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    };
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the string outlives the call.
    let marked = unsafe {
        let (listener, here) = (listener.as_raw_fd(), libc::AT_FDCWD);
        libc::fanotify_mark(listener, libc::FAN_MARK_ADD, WATCHED, here, name.as_ptr())
    };
    assert_eq!(marked, 0, "{}", std::io::Error::last_os_error());
    listener
}

/// Takes what there is to hear: what happened, and what the file's first bytes are by the descriptors.
fn heard(listener: &mut File) -> (u64, Vec<String>) {
    const LENGTH: usize = size_of::<libc::fanotify_event_metadata>();
    let mut bytes = [0; 64 * LENGTH];
    let length = match listener.read(&mut bytes) {
        Ok(length) => length,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(error) => panic!("no event can be read: {error}"),
    };
    let (mut what, mut texts) = (0, Vec::new());
    for event in bytes[..length].chunks_exact(LENGTH) {
        // SAFETY: the kernel wrote one event of this length here, and any bytes are one.
        let event: libc::fanotify_event_metadata =
            unsafe { std::ptr::read_unaligned(event.as_ptr().cast()) };
        what |= event.mask;
        assert!(event.fd >= 0, "an event without a descriptor");
        // SAFETY: it came with this event, and is nobody else's.
        let file = unsafe { File::from_raw_fd(event.fd) };
        let mut text = [0; 16];
        let length = file.read_at(&mut text, 0).unwrap();
        texts.push(String::from_utf8_lossy(&text[..length]).into_owned());
    }
    (what, texts)
}

#[test]
fn who_listens_can_read_what_was_changed_and_closed_before() {
    let test = "who_listens_can_read_what_was_changed_and_closed_before";
    if !rustix::process::geteuid().is_root() {
        support::skip(test, "only root may listen by fanotify");
        return;
    }
    let Some(mut sea) = sea(test, 2) else {
        return;
    };
    let place = sea.mount(&[]);
    let path = place.join("file");
    std::fs::write(&path, "as it was").unwrap();
    let mut listener = listen(&path);
    for round in 0..20 {
        let text = format!("round {round}");
        let mut file = open(&path);
        file.write_all(text.as_bytes()).unwrap();
        drop(file);
        // The file is open no more, and its time of change is another one than when the kernel looked
        // up its name.
        let (mut what, mut texts) = (0, Vec::new());
        wait_until("all is heard", || {
            let (more, read) = heard(&mut listener);
            what |= more;
            texts.extend(read);
            what == WATCHED
        });
        assert!(
            texts.iter().all(|read| read.starts_with(&text)),
            "{texts:?}"
        );
    }
    sea.check();
}
