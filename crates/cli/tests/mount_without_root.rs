//! A cluster that somebody without privileges starts, mounts through fusermount3 and uses.

mod mount_support;
mod support;

use mount_support::{binary, is_mounted};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// Nobody in particular.
const USER: u32 = 65534;

/// What that user does, with `$T` as the program and `$D` as a directory of their own.
const WORK: &str = r#"
    set -e
    cd "$D"
    "$T" up --servers 2 --dir cluster --detach >/dev/null
    mkdir mount
    "$T" --cluster cluster mount mount >/dev/null
    head -c 9000001 /dev/urandom > local
    # Read more often than servers need to lend, and each time from the servers.
    for round in 1 2 3; do
        cp local mount/large
        cmp local mount/large
    done
    mkdir mount/dir
    mv mount/large mount/dir/moved
    ln -s dir/moved mount/link
    cmp local mount/link
    test "$(stat -c %u mount/dir/moved)" = "$(id -u)"
"#;

const END: &str = r#"
    cd "$D"
    "$T" umount mount
    "$T" --cluster cluster down >/dev/null
"#;

#[test]
fn nobody_needs_root_to_start_a_cluster_and_mount_it() {
    let test = "nobody_needs_root_to_start_a_cluster_and_mount_it";
    if !rustix::process::geteuid().is_root() {
        // The other tests of mounts go this way then.
        return support::skip(test, "only root can become somebody else");
    }
    if !Path::new("/dev/fuse").exists() {
        return support::skip(test, "there is no /dev/fuse");
    }
    if !mount_support::have(test, &["fusermount3", "setpriv"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.path().join("trireme");
    std::fs::copy(binary(), &program).unwrap();
    let own = dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    let as_user = |script: &str| {
        Command::new("setpriv")
            .args([&format!("--reuid={USER}"), &format!("--regid={USER}")])
            .args(["--clear-groups", "sh", "-c", script])
            .env("T", &program)
            .env("D", &own)
            .env("HOME", &own)
            .env("TMPDIR", &own)
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("TRIREME_CLUSTER")
            .status()
            .unwrap()
    };
    if !as_user("test -x \"$T\" && test -w \"$D\"").success() {
        return support::skip(test, "temporary files are out of other users' reach");
    }
    let worked = as_user(WORK).success();
    let mount = own.join("mount");
    let mounted = is_mounted(&mount);
    // The kernel keeps everybody else out, root too.
    let others = std::fs::read_dir(&mount).map(|_| ()).map_err(|e| e.kind());
    let ended = as_user(END).success();
    let left = is_mounted(&mount);
    if left {
        let _ = trireme_fuse::kernel::unmount(&mount, true);
    }
    assert!(worked && mounted && ended && !left);
    assert_eq!(others, Err(std::io::ErrorKind::PermissionDenied));
    assert_eq!(std::fs::metadata(&own).unwrap().uid(), USER);
}
