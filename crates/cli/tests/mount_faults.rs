//! Servers, managers, mounts and whole clusters that die under a mount in use.

mod mount_support;
mod support;

use mount_support::control::Control;
use mount_support::mapped::Mapped;
use mount_support::{binary, is_mounted, sea, shell, wait_until};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn umount(place: &Path, options: &[&str]) -> bool {
    let begin = Instant::now();
    let done = Command::new(binary())
        .arg("umount")
        .args(options)
        .arg(place)
        .status()
        .unwrap()
        .success();
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "unmounting took too long"
    );
    done
}

/// New files, an unlinked one that stays open, names: all of it checked, over and over. A process of
/// its own, as starting one closes descriptors and would wait for the very server that is started.
const WORKER: &str = r#"
    use strict; use Fcntl; my ($place, $me, $progress) = @ARGV; chdir $place or die;
    sysopen(my $held, "held$me", O_RDWR | O_CREAT) or die "open: $!"; unlink "held$me" or die "unlink: $!";
    for (my $n = 0; ! -e "$progress.over"; $n++) {
        my $bytes = join("", map { chr(($_ * 7 + $n + $me) % 251) } 0 .. 999) x 150;
        my $name = "w$me-$n";
        open(my $f, ">", $name) or die "create: $!"; print $f $bytes or die "write: $!"; close $f or die "close: $!";
        sysseek($held, $n % 7 * 1000, 0); my $done = syswrite($held, $bytes); die "held write: $!" unless defined $done && $done == length $bytes;
        sysseek($held, $n % 7 * 1000, 0); my $back; sysread($held, $back, length $bytes) // die "held read: $!"; die "held bytes" unless $back eq $bytes;
        open($f, "<", $name) or die "open: $!"; local $/; my $text = <$f>; close $f; die "bytes of $name" unless $text eq $bytes;
        rename($name, "k$me") or die "rename: $!";
        open(my $p, ">", "$progress.new$me"); print $p $n; close $p; rename("$progress.new$me", "$progress.$me");
    }
"#;

#[test]
fn servers_and_managers_that_restart_are_waited_for() {
    let test = "servers_and_managers_that_restart_are_waited_for";
    if !mount_support::have(test, &["perl"]) {
        return;
    }
    let Some(mut sea) = sea(test, 3) else { return };
    let place = sea.mount(&[]);
    let progress = sea.dir("progress").join("at");
    let mut workers: Vec<_> = (0..3)
        .map(|worker| {
            Command::new("perl")
                .args(["-e", WORKER])
                .arg(&place)
                .arg(worker.to_string())
                .arg(&progress)
                .spawn()
                .unwrap()
        })
        .collect();
    let at = || -> Vec<u64> {
        (0..3)
            .map(|worker| {
                let text = std::fs::read_to_string(progress.with_extension(worker.to_string()));
                text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
            })
            .collect()
    };
    let go_on = || {
        let seen = at();
        wait_until("work goes on", || {
            at().iter().zip(&seen).all(|(now, then)| *now >= then + 2)
        });
    };
    for kill in 0..6 {
        go_on();
        if kill % 2 == 0 {
            sea.local.kill_server(kill / 2);
            std::thread::sleep(Duration::from_millis(200));
            sea.local.restart_server(kill / 2).unwrap();
        } else {
            sea.local.kill_manager();
            std::thread::sleep(Duration::from_millis(200));
            sea.local.restart_manager().unwrap();
        }
    }
    go_on();
    std::fs::write(progress.with_extension("over"), "").unwrap();
    for worker in &mut workers {
        assert!(worker.wait().unwrap().success());
    }
    assert!(umount(&place, &[]));
    sea.check();
}

#[test]
fn a_server_that_stays_away_is_an_error_after_the_deadline() {
    let test = "a_server_that_stays_away_is_an_error_after_the_deadline";
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.dir("slow");
    let mounted = mount_support::mount(sea.local.dir(), &place, &["--timeout", "3", "--striped"]);
    std::fs::write(place.join("f"), vec![1; 1 << 20]).unwrap();
    sea.local.kill_server(0);
    let begin = Instant::now();
    let error = std::fs::read(place.join("f")).unwrap_err();
    assert!(
        matches!(error.raw_os_error(), Some(libc::EIO | libc::ETIMEDOUT)),
        "{error}"
    );
    assert!(
        (2..12).contains(&begin.elapsed().as_secs()),
        "{:?}",
        begin.elapsed()
    );
    // Names are the manager's: they go on.
    std::fs::create_dir(place.join("d")).unwrap();
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2);
    sea.local.restart_server(0).unwrap();
    assert_eq!(std::fs::read(place.join("f")).unwrap().len(), 1 << 20);
    drop(mounted);
}

