//! The command line end to end: real processes, real sockets, nothing but the binary.

mod command_support;

use command_support::{Run, World};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::SystemTime;

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = vec![0; length];
    for byte in &mut bytes {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *byte = (state >> 56) as u8;
    }
    bytes
}

#[test]
fn a_tour_of_all_commands() {
    let world = World::up(3);
    let local = world.path("in");
    let content = pattern(1_000_003, 1);
    std::fs::write(&local, &content).unwrap();

    world.ok(["mkdir", "-p", "/a/b", "--unit", "4K"]);
    world.ok(["cp", local.to_str().unwrap(), "trireme:/a/b/f"]);
    assert_eq!(world.ok(["cat", "trireme:/a/b/f"]).stdout, content);
    let part = world.json(["cat", "/a/b/f"]);
    assert_eq!(
        (&part["name"], &part["length"]),
        (&"/a/b/f".into(), &1_000_003.into())
    );
    assert_eq!(
        part["base64"].as_str().unwrap().len(),
        1_000_003usize.div_ceil(3) * 4
    );
    let out = world.path("out");
    world.ok(["cp", "trireme:/a/b/f", out.to_str().unwrap()]);
    assert_eq!(std::fs::read(&out).unwrap(), content);

    let stat = world.json(["stat", "/a/b/f"]);
    assert_eq!(stat[0]["size"], 1_000_003);
    assert_eq!(
        stat[0]["layout"]["unit"], 4096,
        "inherited from the directory"
    );
    let list = world.json(["ls", "/a/b"]);
    assert_eq!(list[0]["path"], "/a/b/f");
    assert!(world.text(["ls", "-l", "/a/b"]).contains(" 1000003 "));
    assert_eq!(
        world.text(["ls", "-R", "/"]),
        "/:\na\n\n/a:\nb\n\n/a/b:\nf\n"
    );

    let places = world.json(["where", "/a/b/f"]);
    let servers = places["servers"].as_array().unwrap();
    let total: u64 = servers.iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
    assert_eq!((servers.len(), total), (3, 1_000_003));
    assert!(world.text(["where", "/a/b/f"]).contains("server   0 "));

    let status = world.json(["status"]);
    assert_eq!(status["servers"].as_array().unwrap().len(), 3);
    assert_eq!(world.json(["df"])["servers"].as_array().unwrap().len(), 3);
    assert_eq!(world.json(["sync", "/a"])["synced"], 1);

    world.ok(["mv", "/a/b/f", "/a/g"]);
    world.ok(["cp", "trireme:/a/g", "trireme:/a/h"]);
    world.ok(["mv", "--exchange", "/a/g", "/a/h"]);
    let refused = world.run(["mv", "-n", "/a/g", "/a/h"]);
    assert!(
        !refused.success && refused.stderr.contains("exists already"),
        "{refused:?}"
    );
    assert_eq!(
        world.ok(["cat", "/a/g", "/a/h"]).stdout.len(),
        2 * content.len()
    );

    let refused = world.run(["rm", "/a"]);
    assert!(
        !refused.success && refused.stderr.contains("with -r"),
        "{refused:?}"
    );
    assert_eq!(world.json(["rm", "-r", "/a"])["removed"], 4);
    assert_eq!(world.text(["ls"]), "");
    let fsck = world.json(["fsck", "--repair"]);
    assert_eq!(
        (&fsck["inodes"], &fsck["subfiles"]),
        (&Value::from(1), &Value::from(0)),
        "{fsck}"
    );

    assert!(world.text(["completions", "bash"]).contains("_trireme"));
    assert!(world.text(["man"]).contains(".TH trireme 1"));
    world.ok(["man", "--dir", world.path("man").to_str().unwrap()]);
    assert!(world.path("man/trireme-cp.1").exists());
}

