//! Carries out scripts of system calls in a directory and writes down what each one gave, so that two
//! file systems can be compared word by word. Users are switched on the actor's own thread.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, XattrFlags,
};
use rustix::io::Errno;

use super::acl;
use super::handle::{self, Handle};

type Times = [(i64, u64); 3];

const CAPABILITY: &str = "security.capability";
/// `cap_net_raw=ep`, as the kernel stores it (revision 2).
const SOME_RIGHTS: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Runs `script` in `roots`, one step in each in turn; gives one line per step.
pub fn run(roots: &[PathBuf], script: &[String]) -> Vec<String> {
    let roots = roots.to_vec();
    let script = script.to_vec();
    std::thread::spawn(move || {
        // A umask of its own, so that a script can change it.
        // SAFETY: only this thread's view of umask and working directory is unshared; nobody counts on it
        // being shared.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) }.unwrap();
        let mut actor = Actor {
            roots,
            held: HashMap::new(),
            handles: HashMap::new(),
            marks: HashMap::new(),
            turn: 0,
        };
        let lines = script
            .iter()
            .map(|step| {
                actor.turn += 1;
                let mut result = actor.step(step);
                // A directory that another mount moved while somebody renames something here: the
                // kernel gives up instead of waiting. Found by a rename itself it is so each time; by
                // anything else, once no rename is under way, it is put in its new place.
                for _ in 0..100 {
                    if actor.roots.len() > 1 && matches!(result, Err(Errno::STALE)) {
                        for name in step.split(' ').skip(1) {
                            let _ = rustix::fs::lstat(actor.path(name));
                        }
                        std::thread::yield_now();
                        result = actor.step(step);
                    }
                }
                let answer = match result {
                    Ok(answer) => answer,
                    Err(errno) => format!("{errno:?}"),
                };
                format!("{step} -> {answer}")
            })
            .collect();
        Actor::become_user(0, 0, &[]);
        lines
    })
    .join()
    .unwrap()
}

struct Actor {
    roots: Vec<PathBuf>,
    held: HashMap<String, OwnedFd>,
    handles: HashMap<String, Handle>,
    marks: HashMap<String, Times>,
    turn: usize,
}

fn octal(text: &str) -> Mode {
    Mode::from_raw_mode(u32::from_str_radix(text, 8).unwrap())
}

fn flags(text: &str) -> OFlags {
    text.split(',').fold(OFlags::CLOEXEC, |all, word| {
        all | match word {
            "r" => OFlags::RDONLY,
            "w" => OFlags::WRONLY,
            "rw" => OFlags::RDWR,
            "creat" => OFlags::CREATE,
            "excl" => OFlags::EXCL,
            "trunc" => OFlags::TRUNC,
            "append" => OFlags::APPEND,
            "nofollow" => OFlags::NOFOLLOW,
            "dir" => OFlags::DIRECTORY,
            "nonblock" => OFlags::NONBLOCK,
            "tmpfile" => OFlags::TMPFILE,
            other => panic!("no flag {other}"),
        }
    })
}

fn done(result: rustix::io::Result<()>) -> Result<String, Errno> {
    result.map(|()| "ok".to_owned())
}

impl Actor {
    fn path(&self, name: &str) -> PathBuf {
        let root = &self.roots[self.turn % self.roots.len()];
        // LONG stands for a name of 256 bytes, MAX for the longest that there is.
        let name = name
            .replace("LONG", &"x".repeat(256))
            .replace("MAX", &"y".repeat(255));
        if name == "." {
            root.clone()
        } else {
            root.join(name)
        }
    }

