//! A cluster that somebody without privileges starts, mounts through fusermount3 and uses.

mod mount_support;
mod support;

use mount_support::apart::with_device_for_all;
use mount_support::{binary, is_mounted};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, ExitStatus};

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

fn as_user(program: &Path, own: &Path, script: &str) -> ExitStatus {
    Command::new("setpriv")
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}")])
        .args(["--clear-groups", "sh", "-c", script])
        .env("T", program)
        .env("D", own)
        .env("HOME", own)
        .env("TMPDIR", own)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("TRIREME_CLUSTER")
        .status()
        .unwrap()
}

#[test]
fn nobody_needs_root_to_start_a_cluster_and_mount_it() {
    let test = "nobody_needs_root_to_start_a_cluster_and_mount_it";
    if mount_support::have(test, &["fusermount3", "setpriv"]) {
        with_device_for_all(test, || start_and_mount(test));
    }
}

fn start_and_mount(test: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.path().join("trireme");
    std::fs::copy(binary(), &program).unwrap();
    let own = dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    let as_user = |script: &str| as_user(&program, &own, script);
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

/// What a guest does in a cluster of root's. The manager believes this mount about nobody but the guest.
const VISIT: &str = r#"
    set -ex
    cd "$D"
    umask 077
    "$T" --cluster ../cluster mount mount >/dev/null
    cd mount/shared
    test "$(cat lent)" = root
    echo guest >> lent
    if cat kept; then exit 1; fi
    mkdir home
    setfacl -d -m u:1001:rwx,g::rx home
    echo x > home/file
    test "$(getfacl -cnE home/file | tr '\n' ' ')" = "user::rw- user:1001:rwx group::r-x mask::rw- other::---  "
    chmod 600 home/file
    getfacl -cn home/file | grep -q "mask::---"
    mkdir plain
    test "$(stat -c %a plain)" = 700
    if setfacl -b lent; then exit 1; fi
"#;

#[test]
fn lists_hold_on_a_mount_that_speaks_for_its_own_user_only() {
    let test = "lists_hold_on_a_mount_that_speaks_for_its_own_user_only";
    let programs = ["fusermount3", "setpriv", "setfacl", "getfacl"];
    if mount_support::have(test, &programs) {
        with_device_for_all(test, || visit(test));
    }
}

fn visit(test: &str) {
    let Some(mut sea) = mount_support::sea(test, 2) else {
        return;
    };
    let root = sea.mount(&[]);
    mount_support::shell(
        &root,
        "umask 022; mkdir shared; cd shared; setfacl -m u:65534:rwx .; umask 077
         echo root > lent; setfacl -m u:65534:rw lent; echo mine > kept; setfacl -m u:1001:r kept",
    );
    // Guests get in where they can read the key and reach the sockets.
    let cluster = sea.local.dir().to_owned();
    let home = cluster.parent().unwrap().to_owned();
    mount_support::shell(
        &home,
        "chmod 755 . cluster cluster/run; chmod 644 cluster/cluster.json cluster/cluster.key
         chmod 777 cluster/run/*",
    );
    let program = home.join("trireme");
    std::fs::copy(binary(), &program).unwrap();
    let own = sea.dir("own");
    std::fs::create_dir(own.join("mount")).unwrap();
    for dir in [own.clone(), own.join("mount")] {
        chown(&dir, Some(USER), Some(USER)).unwrap();
    }
    if !as_user(&program, &own, "test -x \"$T\" && test -w \"$D\"").success() {
        return support::skip(test, "temporary files are out of other users' reach");
    }
    let visited = as_user(&program, &own, VISIT).success();
    let _ = trireme_fuse::kernel::unmount(&own.join("mount"), true);
    assert!(visited);
    let shown = mount_support::shell(&root, "cat shared/lent; getfacl -cn shared/lent");
    assert!(shown.starts_with("root\nguest\n"), "{shown}");
    assert!(shown.contains("user:65534:rw-"), "{shown}");
    sea.check();
}
