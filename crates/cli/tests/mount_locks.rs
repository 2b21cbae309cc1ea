//! Locks: who holds one and who waits for it, across openings, processes and mounts; when they go.

mod mount_support;
mod support;

use mount_support::{open, sea, two, wait_until};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A lock of fcntl; `wait` for it or not.
fn fcntl_lock(
    file: &File,
    kind: libc::c_int,
    start: i64,
    length: i64,
    wait: bool,
) -> std::io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    // Locks of the open file, so that threads of this process are strangers to each other.
    let how = if wait {
        libc::F_OFD_SETLKW
    } else {
        libc::F_OFD_SETLK
    };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), how, &raw const lock) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// The kernel must not go by the size that it knew before.
#[test]
fn who_gets_a_lock_sees_how_far_the_last_holder_wrote() {
    let test = "who_gets_a_lock_sees_how_far_the_last_holder_wrote";
    let Some((sea, a, b)) = two(test, &[]) else {
        return;
    };
    let locked = |file: &File, kind| fcntl_lock(file, kind, 0, 0, true).unwrap();
    for name in ["one", "two", "three"] {
        std::fs::write(a.join(name), "9").unwrap();
        let (here, there) = (open(&a.join(name)), open(&b.join(name)));
        let mut bytes = [0; 20];
        assert_eq!(here.read_at(&mut bytes, 0).unwrap(), 1);
        for (user, text) in [(&there, "10"), (&here, "100"), (&there, "1000")] {
            locked(user, libc::F_WRLCK);
            let length = user.read_at(&mut bytes, 0).unwrap();
            assert_eq!(length, text.len() - 1, "{name} before {text}");
            user.write_all_at(text.as_bytes(), 0).unwrap();
            locked(user, libc::F_UNLCK);
        }
        locked(&here, libc::F_RDLCK);
        let length = here.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes[..length], b"1000", "{name}");
    }
    sea.check();
}

/// SIGUSR1 does nothing but to interrupt.
fn ignore_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing; without SA_RESTART system calls return EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
}

fn errno<T>(result: std::io::Result<T>) -> i32 {
    result
        .err()
        .and_then(|error| error.raw_os_error())
        .unwrap_or(0)
}

