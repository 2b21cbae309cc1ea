//! Steps of scripts on a directory that is held open, also when it has been removed.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

fn done<T>(result: rustix::io::Result<T>) -> Result<String, Errno> {
    result.map(|_| "ok".to_owned())
}

pub fn step(fd: &OwnedFd, other: &OwnedFd, words: &[&str]) -> Result<String, Errno> {
    let number = |index: usize| words[index].parse::<u32>().unwrap();
    match words[0] {
        "fchown" => {
            let (uid, gid) = (Uid::from_raw(number(2)), Gid::from_raw(number(3)));
            done(rustix::fs::fchown(fd, Some(uid), Some(gid)))
        }
        "futimens" => {
            let time = |word: &str| Timespec {
                tv_sec: word.parse().unwrap(),
                tv_nsec: 5,
            };
            let times = Timestamps {
                last_access: time(words[2]),
                last_modification: time(words[3]),
            };
            done(rustix::fs::futimens(fd, &times))
        }
        "ftimes" => {
            let stat = rustix::fs::fstat(fd)?;
            Ok(format!("{} {}", stat.st_atime, stat.st_mtime))
        }
        "fsetxattr" => {
            let how = match words.get(4) {
                Some(&"create") => XattrFlags::CREATE,
                Some(&"replace") => XattrFlags::REPLACE,
                Some(&"both") => XattrFlags::CREATE | XattrFlags::REPLACE,
                _ => XattrFlags::empty(),
            };
            done(rustix::fs::fsetxattr(
                fd,
                words[2],
                words[3].as_bytes(),
                how,
            ))
        }
        "fgetxattr" => {
            let mut bytes = [0; 4096];
            let got = rustix::fs::fgetxattr(fd, words[2], &mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes[..got]).into_owned())
        }
        "flistxattr" => {
            let mut bytes = [0; 4096];
            let got = rustix::fs::flistxattr(fd, &mut bytes)?;
            let names = String::from_utf8_lossy(&bytes[..got]).into_owned();
            let names = names.split('\0');
            // What the host adds by itself (labels) is not ours to compare.
            let mut names: Vec<_> = names.filter(|name| !name.contains("selinux")).collect();
            names.sort_unstable();
            Ok(names.join(" "))
        }
        "fdelxattr" => done(rustix::fs::fremovexattr(fd, words[2])),
        "fls" => {
            let mut names: Vec<String> = rustix::fs::Dir::read_from(fd)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<Result<_, Errno>>()?;
            names.sort();
            Ok(names.join(" "))
        }
        "within" => {
            let (name, mode) = (words[3], Mode::from_raw_mode(0o755));
            match words[2] {
                "create" => {
                    let flags = OFlags::CREATE | OFlags::WRONLY;
                    done(rustix::fs::openat(fd, name, flags, mode))
                }
                "tmpfile" => {
                    let flags = OFlags::TMPFILE | OFlags::WRONLY;
                    done(rustix::fs::openat(fd, name, flags, mode))
                }
                "open" => done(rustix::fs::openat(fd, name, OFlags::RDONLY, mode)),
                "mkdir" => done(rustix::fs::mkdirat(fd, name, mode)),
                "symlink" => done(rustix::fs::symlinkat("x", fd, name)),
                "link" => done(rustix::fs::linkat(
                    other,
                    words[4],
                    fd,
                    name,
                    AtFlags::empty(),
                )),
                "rename" => done(rustix::fs::renameat(other, words[4], fd, name)),
                other => panic!("no step {other} within a directory"),
            }
        }
        other => panic!("no step {other}"),
    }
}