#[test]
fn trees_go_in_and_out_unchanged() {
    let world = World::up(2);
    let tree = world.path("tree");
    std::fs::create_dir_all(tree.join("sub/empty")).unwrap();
    for number in 0..40 {
        let path = tree.join(format!("sub/file {number}"));
        std::fs::write(&path, pattern(number * 777, number as u64)).unwrap();
    }
    std::fs::write(tree.join("script"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(tree.join("script"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("sub/file 7", tree.join("link")).unwrap();
    symlink("/nowhere", tree.join("broken")).unwrap();
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"not-utf8-\xff");
    std::fs::write(tree.join::<&std::ffi::OsStr>(name), "odd").unwrap();

    let first = world.json(["cp", "-r", tree.to_str().unwrap(), "trireme:/tree"]);
    assert_eq!(
        (&first["files"], &first["failed"]),
        (&Value::from(42), &Value::from(0))
    );
    let again = world.json(["cp", "-r", tree.to_str().unwrap(), "trireme:/"]);
    assert_eq!(
        (&again["files"], &again["skipped"]),
        (&Value::from(0), &Value::from(42))
    );
    let back = world.path("back");
    world.ok(["cp", "-r", "trireme:/tree", back.to_str().unwrap()]);
    assert_eq!(describe(&back), describe(&tree));
    // Within the cluster, and not into itself.
    world.ok(["cp", "-r", "trireme:/tree", "trireme:/copy"]);
    let refused = world.run(["cp", "-r", "trireme:/tree", "trireme:/tree/inner"]);
    assert!(
        !refused.success && refused.stderr.contains("into itself"),
        "{refused:?}"
    );
}

// Debug formatting: names need not be UTF-8.
#[allow(clippy::unnecessary_debug_formatting)]
/// Everything in a tree: names, kinds, modes, times, contents.
fn describe(root: &Path) -> Vec<String> {
    fn walk(root: &Path, path: &Path, lines: &mut Vec<String>) {
        let metadata = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap();
        let modified = metadata
            .modified()
            .unwrap()
            .duration_since(SystemTime::UNIX_EPOCH);
        if metadata.is_symlink() {
            lines.push(format!("{name:?} -> {:?}", path.read_link().unwrap()));
        } else if metadata.is_dir() {
            let mode = metadata.permissions().mode();
            lines.push(format!("{name:?}/ {mode:o} {modified:?}"));
            for entry in path.read_dir().unwrap() {
                walk(root, &entry.unwrap().path(), lines);
            }
        } else {
            let mode = metadata.permissions().mode();
            let sum: u64 = std::fs::read(path)
                .unwrap()
                .iter()
                .map(|b| u64::from(*b))
                .sum();
            lines.push(format!(
                "{name:?} {mode:o} {modified:?} {} {sum}",
                metadata.len()
            ));
        }
    }
    let mut lines = Vec::new();
    walk(root, root, &mut lines);
    lines.sort();
    lines
}

#[test]
fn an_interrupted_copy_goes_on_where_it_stopped() {
    let world = World::up(2);
    let source = world.path("big");
    let content = pattern(40 << 20, 5);
    std::fs::write(&source, &content).unwrap();
    let modified = source.metadata().unwrap().modified().unwrap();
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    // What an interrupted copy leaves: the beginning, under the part's name.
    let part = format!(
        ".big.{:x}-{:x}.{:x}.part",
        since.as_secs(),
        since.subsec_nanos(),
        content.len()
    );
    let begun = world.path("begun");
    std::fs::write(&begun, &content[..25 << 20]).unwrap();
    world.ok(["cp", begun.to_str().unwrap(), &format!("trireme:/{part}")]);
    let copied = world.json(["cp", source.to_str().unwrap(), "trireme:/big"]);
    assert_eq!(copied["resumed"], 1, "{copied}");
    assert_eq!(
        copied["bytes"],
        24 << 20,
        "only what was missing, and the chunk in doubt"
    );
    assert_eq!(world.ok(["cat", "/big"]).stdout, content);
    assert_eq!(world.text(["ls", "/"]), "big\n", "no part is left");
    // And out again, with the part on this side.
    let target = world.path("out");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join(&part), &content[..17 << 20]).unwrap();
    let copied = world.json(["cp", "trireme:/big", target.to_str().unwrap()]);
    assert_eq!(copied["resumed"], 1, "{copied}");
    assert_eq!(std::fs::read(target.join("big")).unwrap(), content);
}

#[test]
fn the_same_directory_brings_the_same_data_back_and_ctrl_c_stops_everything() {
    let world = World::up(2);
    std::fs::write(world.path("f"), "still here").unwrap();
    world.ok(["cp", world.path("f").to_str().unwrap(), "trireme:/f"]);
    world.ok(["down"]);
    let refused = world.run(["ls"]);
    assert!(
        !refused.success && refused.stderr.contains("trireme up"),
        "{refused:?}"
    );
    // In the foreground this time.
    let mut up = world
        .command(["up", "--dir", world.cluster().to_str().unwrap()])
        .spawn()
        .unwrap();
    world.wait_until("the cluster answers", || world.run(["status"]).success);
    assert_eq!(world.ok(["cat", "/f"]).stdout, b"still here");
    let second = world.run(["up", "--dir", world.cluster().to_str().unwrap()]);
    assert!(
        !second.success && second.stderr.contains("already runs"),
        "{second:?}"
    );
    let pid = rustix::process::Pid::from_child(&up);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(up.wait().unwrap().success());
    assert!(!world.run(["status"]).success);
}

#[test]
fn errors_name_the_thing_the_reason_and_the_remedy() {
    let world = World::new();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["ls"], &["no cluster found", "trireme up", "--cluster"]),
        (
            &["--cluster", "unix:/nowhere/sock", "--timeout", "1", "ls"],
            &["unix:/nowhere/sock"],
        ),
        (&["cat", "relative"], &["relative", "trireme:/relative"]),
        (&["cp", "a", "b"], &["no name is on the cluster"]),
        (&["down", "--dir", "/nowhere"], &["/nowhere"]),
    ];
    for (arguments, words) in cases {
        let run = world.run(arguments.iter().copied());
        assert!(!run.success, "{arguments:?}");
        for word in words {
            assert!(
                run.stderr.contains(word),
                "{arguments:?} says: {}",
                run.stderr
            );
        }
    }
}

