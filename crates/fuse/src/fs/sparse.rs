//! Space and holes: fallocate, SEEK_DATA, SEEK_HOLE.

use trireme_proto::message::io::Allocate;

use super::handle::Handle;
use super::{Inner, Outcome, library_errno};
use crate::kernel::abi::{FallocateIn, LseekIn, LseekOut};
use crate::kernel::{Reply, Request};

impl Inner {
    pub(super) fn fallocate(&self, request: &Request<'_>, reply: Reply) {
        let result = request
            .arguments::<FallocateIn>()
            .and_then(|what| self.fallocate_now(&what));
        reply.outcome(result);
    }

    fn fallocate_now(&self, what: &FallocateIn) -> Outcome<()> {
        let handle = self.handles.file(what.fh)?;
        handle.behind.drain();
        let mode = what.mode as i32;
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let kind = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocate::Reserve { keep_size },
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => Allocate::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero { keep_size },
            _ => return Err(libc::EOPNOTSUPP),
        };
        let _awake = handle.awake()?;
        self.drop_capability(&handle)?;
        let done = handle.file.allocate(kind, what.offset, what.length);
        done.map_err(|error| library_errno(&error))?;
        self.note_written(&handle, what.offset, what.length);
        Ok(())
    }

    pub(super) fn lseek(&self, request: &Request<'_>, reply: Reply) {
        let result = request.arguments::<LseekIn>().and_then(|what| {
            let handle = self.handles.file(what.fh)?;
            let writers = self.handles.writers(handle.inode);
            if writers.iter().any(|writer| writer.maps) {
                // What was written through a mapping is data, and only the kernel has it: told to forget, it
                // writes it first.
                self.drop_cached(handle.inode, what.offset, 0);
            }
            seek(&handle, &what)
        });
        reply.result(result);
    }
}

fn seek(handle: &Handle, what: &LseekIn) -> Outcome<LseekOut> {
    handle.behind.drain();
    let found = match what.whence as i32 {
        libc::SEEK_DATA => handle.file.next_data(what.offset),
        libc::SEEK_HOLE => handle.file.next_hole(what.offset),
        _ => return Err(libc::EINVAL),
    };
    let found = found.map_err(|error| library_errno(&error))?;
    let offset = found.ok_or(libc::ENXIO)?;
    Ok(LseekOut { offset })
}
