//! A file system that only passes requests on to the files of one local directory: what FUSE itself
//! costs, for `trireme bench mount` to compare with. Flat and read-only. Or one that does not even do
//! that, and answers with whatever lies where answers are taken from: the most that FUSE can give.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::buffer::with_buffer;
use crate::kernel::abi::{self, AttrOut, EntryOut, OpenOut, ReadIn, ReleaseIn, init, op};
use crate::kernel::{
    self, Device, FileSystem, MountOptions, Permit, Reply, Request, SLOT, Session, split_name,
};

/// Seconds that the kernel may believe us.
const VALID: u64 = 1;

/// A local directory, passed through.
pub struct Bare {
    dir: PathBuf,
    session: Session,
}

/// What a read is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of the file, which the kernel caches.
    Bytes,
    /// As many bytes, without touching them, past the kernel's cache.
    Anything,
}

struct Files {
    source: PathBuf,
    answer: Answer,
    names: Mutex<HashMap<u64, PathBuf>>,
    open: RwLock<HashMap<u64, Arc<File>>>,
}

impl Bare {
    /// Mounts the files of `source` on `dir`.
    pub fn start(source: &Path, dir: &Path, answer: Answer) -> io::Result<Bare> {
        let dir = dir.canonicalize()?;
        let files = Files {
            source: source.canonicalize()?,
            answer,
            names: Mutex::default(),
            open: RwLock::default(),
        };
        let permit = Permit::get();
        let device = Device::mount(
            &dir,
            MountOptions {
                source: "trireme-bare",
                read_only: true,
                ..MountOptions::default()
            },
        )?;
        // Not zeroes, of which the kernel would give each page the same memory.
        let buffer = Box::leak(vec![1; SLOT * 16].into_boxed_slice());
        let session = Session::start(device, &dir, Arc::new(files), buffer, permit.is_some())?;
        session.wait_ready();
        drop(permit);
        kernel::set_read_ahead(&dir, kernel::READ_AHEAD);
        Ok(Bare { dir, session })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        if let Err(error) = kernel::unmount(&self.dir, true) {
            tracing::warn!("unmounting {}: {error}", self.dir.display());
        }
        self.session.wait_over(Duration::from_secs(2));
    }
}

impl Files {
    fn path(&self, inode: u64) -> PathBuf {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&inode).unwrap_or(&self.source).clone()
    }

    fn attr(path: &Path, inode: u64) -> Result<abi::Attr, i32> {
        let data = path.metadata().map_err(|error| errno(&error))?;
        Ok(abi::Attr {
            ino: inode,
            size: data.size(),
            blocks: data.blocks(),
            mtime: data.mtime() as u64,
            mode: data.mode(),
            nlink: 1,
            uid: data.uid(),
            gid: data.gid(),
            blksize: 4096,
            ..abi::Attr::default()
        })
    }

    fn lookup(&self, request: &Request<'_>) -> Result<EntryOut, i32> {
        use std::os::unix::ffi::OsStrExt;
        let (name, _) = split_name(request.names())?;
        let path = self.source.join(std::ffi::OsStr::from_bytes(name));
        let inode = path.metadata().map_err(|error| errno(&error))?.ino();
        let attr = Files::attr(&path, inode)?;
        self.names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(inode, path);
        Ok(EntryOut {
            nodeid: inode,
            entry_valid: VALID,
            attr_valid: VALID,
            attr,
            ..EntryOut::default()
        })
    }

    fn read(&self, request: &Request<'_>, mut reply: Reply) {
        let Ok(what) = request.arguments::<ReadIn>() else {
            reply.error(libc::EINVAL);
            return;
        };
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = open.get(&what.fh).cloned() else {
            reply.error(libc::EBADF);
            return;
        };
        drop(open);
        let mut size = what.size as usize;
        if self.answer == Answer::Anything {
            let length = file.metadata().map_or(0, |data| data.size());
            size = size.min(length.saturating_sub(what.offset) as usize);
            match reply.room(size) {
                Some(_) => reply.filled(size),
                None => with_buffer(size, |buffer| reply.bytes(buffer)),
            };
            return;
        }
        if let Some(room) = reply.room(size) {
            match file.read_at(room, what.offset) {
                Ok(got) => reply.filled(got),
                Err(error) => reply.error(errno(&error)),
            };
            return;
        }
        with_buffer(size, |buffer| match file.read_at(buffer, what.offset) {
            Ok(got) => reply.bytes(&buffer[..got]),
            Err(error) => reply.error(errno(&error)),
        });
    }
}

impl FileSystem for Files {
    fn features(&self) -> u64 {
        init::ASYNC_READ | init::PARALLEL_DIROPS
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        let inode = request.header.nodeid;
        match request.header.opcode {
            op::LOOKUP => {
                reply.result(self.lookup(&request));
            }
            op::GETATTR => {
                let attr = Files::attr(&self.path(inode), inode);
                reply.result(attr.map(|attr| AttrOut {
                    attr_valid: VALID,
                    attr,
                    ..AttrOut::default()
                }));
            }
            op::OPEN => {
                let opened = File::open(self.path(inode)).map_err(|error| errno(&error));
                reply.result(opened.map(|file| {
                    let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
                    let fh = open.keys().max().map_or(1, |last| last + 1);
                    open.insert(fh, Arc::new(file));
                    let open_flags = match self.answer {
                        Answer::Bytes => 0,
                        Answer::Anything => abi::open::DIRECT_IO,
                    };
                    OpenOut {
                        fh,
                        open_flags,
                        ..OpenOut::default()
                    }
                }));
            }
            op::READ => self.read(&request, reply),
            op::RELEASE => {
                if let Ok(what) = request.arguments::<ReleaseIn>() {
                    let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
                    open.remove(&what.fh);
                }
                reply.done();
            }
            op::FORGET | op::BATCH_FORGET => {}
            _ => {
                reply.error(libc::ENOSYS);
            }
        }
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