#[test]
fn locks_hold_across_mounts_and_waiting_for_one_stops_nothing() {
    let Some((_sea, a, b)) = two(
        "locks_hold_across_mounts_and_waiting_for_one_stops_nothing",
        &[],
    ) else {
        return;
    };
    let (one, other) = (open(&a.join("f")), open(&b.join("f")));
    fcntl_lock(&one, libc::F_WRLCK, 10, 10, false).unwrap();
    assert_eq!(
        errno(fcntl_lock(&other, libc::F_RDLCK, 15, 1, false)),
        libc::EAGAIN
    );
    fcntl_lock(&other, libc::F_WRLCK, 20, 5, false).unwrap();
    fcntl_lock(&one, libc::F_UNLCK, 12, 3, false).unwrap();
    fcntl_lock(&other, libc::F_WRLCK, 12, 3, false).unwrap();
    assert_eq!(
        errno(fcntl_lock(&other, libc::F_RDLCK, 16, 1, false)),
        libc::EAGAIN
    );
    // More waiters than the mount has threads; everything else goes on.
    let waiters = 80;
    let got = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..waiters {
            let (b, got) = (&b, &got);
            scope.spawn(move || {
                let file = open(&b.join("f"));
                fcntl_lock(&file, libc::F_WRLCK, 16, 1, true).unwrap();
                assert!(got.load(Ordering::SeqCst), "a lock that somebody else had");
            });
        }
        std::fs::write(b.join("busy"), "go on").unwrap();
        assert_eq!(std::fs::read_to_string(b.join("busy")).unwrap(), "go on");
        got.store(true, Ordering::SeqCst);
        // Closing gives locks back.
        drop(one);
    });
    // flock, whole files; its locks do not meet those of fcntl.
    let (one, other) = (open(&a.join("g")), open(&b.join("g")));
    flock(&one, FlockOperation::LockExclusive).unwrap();
    let refused = flock(&other, FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(Errno::WOULDBLOCK));
    fcntl_lock(&other, libc::F_WRLCK, 0, 0, false).unwrap();
    drop(one);
    wait_until("closing gave it back", || {
        flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
}

#[test]
fn who_waits_for_a_lock_is_interrupted_and_told_of_deadlocks() {
    let Some((_sea, a, b)) = two(
        "who_waits_for_a_lock_is_interrupted_and_told_of_deadlocks",
        &[],
    ) else {
        return;
    };
    let (one, other) = (open(&a.join("f")), open(&b.join("f")));
    fcntl_lock(&one, libc::F_WRLCK, 0, 1, false).unwrap();
    ignore_signals();
    let (send, receive) = std::sync::mpsc::channel();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let other = &other;
        scope.spawn(move || {
            // SAFETY: asks for this thread's own number.
            send.send(unsafe { libc::pthread_self() }).unwrap();
            assert_eq!(
                errno(fcntl_lock(other, libc::F_WRLCK, 0, 1, true)),
                libc::EINTR
            );
            send.send(0).unwrap();
        });
        let thread = receive.recv().unwrap();
        while receive.recv_timeout(Duration::from_millis(50)).is_err() {
            // SAFETY: the thread lives until it has sent its last word.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(5));
    // Two processes that wait for each other: one of them is told.
    if mount_support::have("deadlock", &["perl"]) {
        let script = r#"
            use Fcntl; my ($path, $mine, $theirs, $flag) = @ARGV;
            open(my $f, "+<", $path) or die; my $pack = sub { pack("s s x4 q q i x4", F_WRLCK, 0, $_[0], 1, 0) };
            fcntl($f, F_SETLK, $pack->($mine)) or die "first: $!";
            open(my $t, ">", "$flag.$mine"); close $t;
            select(undef, undef, undef, 0.01) until -e "$flag.$theirs";
            if (fcntl($f, F_SETLKW, $pack->($theirs))) { print "got it\n" } else { print "told: ", $!+0, "\n" }
        "#;
        let flag = tempfile::tempdir().unwrap();
        std::fs::write(a.join("d"), "").unwrap();
        let start = |place: &Path, mine: &str, theirs: &str| {
            Command::new("perl")
                .args(["-e", script])
                .args([&place.join("d").to_string_lossy(), mine, theirs])
                .arg(flag.path().join("at"))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let (first, second) = (start(&a, "100", "200"), start(&b, "200", "100"));
        let mut said = [first, second]
            .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap());
        said.sort();
        assert_eq!(
            said,
            ["got it\n".to_owned(), format!("told: {}\n", libc::EDEADLK)]
        );
    }
}

/// Rounds of closing and locking: the order in which two threads of the mount carry out what the kernel
/// asked one after the other is another one every few hundred rounds.
const ROUNDS: usize = 2000;

#[test]
fn closing_a_file_gives_its_locks_back_before_it_returns() {
    let test = "closing_a_file_gives_its_locks_back_before_it_returns";
    let Some(mut sea) = sea(test, 2) else {
        return;
    };
    let mount = sea.mount(&[]);
    // Several at once, so that threads of the mount are kept from going on in the middle of something.
    let late = std::thread::scope(|scope| {
        let rounds =
            [("flock", 0), ("flock", 1), ("open-file", 2), ("test", 3)].map(|(kind, number)| {
                let path = mount.join(format!("f{number}"));
                scope.spawn(move || {
                    let other = open(&path);
                    let late = (0..ROUNDS).filter(|_| !goes_with_its_opening(&path, &other, kind));
                    (kind, late.count())
                })
            });
        rounds.map(|thread| thread.join().unwrap())
    });
    assert!(
        late.iter().all(|(_, late)| *late == 0),
        "{late:?} of {ROUNDS} were late"
    );
}

/// Locks a file through an opening of its own, closes that, and says whether `other` finds it free.
fn goes_with_its_opening(path: &Path, other: &File, kind: &str) -> bool {
    let one = open(path);
    if kind == "flock" {
        flock(&one, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop(one);
        let got = flock(other, FlockOperation::NonBlockingLockExclusive);
        flock(other, FlockOperation::Unlock).unwrap();
        return got.is_ok();
    }
    fcntl_lock(&one, libc::F_WRLCK, 5, 5, false).unwrap();
    drop(one);
    if kind == "test" {
        return held(other, 7).is_none();
    }
    let got = fcntl_lock(other, libc::F_WRLCK, 0, 0, false);
    fcntl_lock(other, libc::F_UNLCK, 0, 0, false).unwrap();
    got.is_ok()
}

/// The kind of a lock that is in the way of one on this byte.
fn held(file: &File, at: i64) -> Option<i32> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the structure outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let kind = i32::from(lock.l_type);
    (kind != libc::F_UNLCK).then_some(kind)
}

#[test]
fn who_was_killed_and_waited_for_holds_no_lock() {
    let Some(mut sea) = sea("who_was_killed_and_waited_for_holds_no_lock", 2) else {
        return;
    };
    let path = sea.mount(&[]).join("f");
    let ours = open(&path);
    for round in 0..200 {
        let theirs = open(&path);
        flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
        fcntl_lock(&theirs, libc::F_WRLCK, 0, 1, false).unwrap();
        // The opening becomes the child's alone, and its locks go with it.
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(theirs)
            .spawn()
            .unwrap();
        let refused = (round == 0).then(|| flock(&ours, FlockOperation::NonBlockingLockShared));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(refused.is_none_or(|got| got == Err(Errno::WOULDBLOCK)));
        flock(&ours, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(held(&ours, 0), None);
        flock(&ours, FlockOperation::Unlock).unwrap();
    }
}

/// The kernel makes owners of addresses, and a new opening often has that of the last one.
#[test]
fn closing_a_file_takes_no_lock_from_who_opens_it_next() {
    let test = "closing_a_file_takes_no_lock_from_who_opens_it_next";
    let Some(mut sea) = sea(test, 2) else {
        return;
    };
    let mount = sea.mount(&[]);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let path = mount.join(format!("f{number}"));
            scope.spawn(move || {
                let other = open(&path);
                for round in 0..ROUNDS {
                    for _ in 0..2 {
                        let one = open(&path);
                        flock(&one, FlockOperation::NonBlockingLockExclusive).unwrap();
                        fcntl_lock(&one, libc::F_WRLCK, 0, 1, false).unwrap();
                    }
                    let next = open(&path);
                    flock(&next, FlockOperation::NonBlockingLockExclusive).unwrap();
                    fcntl_lock(&next, libc::F_WRLCK, 1, 1, false).unwrap();
                    let taken = flock(&other, FlockOperation::NonBlockingLockShared);
                    assert_eq!(taken, Err(Errno::WOULDBLOCK), "round {round}");
                    assert_eq!(held(&other, 1), Some(libc::F_WRLCK), "round {round}");
                    assert_eq!(held(&other, 0), None, "round {round}");
                }
            });
        }
    });
}

