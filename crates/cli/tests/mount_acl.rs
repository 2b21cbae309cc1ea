//! Access control lists with the programs that people use for them, and through the library: what is set
//! on one side is in force on the other.

mod mount_support;
mod support;

use mount_support::{binary, have, sea, shell};
use std::process::Command;
use trireme_proto::message::meta::XattrMode;

/// All lists below a directory, in one order.
const ALL: &str = "all() { find $1 ! -type l | LC_ALL=C sort | getfacl -n -; }\n";

/// Each is run in an empty directory here and there, and must print the same.
const WORK: &[&str] = &[
    // Setting, changing, taking away.
    "umask 022; echo x > f; setfacl -m u:1001:rw,g:1002:r f; getfacl -n f; ls -l f | cut -c1-11
     setfacl -m m::r f; getfacl -n f; setfacl -x u:1001 f; getfacl -n f; chmod g+w f; getfacl -n f
     setfacl -n -m u:1003:rwx f; getfacl -n f; setfacl -b f; getfacl -n f; ls -l f | cut -c1-11
     setfacl --set u::rwx,g::x,o::- f; getfacl -n f; stat -c %a f",
    // Default lists and what comes of them.
    "umask 077; mkdir d; setfacl -d -m u:1001:rwx,g::rx,o::r d; getfacl -n d; mkdir d/e; touch d/e/f d/g
     all d; ls -ld d d/e d/e/f | cut -c1-11; setfacl -k d/e; mkdir d/e/h; getfacl -n d/e d/e/h
     setfacl -R -m g:1002:rX d; all d; setfacl -Rb d; all d",
    // Round trips.
    "mkdir d; echo x > d/f; ln -s f d/l; setfacl -m u:1001:rwx,m::rx d d/f; setfacl -d -m g:1002:rx d
     all d > before
     cp -a d copy; rsync -aA d/ synced; tar --acls -cf d.tar d; mkdir untarred; tar --acls -xf d.tar -C untarred
     for place in copy synced untarred/d; do (cd $place; all .); done
     all d > list; setfacl -Rb d; setfacl --restore=list; all d
     all d | cmp - before; getfacl -n d/f | setfacl --set-file=- copy/f; getfacl -n copy/f",
    // What is refused, and how.
    "echo x > f; ln -s f l; setfacl -d -m u:1:r f 2>&1 || echo $?; setfacl -m u:1:r none 2>&1 || echo $?
     setfacl -P -m u:1:r l; getfacl -n f; setfacl -m u:1:q f 2>&1 || echo $?",
];

#[test]
fn setfacl_and_getfacl_do_what_they_do_locally() {
    let test = "setfacl_and_getfacl_do_what_they_do_locally";
    if !have(test, &["setfacl", "getfacl", "rsync", "tar"]) {
        return;
    }
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.mount(&[]);
    let local = sea.local_dir("local");
    for (number, work) in WORK.iter().enumerate() {
        let [ours, theirs] = [&place, &local].map(|root| {
            let dir = root.join(format!("work{number}"));
            std::fs::create_dir(&dir).unwrap();
            shell(&dir, &format!("{ALL}{work}"))
        });
        assert!(theirs.contains("user:"), "{theirs}");
        assert_eq!(ours, theirs, "{work}");
    }
    sea.check();
}

#[test]
fn what_the_library_and_the_command_line_make_inherits_default_lists() {
    let test = "what_the_library_and_the_command_line_make_inherits_default_lists";
    if !have(test, &["setfacl", "getfacl"]) {
        return;
    }
    let Some(mut sea) = sea(test, 2) else { return };
    let place = sea.mount(&["--no-cache"]);
    let client = sea.client();
    let names = client.namespace();
    shell(
        &place,
        "umask 022; mkdir d; setfacl -d -m u:1001:rwx,g::rwx d",
    );
    drop(client.create("/d/made").unwrap());
    names.mkdir("/d/sub", 0o770).unwrap();
    let made = Command::new(binary())
        .arg("--cluster")
        .arg(sea.local.dir())
        .args(["mkdir", "/d/command"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let shown = shell(&place, "getfacl -cnE d/made d/command; stat -c %a d/sub");
    let lists = "user::rw-\nuser:1001:rwx\ngroup::rwx\n\
                 mask::rw-\nother::r--\n\n\
                 user::rwx\nuser:1001:rwx\ngroup::rwx\nmask::rwx\nother::r-x\n\
                 default:user::rwx\ndefault:user:1001:rwx\ndefault:group::rwx\ndefault:mask::rwx\n\
                 default:other::r-x\n\n770\n";
    assert_eq!(shown, lists);
    // Without a default list the library's modes are what they were.
    drop(client.create("/plain").unwrap());
    assert_eq!(names.stat("/plain").unwrap().attr.mode, 0o644);
    // And what the library sets is what the mount shows.
    let list = names
        .get_xattr("/d/made", "system.posix_acl_access")
        .unwrap();
    names
        .set_xattr("/plain", "system.posix_acl_access", &list, XattrMode::Set)
        .unwrap();
    let shown = shell(
        &place,
        "diff <(getfacl -cn plain) <(getfacl -cn d/made); stat -c %a plain",
    );
    assert_eq!(shown, "664\n");
    sea.check();
}
