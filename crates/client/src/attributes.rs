//! `stat` with the right size and space. The manager knows them unless somebody may be writing, or there are
//! holes; then the I/O servers are asked, so that every write that returned shows.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use trireme_net::NetError;
use trireme_partition::Partition;
use trireme_proto::Op;
use trireme_proto::key::Grant;
use trireme_proto::message::meta::{Attr, DirEntry, Entry, Kind, Layout, Place, Time};

use crate::transfer::{self, Buffer, Each, Job};
use crate::{Cluster, Error, Result};

impl Cluster {
    /// What a path names; follows a symbolic link at its end.
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<Entry> {
        self.stat_place(path.as_ref(), true)
    }

    /// What a path names; a symbolic link is itself.
    pub fn lstat(&self, path: impl AsRef<Path>) -> Result<Entry> {
        self.stat_place(path.as_ref(), false)
    }

    fn stat_place(&self, path: &Path, follow: bool) -> Result<Entry> {
        let place = Place::path(path.as_os_str().as_bytes());
        let mut entry = self.namespace().lookup(place, follow).map_err(at(path))?;
        self.complete(&mut entry)?;
        Ok(entry)
    }

    /// Asks the servers for the size of a file that somebody may be writing.
    pub fn complete(&self, entry: &mut Entry) -> Result<()> {
        if is_complete(&entry.attr) {
            return Ok(());
        }
        let grants = self.namespace().inspect(vec![entry.attr.inode])?;
        let grant = grants
            .first()
            .ok_or_else(|| Error::Invalid("no grant".into()))?;
        self.complete_with(entry, grant)
    }

    /// The same with a grant that is there already.
    pub fn complete_with(&self, entry: &mut Entry, grant: &Grant) -> Result<()> {
        if is_complete(&entry.attr) {
            return Ok(());
        }
        let Some(layout) = &entry.layout else {
            return Ok(());
        };
        let (size, stored, modified) = self.size_on_servers(layout, grant)?;
        entry.attr.stored = stored;
        if entry.attr.settled {
            return Ok(());
        }
        entry.attr.size = size;
        // Written since the inode was last changed: the manager has not heard of it yet.
        if modified > entry.attr.ctime {
            entry.attr.mtime = modified;
            entry.attr.ctime = modified;
        }
        Ok(())
    }

    fn size_on_servers(&self, layout: &Layout, grant: &Grant) -> Result<(u64, u64, Time)> {
        let partition = Partition::striped(layout.unit, layout.servers.len() as u32, layout.first)?;
        let servers: Vec<_> = layout
            .servers
            .iter()
            .map(|id| self.server(*id))
            .collect::<Result<_>>()?;
        let job = Job {
            servers: &servers,
            grant: *grant,
            options: self.options().transfer,
            deadline: self.deadline(),
            memory: None,
            own: self.options().own,
            seed: self.seed(),
        };
        let plan = Each {
            op: Op::STAT,
            lengths: vec![0; servers.len()],
        };
        let (mut size, mut stored, mut modified) = (0, 0, 0);
        transfer::run(&job, plan, Buffer::In(&mut []), |done| {
            modified = modified.max(done.modified_ns);
            stored += done.stored;
            let part = partition.part(done.server);
            if done.size > 0
                && let Ok(part) = part
                && let Some(last) = part.to_file(done.size - 1)
            {
                size = size.max(last + 1);
            }
        })?;
        let modified = Time {
            seconds: (modified / 1_000_000_000) as i64,
            nanos: (modified % 1_000_000_000) as u32,
        };
        Ok((size, stored, modified))
    }

    /// All entries of a directory with attributes and right sizes, sorted by name.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>> {
        let path = path.as_ref();
        let mut entries = self.namespace().read_dir(path).map_err(at(path))?;
        for entry in &mut entries {
            if let Some(attr) = &mut entry.attr
                && !is_complete(attr)
            {
                // Gone since: as if it had gone a moment earlier, its last known size will do.
                if let Ok(mut whole) = self.namespace().lookup(Place::inode(entry.inode), false) {
                    self.complete(&mut whole)?;
                    *attr = whole.attr;
                }
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

/// Whether the manager knows all of it.
fn is_complete(attr: &Attr) -> bool {
    attr.kind != Kind::File || (attr.settled && !attr.sparse)
}

/// Names the file in an error.
pub fn at(path: &Path) -> impl FnOnce(NetError) -> Error {
    let path = path.display().to_string();
    move |source| Error::At { path, source }
}