    fn step(&mut self, step: &str) -> Result<String, Errno> {
        let words: Vec<&str> = step.split(' ').collect();
        let path = |index: usize| self.path(words[index]);
        let here = self.path(".");
        match words[0] {
            "as" => {
                let number = |index: usize| words[index].parse().unwrap();
                let groups: Vec<u32> = words[3..].iter().map(|w| w.parse().unwrap()).collect();
                Actor::become_user(number(1), number(2), &groups);
                Ok("ok".into())
            }
            "mkdir" => done(rustix::fs::mkdir(path(1), octal(words[2]))),
            "rmdir" => done(rustix::fs::rmdir(path(1))),
            "unlink" => done(rustix::fs::unlink(path(1))),
            "symlink" => done(rustix::fs::symlink(words[1], path(2))),
            "readlink" => Ok(rustix::fs::readlink(path(1), Vec::new())?
                .to_string_lossy()
                .into_owned()),
            "link" => done(rustix::fs::link(path(1), path(2))),
            "rename" => {
                let flags = words[3..].iter().fold(RenameFlags::empty(), |all, word| {
                    all | match *word {
                        "noreplace" => RenameFlags::NOREPLACE,
                        "exchange" => RenameFlags::EXCHANGE,
                        "whiteout" => RenameFlags::WHITEOUT,
                        other => panic!("no way to rename {other}"),
                    }
                });
                done(rustix::fs::renameat_with(CWD, path(1), CWD, path(2), flags))
            }
            "mknod" => {
                let (kind, number) = match words[2] {
                    "fifo" => (FileType::Fifo, 0),
                    "socket" => (FileType::Socket, 0),
                    "char" => (FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
                    "whiteout" => (FileType::CharacterDevice, 0),
                    "block" => (FileType::BlockDevice, rustix::fs::makedev(7, 200)),
                    _ => (FileType::RegularFile, 0),
                };
                done(rustix::fs::mknodat(
                    CWD,
                    path(1),
                    kind,
                    octal(words[3]),
                    number,
                ))
            }
            "open" => {
                let fd = rustix::fs::open(path(1), flags(words[2]), octal(words[3]))?;
                drop(fd);
                Ok("ok".into())
            }
            "put" => {
                let how = flags("w,creat,trunc,nonblock");
                let fd = rustix::fs::open(path(1), how, Mode::from_raw_mode(0o644))?;
                rustix::io::write(&fd, words[2].as_bytes()).map(|n| n.to_string())
            }
            "append" => {
                let fd = rustix::fs::open(path(1), flags("w,append,nonblock"), Mode::empty())?;
                rustix::io::write(&fd, words[2].as_bytes()).map(|n| n.to_string())
            }
            "get" => {
                let fd = rustix::fs::open(path(1), flags("r,nonblock"), Mode::empty())?;
                let mut bytes = vec![0; 4096];
                let got = rustix::io::read(&fd, &mut bytes[..])?;
                Ok(shown(&bytes[..got]))
            }
            "chmod" => done(rustix::fs::chmod(path(1), octal(words[2]))),
            "chown" | "lchown" => {
                let id = |word: &str| word.parse::<i64>().unwrap() as u32;
                let text = CString::new(path(1).as_os_str().as_bytes()).unwrap();
                let flag = if words[0] == "lchown" {
                    libc::AT_SYMLINK_NOFOLLOW
                } else {
                    0
                };
                // SAFETY: a plain call with a string that outlives it.
                let result = unsafe {
                    libc::fchownat(
                        libc::AT_FDCWD,
                        text.as_ptr(),
                        id(words[2]),
                        id(words[3]),
                        flag,
                    )
                };
                outcome(result)
            }
            "truncate" => {
                let text = CString::new(path(1).as_os_str().as_bytes()).unwrap();
                // SAFETY: as above.
                outcome(unsafe { libc::truncate(text.as_ptr(), words[2].parse().unwrap()) })
            }
            "utimens" => {
                let time = |word: &str| Timespec {
                    tv_sec: word.parse().unwrap_or(0),
                    tv_nsec: match word {
                        "now" => rustix::fs::UTIME_NOW,
                        "omit" => rustix::fs::UTIME_OMIT,
                        _ => 123_456_789,
                    },
                };
                let times = Timestamps {
                    last_access: time(words[2]),
                    last_modification: time(words[3]),
                };
                done(rustix::fs::utimensat(
                    CWD,
                    path(1),
                    &times,
                    AtFlags::SYMLINK_NOFOLLOW,
                ))
            }
            "stat" => Ok(describe(&rustix::fs::statat(
                CWD,
                path(1),
                AtFlags::SYMLINK_NOFOLLOW,
            )?)),
            "access" => {
                let mask = rustix::fs::Access::from_bits_retain(words[2].parse().unwrap());
                done(rustix::fs::accessat(CWD, path(1), mask, AtFlags::EACCESS))
            }
            "times" => {
                let stat = rustix::fs::statat(CWD, path(1), AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(format!("{} {}", stat.st_atime, stat.st_mtime))
            }
            "ls" => {
                let mut names: Vec<String> = std::fs::read_dir(path(1))
                    .and_then(|entries| {
                        entries
                            .map(|entry| {
                                let entry = entry?;
                                Ok(format!(
                                    "{} {:?}",
                                    entry.file_name().display(),
                                    entry.file_type()?
                                ))
                            })
                            .collect()
                    })
                    .map_err(|error: std::io::Error| {
                        Errno::from_raw_os_error(error.raw_os_error().unwrap_or(5))
                    })?;
                names.sort();
                Ok(names.join(" "))
            }
            "mark" => {
                let stat = rustix::fs::statat(CWD, path(1), AtFlags::SYMLINK_NOFOLLOW)?;
                self.marks.insert(words[1].to_owned(), times(&stat));
                // Later than the granularity of any clock involved.
                std::thread::sleep(std::time::Duration::from_millis(12));
                Ok("ok".into())
            }
            "since" => {
                let stat = rustix::fs::statat(CWD, path(1), AtFlags::SYMLINK_NOFOLLOW)?;
                let before = self.marks[words[1]];
                let names = ["a", "m", "c"]
                    .into_iter()
                    .zip(before.into_iter().zip(times(&stat)));
                Ok(names
                    .filter(|(_, (before, now))| before != now)
                    .map(|(name, _)| name)
                    .collect())
            }
            "hold" => {
                let fd = rustix::fs::open(path(2), flags(words[3]), Mode::from_raw_mode(0o644))?;
                self.held.insert(words[1].to_owned(), fd);
                Ok("ok".into())
            }
            "drop" => {
                self.held.remove(words[1]);
                Ok("ok".into())
            }
            "setxattr" => {
                let how = match words.get(4) {
                    Some(&"create") => XattrFlags::CREATE,
                    Some(&"replace") => XattrFlags::REPLACE,
                    Some(&"both") => XattrFlags::CREATE | XattrFlags::REPLACE,
                    _ => XattrFlags::empty(),
                };
                done(rustix::fs::lsetxattr(
                    path(1),
                    words[2],
                    words[3].as_bytes(),
                    how,
                ))
            }
            "getxattr" => {
                let mut bytes = vec![0; words.get(3).map_or(4096, |w| w.parse().unwrap())];
                let got = rustix::fs::lgetxattr(path(1), words[2], &mut bytes)?;
                Ok(format!("{got} {}", shown(&bytes[..got.min(bytes.len())])))
            }
            "listxattr" => {
                let mut bytes = vec![0; 4096];
                let got = rustix::fs::llistxattr(path(1), &mut bytes)?;
                let mut names: Vec<String> = bytes[..got]
                    .split(|byte| *byte == 0)
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    // What the host adds by itself (labels) is not ours to compare.
                    .filter(|name| !name.starts_with("security.selinux"))
                    .collect();
                names.sort();
                Ok(names.join(" "))
            }
            "setcap" => {
                let how = XattrFlags::empty();
                done(rustix::fs::lsetxattr(
                    path(1),
                    CAPABILITY,
                    &SOME_RIGHTS,
                    how,
                ))
            }
            "hascap" => {
                let got = rustix::fs::lgetxattr(path(1), CAPABILITY, &mut [0u8; 64])?;
                Ok(got.to_string())
            }
            "handle" => {
                let found = handle::of(&path(2))?;
                self.handles.insert(words[1].to_owned(), found);
                Ok("ok".into())
            }
            "byhandle" => {
                let fd = handle::open(&here, &self.handles[words[2]], flags(words[3]))?;
                self.held.insert(words[1].to_owned(), fd);
                Ok("ok".into())
            }
            "forget" => {
                // The kernel lets go of names and inodes that nobody uses.
                std::fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
                Ok("ok".into())
            }
            "blocks" => {
                let stat = rustix::fs::lstat(path(1))?;
                Ok(stat.st_blocks.to_string())
            }
            "delxattr" => done(rustix::fs::lremovexattr(path(1), words[2])),
            "setacl" => acl::set(&path(1), words[2], words[3]),
            "getacl" => acl::get(&path(1)),
            "delacl" => acl::remove(&path(1), words[2]),
            "umask" => {
                rustix::process::umask(octal(words[1]));
                Ok("ok".into())
            }
            _ => self.held_step(&words),
        }
    }

    fn held_step(&self, words: &[&str]) -> Result<String, Errno> {
        let fd = self.held.get(words[1]).ok_or(Errno::BADF)?;
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "write" => rustix::io::write(fd, words[2].as_bytes()).map(|n| n.to_string()),
            "pwrite" => {
                rustix::io::pwrite(fd, words[3].as_bytes(), number(2)).map(|n| n.to_string())
            }
            "pread" => {
                let mut bytes = vec![0; number(3) as usize];
                let got = rustix::io::pread(fd, &mut bytes[..], number(2))?;
                Ok(shown(&bytes[..got]))
            }
            "linkfd" => {
                // By the descriptor's name in /proc, as its manual page says: no privilege is needed.
                let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
                let follow = AtFlags::SYMLINK_FOLLOW;
                done(rustix::fs::linkat(
                    CWD,
                    from,
                    CWD,
                    self.path(words[2]),
                    follow,
                ))
            }
            "fstat" => Ok(describe(&rustix::fs::fstat(fd)?)),
            "peek" => Ok(describe(&rustix::fs::statat(
                fd,
                words[2],
                AtFlags::SYMLINK_NOFOLLOW,
            )?)),
            "ftruncate" => done(rustix::fs::ftruncate(fd, number(2))),
            "fchmod" => done(rustix::fs::fchmod(fd, octal(words[2]))),
            "fsync" => done(rustix::fs::fsync(fd)),
            "fallocate" => {
                let how = match words[2] {
                    "keep" => FallocateFlags::KEEP_SIZE,
                    "punch" => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    "zero" => FallocateFlags::ZERO_RANGE,
                    "zerokeep" => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                    _ => FallocateFlags::empty(),
                };
                done(rustix::fs::fallocate(fd, how, number(3), number(4)))
            }
            "seekdata" => rustix::fs::seek(fd, SeekFrom::Data(number(2))).map(|n| n.to_string()),
            "seekhole" => rustix::fs::seek(fd, SeekFrom::Hole(number(2))).map(|n| n.to_string()),
            "copy" => {
                let to = &self.held[words[2]];
                let (mut from_at, mut to_at) = (number(3), number(4));
                rustix::fs::copy_file_range(
                    fd,
                    Some(&mut from_at),
                    to,
                    Some(&mut to_at),
                    number(5) as usize,
                )
                .map(|n| n.to_string())
            }
            "flock" => {
                let how = match words[2] {
                    "ex" => rustix::fs::FlockOperation::NonBlockingLockExclusive,
                    "sh" => rustix::fs::FlockOperation::NonBlockingLockShared,
                    _ => rustix::fs::FlockOperation::Unlock,
                };
                done(rustix::fs::flock(fd, how))
            }
            other => panic!("no step {other}"),
        }
    }

    /// Effective user, group and groups of this thread only.
    fn become_user(uid: u32, gid: u32, groups: &[u32]) {
        let keep = u32::MAX;
        // SAFETY: raw calls, which change this thread alone; the list outlives its call. Root comes
        // back first, as only root may change.
        unsafe {
            libc::syscall(libc::SYS_setresuid, keep, 0, keep);
            libc::syscall(libc::SYS_setresgid, keep, gid, keep);
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
            libc::syscall(libc::SYS_setresuid, keep, uid, keep);
        }
    }
}

fn outcome(result: libc::c_int) -> Result<String, Errno> {
    if result == 0 {
        Ok("ok".into())
    } else {
        let error = std::io::Error::last_os_error();
        Err(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(5)))
    }
}

