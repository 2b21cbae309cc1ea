//! Programs that people run, on a real mount: fio, stress-ng, git, SQLite, a compiler, tar, rsync.

mod mount_support;
mod support;

use mount_support::{have, sea, shell};

#[test]
fn fio_verifies_what_it_wrote() {
    let test = "fio_verifies_what_it_wrote";
    if !have(test, &["fio"]) {
        return;
    }
    let Some(mut sea) = sea(test, 4) else { return };
    let place = sea.mount(&[]);
    for (rw, engine, extra) in [
        ("randrw", "psync", "--bs=4k-256k --numjobs=2"),
        ("randwrite", "mmap", "--bs=4k"),
        ("randwrite", "libaio", "--bs=64k --direct=1 --iodepth=8"),
        ("write", "psync", "--bs=1000 --fsync=500"),
    ] {
        shell(
            &place,
            &format!(
                "fio --name=job --size=8m --rw={rw} --ioengine={engine} {extra} --verify=crc32c \
                 --verify_fatal=1 --group_reporting && rm -f job.*"
            ),
        );
    }
    sea.check();
}

#[test]
fn stress_ng_finds_nothing() {
    let test = "stress_ng_finds_nothing";
    if !have(test, &["stress-ng"]) {
        return;
    }
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.mount(&[]);
    for stressor in [
        "access",
        "chdir",
        "chmod",
        "chown",
        "copy-file",
        "dentry",
        "dir",
        "dirdeep",
        "fallocate",
        "fcntl",
        "filename",
        "flock",
        "fpunch",
        "fstat",
        "getdent",
        "hdd",
        "lease",
        "link",
        "locka",
        "lockf",
        "lockofd",
        "mknod",
        "open",
        "rename",
        "seek",
        "symlink",
        "touch",
        "utime",
        "xattr",
    ] {
        // Bounded by time as well: some have no count that means the same everywhere.
        let output = std::process::Command::new("timeout")
            .args(["60", "stress-ng", "--temp-path"])
            .arg(&place)
            .args([&format!("--{stressor}"), "1", "--timeout", "1", "--verify"])
            .args(["--hdd-bytes", "4M", "--fallocate-bytes", "4M"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        // 3 and 4: this build of stress-ng has no such stressor, or not on this file system.
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 3 | 4)),
            "{stressor}: {code:?}\n{text}"
        );
    }
    sea.check();
}

#[test]
fn git_clones_collects_and_checks() {
    let test = "git_clones_collects_and_checks";
    if !have(test, &["git"]) {
        return;
    }
    let Some(mut sea) = sea(test, 3) else { return };
    let place = sea.mount(&[]);
    let local = sea.local_dir("local");
    let who = "git -c user.name=t -c user.email=t@localhost";
    shell(
        &local,
        &format!(
            "git init -q repo && cd repo && for i in $(seq 120); do mkdir -p d$((i % 7)); \
             seq $((i * 20)) > d$((i % 7))/f$i; done && git add . && {who} commit -qm one && \
             for i in 1 2 3; do echo $i >> d1/f1; {who} commit -qam more; done"
        ),
    );
    let source = local.join("repo");
    shell(
        &place,
        &format!(
            "git clone -q --no-hardlinks {source} a && cd a && git fsck --full --strict && \
             test -z \"$(git status --porcelain)\" && git checkout -qb side HEAD~2 && \
             echo x > new && git add new && {who} commit -qm side && {who} merge -q -m m origin/HEAD && \
             git gc -q --prune=now && git fsck --full --strict && {who} rebase -q HEAD~1 && \
             cd .. && git clone -q a b && diff -r --exclude=.git a b && git -C b log --oneline | wc -l",
            source = source.display()
        ),
    );
    sea.check();
}

