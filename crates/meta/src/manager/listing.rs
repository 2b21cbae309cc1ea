//! Reading directories in pages; and which requests need space.

use super::NUMBERS_LIMIT;
use crate::failure::{Errno, Failure};
use crate::key;
use crate::namespace::{Context, directory, explain, fail, path, permission};
use crate::record;
use crate::txn::{Read, Reader};
use trireme_proto::message::meta::{DirEntry, Place, READDIR_LIMIT, Request, Response};

/// Does this request need new space on the manager's disk?
pub(super) fn grows(request: &Request) -> bool {
    matches!(
        request,
        Request::Create { .. }
            | Request::Link { .. }
            | Request::SetXattr { .. }
            | Request::Rename { .. }
            | Request::OpenUnnamed { .. }
            | Request::Open {
                create: Some(_),
                ..
            }
    )
}

/// One page of a directory, with attributes when asked for.
pub(super) fn read_dir(
    read: &mut Reader<'_>,
    context: &Context<'_>,
    place: &Place,
    after: u64,
    limit: u32,
    plus: bool,
) -> Result<Response, Failure> {
    let (id, node) = path::resolve(read, context, place, true)?;
    let record::Body::Directory { parent, .. } = node.body else {
        return Err(fail(Errno::NotDir, &place.path));
    };
    permission::require(context, &node, permission::READ, &place.path)?;
    let limit = limit.clamp(1, READDIR_LIMIT) as usize;
    let page = directory::page(read, id, after, limit)?;
    let mut entries = Vec::with_capacity(page.entries.len());
    for (cookie, name, inode, kind) in page.entries {
        let attr = if plus {
            // Gone since the page was read: as if it had gone a moment earlier.
            let Some(node) = read.record::<record::Inode>(&key::inode(inode))? else {
                continue;
            };
            Some(node.attr(inode))
        } else {
            None
        };
        entries.push(DirEntry {
            cookie,
            name,
            inode,
            kind,
            attr,
        });
    }
    Ok(Response::Directory {
        inode: id,
        parent,
        entries,
        end: page.end,
    })
}

/// Refuses lists that are too long.
pub(super) fn limit_numbers<T>(inodes: &[T]) -> Result<(), Failure> {
    if inodes.len() > NUMBERS_LIMIT {
        let what = format!(
            "{} inode numbers in one call (at most {NUMBERS_LIMIT})",
            inodes.len()
        );
        return Err(explain(Errno::TooBig, what));
    }
    Ok(())
}
