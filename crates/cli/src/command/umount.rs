//! `trireme umount`: takes a mount away, also when its process or its cluster is gone.

use crate::context::Context;
use anyhow::Context as _;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Unmount a directory
///
/// Works also when the cluster is gone or the mount's process was killed.
#[derive(clap::Args)]
pub struct Args {
    /// Where the cluster is mounted
    dir: PathBuf,
    /// Also when programs use it: the name goes now, the rest when the last of them is done
    #[arg(long)]
    lazy: bool,
}

/// Unmounts.
pub fn run(_context: &Context, args: &Args) -> anyhow::Result<()> {
    let dir = mounted(&args.dir)?;
    match trireme_fuse::kernel::unmount(&dir, args.lazy) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => anyhow::bail!(
            "{} is in use: end the programs that use it (`fuser -vm {}` shows them), or use --lazy",
            dir.display(),
            dir.display()
        ),
        Err(error) => Err(error).with_context(|| format!("unmount {}", dir.display())),
    }
}

/// The real path of a directory on which trireme is mounted.
pub fn mounted(dir: &Path) -> anyhow::Result<PathBuf> {
    let dir = place(dir)?;
    anyhow::ensure!(
        is_ours(&dir)?,
        "{}: trireme is not mounted there",
        dir.display()
    );
    Ok(dir)
}

/// The directory's real path, without asking the mount itself, which may be dead.
fn place(dir: &Path) -> anyhow::Result<PathBuf> {
    let dir = std::path::absolute(dir)?;
    match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = parent
                .canonicalize()
                .with_context(|| parent.display().to_string())?;
            Ok(parent.join(name))
        }
        _ => Ok(dir),
    }
}

fn is_ours(dir: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    Ok(text.split(|byte| *byte == b'\n').any(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let kind = words
            .iter()
            .position(|word| *word == b"-")
            .and_then(|dash| words.get(dash + 1));
        words.len() > 5
            && kind.is_some_and(|kind| kind.starts_with(b"fuse.trireme"))
            && unescape(words[4]) == dir
    }))
}

/// Spaces and the like stand in the table as octal numbers.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, others)) = rest.split_first() {
        let number = (*first == b'\\')
            .then(|| others.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = number {
            bytes.push(byte);
            rest = &others[3..];
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn mount_points_with_spaces_are_found() {
        assert_eq!(unescape(br"/mnt/a\040b"), Path::new("/mnt/a b"));
        assert_eq!(unescape(b"/mnt").as_os_str().as_bytes(), b"/mnt");
    }
}