#[test]
fn fsck_finishes_what_a_crash_interrupted_and_touches_nothing_alive() {
    let world = World::up(2);
    let content = pattern(300_000, 9);
    std::fs::write(world.path("f"), &content).unwrap();
    let source = world.path("f");
    world.ok(["cp", source.to_str().unwrap(), "trireme:/keep"]);
    world.ok(["cp", source.to_str().unwrap(), "trireme:/drop"]);
    // A server is down while a file is unlinked: its subfile stays, on the durable list.
    world.signal("io1", rustix::process::Signal::STOP);
    world.ok(["rm", "/drop"]);
    let run = world.run(["--timeout", "2", "fsck", "--repair"]);
    assert!(!run.success, "{run:?}");
    // The manager dies before it could do anything about it, and everything comes back.
    world.signal("meta", rustix::process::Signal::KILL);
    world.signal("io1", rustix::process::Signal::CONT);
    world.ok(["down", "--dir", world.cluster().to_str().unwrap()]);
    world.ok(["up", "--detach", "--dir", world.cluster().to_str().unwrap()]);
    world.wait_until("nothing is left to remove", || {
        let fsck = world.run(["fsck", "--repair", "--json"]);
        fsck.success && fsck.json()["subfiles"] == 2
    });
    assert_eq!(world.ok(["cat", "/keep"]).stdout, content);
}

/// An I/O server that cannot be listed proves nothing about its files.
#[test]
fn a_listing_error_never_leads_to_a_removal() {
    let world = World::up(2);
    let content = pattern(300_000, 10);
    std::fs::write(world.path("f"), &content).unwrap();
    world.ok(["cp", world.path("f").to_str().unwrap(), "trireme:/f"]);
    world.signal("io0", rustix::process::Signal::STOP);
    let run = world.run(["--timeout", "2", "fsck", "--repair", "--json"]);
    world.signal("io0", rustix::process::Signal::CONT);
    assert!(
        !run.success,
        "a check that could not look everywhere must not say that all is well"
    );
    let report = run.json();
    assert_eq!(report["strays_removed"], 0, "{report}");
    assert_eq!(
        report["not_checked"].as_array().unwrap().len(),
        1,
        "{report}"
    );
    assert_eq!(world.ok(["cat", "/f"]).stdout, content);
    assert!(world.run(["fsck"]).success);
}

/// A client that slept through its lease writes to a file that was removed meanwhile.
#[test]
fn a_stray_is_found_by_fsck_and_removed_only_with_repair() {
    let world = World::up(2);
    let descriptor = trireme::Descriptor::named(world.cluster().to_str().unwrap()).unwrap();
    let sleeper = trireme::Cluster::connect(&descriptor, trireme::Options::default()).unwrap();
    let file = sleeper.create("/f").unwrap();
    file.write_at(&pattern(300_000, 11), 0).unwrap();
    world.ok(["rm", "/f"]);
    // A manager that restarted does not know the sleeper until its next heartbeat.
    world.restart_manager();
    world.wait_until("the file is removed", || {
        let fsck = world.run(["fsck", "--repair", "--json"]);
        fsck.success && fsck.json()["subfiles"] == 0
    });
    file.write_at(b"from the grave", 0).unwrap();
    let dry: Run = world.run(["fsck", "--json"]);
    assert!(!dry.success);
    assert_eq!(
        dry.json()["strays"].as_array().unwrap().len(),
        1,
        "{:?}",
        dry.json()
    );
    let again = world.run(["fsck", "--json"]);
    assert_eq!(
        again.json()["strays"].as_array().unwrap().len(),
        1,
        "a dry run removed something"
    );
    let mended = world.json(["fsck", "--repair"]);
    assert_eq!(mended["strays_removed"], 1, "{mended}");
    assert_eq!(world.json(["fsck"])["subfiles"], 0);
}

#[test]
fn the_help_of_each_command_is_its_own() {
    let binary = env!("CARGO_BIN_EXE_trireme");
    let help = |arguments: &[&str]| {
        let output = std::process::Command::new(binary)
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut seen = std::collections::BTreeSet::new();
    for command in [
        "up", "down", "status", "ls", "cp", "cat", "rm", "mv", "mkdir", "stat", "where", "df",
        "sync", "fsck", "bench", "mpi-run",
    ] {
        let text = help(&[command, "--help"]);
        let first = text.lines().next().unwrap_or_default().to_owned();
        assert!(
            !first.is_empty() && !first.starts_with("Usage"),
            "{command}: {text}"
        );
        assert!(
            seen.insert(first.clone()),
            "{command} has another command's help: {first}"
        );
    }
}