fn times(stat: &rustix::fs::Stat) -> Times {
    [
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    ]
}

fn describe(stat: &rustix::fs::Stat) -> String {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let mut text = format!(
        "{kind:?} {:o} links {} {}:{}",
        stat.st_mode & 0o7777,
        stat.st_nlink,
        stat.st_uid,
        stat.st_gid
    );
    if kind != FileType::Directory {
        let _ = write!(text, " size {}", stat.st_size);
    }
    if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
        let _ = write!(text, " device {}", stat.st_rdev);
    }
    text
}

/// Bytes as text; runs of zeros are counted.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut zeros = 0;
    for byte in bytes {
        if *byte == 0 {
            zeros += 1;
            continue;
        }
        if zeros > 0 {
            let _ = write!(text, "<{zeros}>");
            zeros = 0;
        }
        text.push(*byte as char);
    }
    if zeros > 0 {
        let _ = write!(text, "<{zeros}>");
    }
    text
}

/// The first step at which two runs differ, with what led to it.
pub fn compare(ours: &[String], theirs: &[String]) -> Result<(), String> {
    for (index, (our, their)) in ours.iter().zip(theirs).enumerate() {
        if our != their {
            let before = ours[index.saturating_sub(12)..index].join("\n  ");
            return Err(format!(
                "after\n  {before}\nthe mount says\n  {our}\nthe local file system\n  {their}"
            ));
        }
    }
    Ok(())
}

/// Nothing is masked out of the modes that scripts ask for.
pub fn no_umask() {
    rustix::process::umask(Mode::empty());
}
