//! mount(8) as everybody uses it: by type, by a line of fstab, by the helper's name, and remounting.

mod mount_support;
mod support;

use mount_support::{binary, have, sea, shell};

/// Begins with `$binary`, `$cluster` and a directory `$there`, in a mount namespace of its own: mount(8) looks
/// for programs in the usual places only, and nobody else's may be there.
const BEGIN: &str = r#"
    trap 'echo "failed: $BASH_COMMAND" >&2' ERR
    trap 'umount -l "$there" 2> /dev/null || true' EXIT
    mount -t tmpfs none /usr/local/sbin
    ln -s "$binary" /usr/local/sbin/trireme
    refused() { if "$@" 2> refusal; then echo "not refused: $*" >&2; exit 1; fi; }
    options() { awk -v there="$there" '$5 == there { print "," $6 "," $NF "," }' /proc/self/mountinfo; }
"#;

fn run(test: &str, script: &str) {
    if !rustix::process::geteuid().is_root() {
        support::skip(test, "not root: mount(8) and namespaces need it");
        return;
    }
    if !have(test, &["mount", "/sbin/mount.fuse3", "unshare", "awk"]) {
        return;
    }
    let Some(sea) = sea(test, 2) else { return };
    let (here, there) = (sea.dir("here"), sea.dir("there"));
    let places = format!(
        "export binary='{}' cluster='{}' there='{}'",
        binary(),
        sea.local.dir().display(),
        there.display()
    );
    std::fs::write(here.join("script"), format!("{BEGIN}\n{script}")).unwrap();
    let namespace = "unshare --mount --propagation private bash -euo pipefail script";
    shell(&here, &format!("{places}; {namespace}"));
    sea.check();
}

#[test]
fn mounting_by_type_and_remounting() {
    run(
        "mounting_by_type_and_remounting",
        r#"
        mount -t fuse.trireme "$cluster" "$there" -o noexec,cache=0.5,timeout=20
        options | grep -q ,noexec,
        echo one > "$there/f"
        mount -o remount,ro "$there"
        options | grep -q ,ro,
        refused touch "$there/f"; grep -qi read-only refusal
        grep -qx one "$there/f"
        mount -o remount,rw "$there"
        options | grep ,rw, | grep -q ,noexec,
        echo two > "$there/f"
        mount -o remount,exec,nosuid "$there"
        options | grep -q ,nosuid,
        refused eval 'options | grep -q ,noexec,'
        umount "$there"
        refused mount -o remount,ro "$there"
        refused mount -t fuse.trireme "$cluster" "$there" -o ro,strange; grep -q strange refusal
        refused mount -t fuse.trireme /no/cluster "$there"; grep -q /no/cluster refusal
        test -z "$(options)"
        "#,
    );
}

#[test]
fn mounting_by_fstab_and_by_the_helpers_name() {
    run(
        "mounting_by_fstab_and_by_the_helpers_name",
        r#"
        echo "$cluster $there fuse.trireme defaults,noauto,_netdev,nofail,user,ro,noatime,x-a=b 0 0" > fstab
        mount -T fstab "$there"
        options | grep -q ,ro,
        refused touch "$there/f"
        umount "$there"

        ln -s "$binary" mount.trireme
        ./mount.trireme "$cluster" "$there" -n -o rw,nodev
        options | grep -q ,nodev,
        echo one > "$there/f"
        umount "$there"
        TRIREME_CLUSTER="$cluster" ./mount.trireme default "$there" -r
        grep -qx one "$there/f"
        refused touch "$there/f"
        umount "$there"
        ./mount.trireme "$cluster" "$there" -f
        test -z "$(options)"
        "#,
    );
}