#[test]
fn a_write_that_fails_after_it_was_answered_is_told_once_to_every_opening() {
    use std::io::Write;
    let test = "a_write_that_fails_after_it_was_answered_is_told_once_to_every_opening";
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.dir("slow");
    let mounted = mount_support::mount(sea.local.dir(), &place, &["--timeout", "3", "--striped"]);
    let open = |name: &str| {
        let mut file = std::fs::File::create(place.join(name)).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        file
    };
    let (mut one, two) = (open("f"), open("f"));
    let closed = open("g");
    sea.local.kill_server(0);
    sea.local.kill_server(1);
    // Long writes are answered while the servers take them; these never will.
    one.write_all(&vec![2; 256 << 10]).unwrap();
    let error = one.sync_all().unwrap_err();
    assert!(
        matches!(error.raw_os_error(), Some(libc::EIO | libc::ETIMEDOUT)),
        "{error}"
    );
    (&closed).write_all(&vec![2; 256 << 10]).unwrap();
    // Closing tells it, too.
    let descriptor = std::os::fd::IntoRawFd::into_raw_fd(closed);
    // SAFETY: the descriptor is nobody else's.
    assert_eq!(unsafe { libc::close(descriptor) }, -1);
    sea.local.restart_server(0).unwrap();
    sea.local.restart_server(1).unwrap();
    two.sync_all().expect_err("the other opening was not told");
    // Once is enough: what is written again counts.
    one.write_all(&vec![3; 256 << 10]).unwrap();
    one.sync_all().unwrap();
    two.sync_all().unwrap();
    drop((one, two));
    let back = std::fs::read(place.join("f")).unwrap();
    assert_eq!(back.len(), 4096 + (512 << 10));
    assert!(back[4096 + (256 << 10)..].iter().all(|byte| *byte == 3));
    drop(mounted);
}

#[test]
fn who_is_killed_in_the_middle_does_not_wait_for_the_deadline() {
    let test = "who_is_killed_in_the_middle_does_not_wait_for_the_deadline";
    let Some(mut sea) = sea(test, 2) else { return };
    let patient = sea.dir("patient");
    let other = mount_support::mount(sea.local.dir(), &patient, &["--timeout", "60", "--striped"]);
    std::fs::write(patient.join("f"), vec![1; 1 << 20]).unwrap();
    sea.local.kill_server(0);
    let mut reader = Command::new("cat")
        .arg(patient.join("f"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        reader.try_wait().unwrap().is_none(),
        "it waits for the server"
    );
    let begin = Instant::now();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&reader),
        // Not INT: a child inherits that it is ignored where tests run in the background.
        rustix::process::Signal::TERM,
    )
    .unwrap();
    reader.wait().unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    drop(other);
}

#[test]
fn a_mount_can_be_taken_away_when_its_cluster_is_gone() {
    let Some(mut sea) = sea("a_mount_can_be_taken_away_when_its_cluster_is_gone", 2) else {
        return;
    };
    let place = sea.mount(&[]);
    std::fs::write(place.join("f"), "x").unwrap();
    sea.local.kill_manager();
    sea.local.kill_server(0);
    sea.local.kill_server(1);
    assert!(umount(&place, &[]));
    assert!(!is_mounted(&place));
    // Once more is an error that says so.
    assert!(!umount(&place, &[]));
    // Its process ends by itself.
    let process = sea.process(0);
    wait_until("the mount's process has ended", || {
        process.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_busy_mount_goes_when_told_to_and_a_killed_one_leaves_nothing_behind() {
    let Some(mut sea) = sea(
        "a_busy_mount_goes_when_told_to_and_a_killed_one_leaves_nothing_behind",
        2,
    ) else {
        return;
    };
    let place = sea.mount(&[]);
    let held = std::fs::File::create(place.join("held")).unwrap();
    assert!(!umount(&place, &[]), "in use");
    assert!(umount(&place, &["--lazy"]));
    drop(held);
    // Killed in the middle of everything.
    let place = sea.mount(&[]);
    let mut busy = Command::new("bash")
        .args(["-c", "for i in $(seq 100000); do mkdir -p d$((i%9)); echo $i > d$((i%9))/f$i; mv d$((i%9))/f$i g$i; rm -f g$((i-3)); done"])
        .current_dir(&place)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is busy", || place.join("g40").exists());
    sea.process(1).kill().unwrap();
    sea.process(1).wait().unwrap();
    let _ = busy.kill();
    let _ = busy.wait();
    // Who asks while the kernel ends the connection is told that it was ended.
    wait_until("nobody is there any more", || {
        let errno = std::fs::read_dir(&place).unwrap_err().raw_os_error();
        let ended = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];
        assert!(ended.map(Some).contains(&errno), "{errno:?}");
        errno == Some(libc::ENOTCONN)
    });
    assert!(umount(&place, &[]) || umount(&place, &["--lazy"]));
    assert!(!is_mounted(&place));
    sea.check();
    // The same place again, with what was there.
    let again = mount_support::mount(sea.local.dir(), &place, &[]);
    assert!(place.join("d1").is_dir());
    shell(&place, "rm -rf d* g* && test -z \"$(ls | grep -v held)\"");
    drop(again);
    sea.check();
}

/// A thread that has the kernel forget pages waits for those that the mount itself is writing, and cannot be killed.
#[test]
fn a_mount_that_is_killed_while_it_waits_for_itself_leaves_nobody_waiting() {
    let test = "a_mount_that_is_killed_while_it_waits_for_itself_leaves_nobody_waiting";
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.mount(&["--striped"]);
    let Some(control) = Control::of(&place) else {
        return;
    };
    // If it fails nothing here could end, either.
    let control = Ended(control);
    let path = place.join("f");
    let (changed, wait) = std::sync::mpsc::channel();
    let (go, told) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let file = mount_support::open(&path);
        file.set_len(1 << 20).unwrap();
        let map = Mapped::of(&file, 1 << 20);
        map.put(5, 7);
        changed.send(()).unwrap();
        let () = told.recv().unwrap();
        map.try_sync().expect_err("nobody wrote it");
    });
    wait.recv().unwrap();
    for server in 0..2 {
        sea.local.kill_server(server);
    }
    go.send(()).unwrap();
    wait_until("the page is being written", || control.0.waiting() > 0);
    let path = place.join("f");
    let opener = std::thread::spawn(move || std::fs::File::open(path).map(drop));
    let tasks = format!("/proc/{}/task", sea.process(0).id());
    wait_until("the mount waits for the kernel", || {
        let mut tasks = std::fs::read_dir(&tasks).unwrap();
        tasks.any(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") D "))
        })
    });
    sea.process(0).kill().unwrap();
    wait_until("its process is gone", || {
        sea.process(0).try_wait().unwrap().is_some()
    });
    writer.join().unwrap();
    let _ = opener.join().unwrap();
    assert!(umount(&place, &[]) || umount(&place, &["--lazy"]));
    for server in 0..2 {
        sea.local.restart_server(server).unwrap();
    }
    sea.check();
}

