//! What a copy consists of: directories made first, then files, links at once, times last.

use super::end::{Info, Kind, World};
use crate::name::Name;
use std::ffi::OsStr;
use trireme_proto::message::meta::Time;

/// One file to copy.
pub struct Job {
    pub from: Name,
    pub to: Name,
    pub size: u64,
    pub mode: u32,
    pub mtime: Time,
}

/// Everything to copy.
#[derive(Default)]
pub struct Plan {
    pub files: Vec<Job>,
    pub bytes: u64,
    pub directories: u64,
    // Times of directories are set when nothing is put into them any more.
    stamps: Vec<(Name, Info)>,
}

/// Looks at the sources, makes directories and symbolic links.
pub fn make(
    world: &World,
    sources: &[Name],
    target: &Name,
    recursive: bool,
) -> anyhow::Result<Plan> {
    let into = world
        .info(target, true)?
        .is_some_and(|info| info.kind == Kind::Directory);
    anyhow::ensure!(
        into || sources.len() == 1,
        "{target}: is not a directory, so only one name can be copied there"
    );
    let mut plan = Plan::default();
    for source in sources {
        let info = world
            .info(source, true)?
            .ok_or_else(|| anyhow::anyhow!("{source}: no such file or directory"))?;
        let to = match source.path().file_name() {
            Some(name) if into => target.join(name),
            _ => target.clone(),
        };
        anyhow::ensure!(
            info.kind != Kind::Directory || recursive,
            "{source}: is a directory; copy it and everything below it with -r"
        );
        if let (Name::Cluster(from), Name::Cluster(to)) = (source, &to) {
            anyhow::ensure!(
                !to.starts_with(from) || info.kind != Kind::Directory,
                "{source}: cannot be copied into itself ({})",
                to.display()
            );
        }
        plan.add(world, source.clone(), to, info)?;
    }
    Ok(plan)
}

impl Plan {
    fn add(&mut self, world: &World, from: Name, to: Name, info: Info) -> anyhow::Result<()> {
        match info.kind {
            Kind::File => {
                self.bytes += info.size;
                let (size, mode, mtime) = (info.size, info.mode, info.mtime);
                self.files.push(Job {
                    from,
                    to,
                    size,
                    mode,
                    mtime,
                });
            }
            Kind::Directory => {
                world.make_directory(&to, info.mode)?;
                self.directories += 1;
                for (name, below) in world.list(&from)? {
                    // Left by an interrupted copy: not part of what the user has.
                    if is_part(&name) {
                        continue;
                    }
                    self.add(world, from.join(&name), to.join(&name), below)?;
                }
                self.stamps.push((to, info));
            }
            Kind::Symlink(ref link) => world.make_symlink(&to, link)?,
            Kind::Other => eprintln!("trireme: {from}: not a file, directory or link; left out"),
        }
        Ok(())
    }

    /// Sets the times of directories, innermost first.
    pub fn finish(&self, world: &World) -> anyhow::Result<()> {
        for (name, info) in &self.stamps {
            world.set_directory(name, info.mode, info.mtime)?;
        }
        Ok(())
    }
}

/// The name under which a file is copied until it is whole.
pub fn part_name(job: &Job) -> std::ffi::OsString {
    let mut name = OsStr::new(".").to_owned();
    // Long names are cut so that the part's name is still a legal one.
    let own = job.to.path().file_name().unwrap_or_default();
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(own);
    name.push(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(
        &bytes[..bytes.len().min(160)],
    ));
    name.push(format!(
        ".{:x}-{:x}.{:x}.part",
        job.mtime.seconds, job.mtime.nanos, job.size
    ));
    name
}

fn is_part(name: &OsStr) -> bool {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(name);
    bytes.first() == Some(&b'.') && bytes.ends_with(b".part")
}