#[test]
fn sqlite_keeps_its_promises_under_concurrent_writers() {
    let test = "sqlite_keeps_its_promises_under_concurrent_writers";
    if !have(test, &["sqlite3"]) {
        return;
    }
    let Some(mut sea) = sea(test, 3) else { return };
    let (a, b) = (sea.mount(&[]), sea.mount(&[]));
    // The shared memory of WAL is for one host's kernel: all writers on one mount, as on a local disk.
    // A rollback journal needs locks and bytes only: writers on both mounts.
    for (mode, places) in [("wal", [&a, &a, &a]), ("delete", [&a, &b, &a])] {
        let base = format!("{mode}.db");
        shell(
            &a,
            &format!(
                "sqlite3 {base} 'pragma journal_mode={mode}; create table t(writer, number, filler);'"
            ),
        );
        std::thread::scope(|scope| {
            for (writer, place) in places.into_iter().enumerate() {
                let base = &base;
                scope.spawn(move || {
                    shell(
                        place,
                        &format!(
                            "for n in $(seq 12); do sqlite3 -cmd '.timeout 60000' {base} \
                             \"begin immediate; insert into t values({writer}, $n, hex(zeroblob(3000))); \
                             insert into t values({writer}, -$n, 'second'); commit;\"; done"
                        ),
                    );
                });
            }
        });
        for place in [&a, &b] {
            let said = shell(
                place,
                &format!(
                    "sqlite3 {base} 'pragma integrity_check; select count(*), sum(number) from t;'"
                ),
            );
            assert_eq!(said, "ok\n72|0\n", "{mode}");
        }
    }
    sea.check();
}

#[test]
fn a_c_project_is_built_on_it() {
    let test = "a_c_project_is_built_on_it";
    if !have(test, &["cc", "make"]) {
        return;
    }
    let Some(mut sea) = sea(test, 3) else { return };
    let place = sea.mount(&[]);
    shell(
        &place,
        r#"
        mkdir p && cd p
        for i in $(seq 12); do printf '#include "all.h"\nint f%d(void) { return %d; }\n' $i $i > f$i.c; done
        { echo '#include <stdio.h>'; for i in $(seq 12); do echo "int f$i(void);"; done; } > all.h
        { echo '#include "all.h"'; echo 'int main(void) { int s = 0;'; for i in $(seq 12); do echo "s += f$i();"; done; echo 'printf("%d\n", s); return 0; }'; } > main.c
        printf 'O = $(patsubst %%.c,%%.o,$(wildcard *.c))\nlib.a: $(filter-out main.o,$O)\n\tar rcs $@ $^\nprog: main.o lib.a\n\tcc -o $@ main.o lib.a\n%%.o: %%.c all.h\n\tcc -c -o $@ $<\n' > Makefile
        make -j4 prog && test "$(./prog)" = 78
        make prog | grep -q 'up to date'
        sleep 0.02; echo 'int f1(void) { return 101; }' > f1.c && make prog && test "$(./prog)" = 178
        "#,
    );
    sea.check();
}

#[test]
fn tar_and_rsync_bring_the_same_tree_back() {
    let test = "tar_and_rsync_bring_the_same_tree_back";
    if !have(test, &["tar", "rsync"]) {
        return;
    }
    let Some(mut sea) = sea(test, 3) else { return };
    let place = sea.mount(&[]);
    let local = sea.local_dir("local");
    shell(
        &local,
        r"
        mkdir -p t/a/b t/empty && cd t
        for i in $(seq 60); do head -c $((i * 3333)) /dev/urandom > a/f$i; done
        ln -s a/f1 link; ln -s nowhere dangling; ln a/f2 a/b/hard; mkfifo pipe; chmod 4750 a/f3; chmod 1777 empty
        touch -d '2001-02-03 04:05:06.789' a/f4; truncate -s 3M a/sparse; echo x >> a/sparse
        chmod 444 a/f5; touch 'name with spaces' $'new\nline'
        ",
    );
    let tree = local.display();
    shell(
        &place,
        &format!(
            "tar cf in.tar -C {tree} t && mkdir x && tar xpf in.tar -C x && \
             rsync -aHcni --delete {tree}/t/ x/t/ > diff && cat diff && test ! -s diff && \
             rsync -aHS {tree}/t/ y/ && rsync -aHcni --delete {tree}/t/ y/ > diff && cat diff && test ! -s diff && \
             tar cf {tree}/out.tar --sort=name -C x t && mkdir {tree}/back && tar xpf {tree}/out.tar -C {tree}/back && \
             rsync -aHcni --delete {tree}/t/ {tree}/back/t/ > diff && cat diff && test ! -s diff"
        ),
    );
    sea.check();
}
