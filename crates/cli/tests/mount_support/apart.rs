//! Tests that need a `/dev/fuse` for everybody have one of their own, as the machine's may be root's alone: they
//! run in namespaces of mounts and processes, and all that they mount and start goes with them.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::skip;

/// Set for a test that has been started again in namespaces of its own.
const INSIDE: &str = "TRIREME_TEST_APART";

/// The first process there. `$1` is a directory to mount on: where temporary files lie devices may not work.
/// It stays, as orphans must be waited for.
const FIRST: &str = r#"
    mount -t tmpfs -o mode=755 none "$1" &&
    mknod -m 666 "$1/fuse" c 10 229 &&
    mount --bind "$1/fuse" /dev/fuse &&
    : < /dev/fuse || exit 1
    shift
    "$@"
    exit $?
"#;

/// Runs `body` where users without privileges may mount; says so where that cannot be.
pub fn with_device_for_all(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if !rustix::process::geteuid().is_root() {
        // The other tests of mounts go this way then.
        return skip(test, "only root can become somebody else");
    }
    if !super::have(test, &["unshare", "mknod", "mount"]) {
        return;
    }
    // Its files lie in ours: while something is mounted on them it could not take them away itself.
    let place = tempfile::tempdir().unwrap();
    let (device, files) = (place.path().join("device"), place.path().join("files"));
    for dir in [place.path(), &device, &files] {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let apart = || {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", FIRST, "sh"])
            .arg(&device)
            .env("TMPDIR", &files)
            .env(INSIDE, "1");
        command
    };
    let possible = apart().arg("true").output().unwrap();
    if !possible.status.success() {
        let why = String::from_utf8_lossy(&possible.stderr).into_owned();
        return skip(test, &format!("no /dev/fuse for all: {}", why.trim()));
    }
    let status = apart()
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .status()
        .unwrap();
    assert!(status.success(), "{test} failed in its namespaces");
}