#[test]
fn who_does_not_wait_is_refused_what_another_holds() {
    let Some((_sea, a, b)) = two("who_does_not_wait_is_refused_what_another_holds", &[]) else {
        return;
    };
    let (one, here, elsewhere) = (open(&a.join("f")), open(&a.join("f")), open(&b.join("f")));
    let refused = |file: &File| {
        let whole = flock(file, FlockOperation::NonBlockingLockShared);
        assert_eq!(whole, Err(Errno::WOULDBLOCK));
        let byte = fcntl_lock(file, libc::F_RDLCK, 0, 1, false);
        assert_eq!(errno(byte), libc::EAGAIN);
        assert_eq!(held(file, 0), Some(libc::F_WRLCK));
    };
    flock(&one, FlockOperation::NonBlockingLockExclusive).unwrap();
    fcntl_lock(&one, libc::F_WRLCK, 0, 1, false).unwrap();
    refused(&here);
    refused(&elsewhere);
    // One of two descriptors of the same opening: it stays, and so do its locks.
    drop(one.try_clone().unwrap());
    refused(&here);
    refused(&elsewhere);
    // A signal is no reason to say anything else.
    let stop = AtomicBool::new(false);
    ignore_signals();
    std::thread::scope(|scope| {
        // SAFETY: asks for this thread's own number.
        let this = unsafe { libc::pthread_self() };
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let rounds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..5 {
                drop(one.try_clone().unwrap());
                refused(&here);
            }
        }));
        stop.store(true, Ordering::SeqCst);
        rounds.unwrap();
    });
    drop(one);
    flock(&here, FlockOperation::NonBlockingLockExclusive).unwrap();
    fcntl_lock(&here, libc::F_WRLCK, 0, 1, false).unwrap();
}

#[test]
fn two_who_share_a_flock_and_want_it_alone_get_it_in_turn() {
    let test = "two_who_share_a_flock_and_want_it_alone_get_it_in_turn";
    let Some((sea, a, b)) = two(test, &[]) else {
        return;
    };
    for places in [[&a, &a], [&a, &b]] {
        let files = places.map(|place| open(&place.join("f")));
        for file in &files {
            flock(file, FlockOperation::LockShared).unwrap();
        }
        let (got, wait) = std::sync::mpsc::channel();
        let threads = files.map(|file| {
            let got = got.clone();
            std::thread::spawn(move || {
                flock(&file, FlockOperation::LockExclusive).unwrap();
                got.send(()).unwrap();
                flock(&file, FlockOperation::Unlock).unwrap();
            })
        });
        for _ in 0..2 {
            wait.recv_timeout(Duration::from_mins(1)).unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }
    sea.check();
}