/// Ends a mount, whatever becomes of the test.
struct Ended(Control);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort_if_there();
    }
}

/// A file without a name outlives the manager's death, and goes with the mount that has it open.
#[test]
fn a_file_without_a_name_goes_with_its_mount() {
    let test = "a_file_without_a_name_goes_with_its_mount";
    let Some(mut sea) = sea(test, 2) else { return };
    let (place, client) = (sea.mount(&[]), sea.client());
    let make = || {
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let file = rustix::fs::open(&place, flags, rustix::fs::Mode::RUSR).unwrap();
        rustix::io::pwrite(&file, &vec![7; 200_000], 0).unwrap();
        file
    };
    let (named, lost) = (make(), make());
    sea.local.kill_manager();
    sea.local.restart_manager().unwrap();
    let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&named));
    let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    let (here, to) = (rustix::fs::CWD, place.join("named"));
    rustix::fs::linkat(here, from, here, &to, follow).unwrap();
    let pending = || client.namespace().reap().unwrap();
    assert_eq!(pending(), 1, "the one without a name");
    sea.check();
    sea.process(0).kill().unwrap();
    sea.process(0).wait().unwrap();
    drop((named, lost));
    // When its lease is over.
    wait_until("its bytes are gone", || pending() == 0);
    let found = trireme::strays::find_strays(&client).unwrap();
    assert!(found.strays.is_empty());
    assert_eq!(client.stat("/named").unwrap().attr.size, 200_000);
    sea.check();
}

/// Whatever happens to the test, nothing stays mounted.
struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let _ = trireme_fuse::kernel::unmount(self.0, true);
    }
}

#[test]
fn mounting_from_the_command_line_returns_and_names_what_is_wrong() {
    let Some(sea) = sea(
        "mounting_from_the_command_line_returns_and_names_what_is_wrong",
        1,
    ) else {
        return;
    };
    let place = sea.dir("here");
    let _guard = Gone(&place);
    let run = |arguments: &[&str]| {
        Command::new(binary())
            .arg("--cluster")
            .arg(sea.local.dir())
            .args(arguments)
            .output()
            .unwrap()
    };
    let text = place.to_string_lossy().into_owned();
    let output = run(&["mount", &text]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("umount"));
    std::fs::write(place.join("f"), "x").unwrap();
    let output = run(&["umount", &text]);
    assert!(output.status.success());
    let output = run(&["mount", "/nowhere"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere"));
    let output = run(&["mount", "--read-only", &text]);
    assert!(output.status.success());
    let error = std::fs::write(place.join("f"), "y").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    assert_eq!(std::fs::read_to_string(place.join("f")).unwrap(), "x");
    assert!(run(&["umount", &text]).status.success());
}
