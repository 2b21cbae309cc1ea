//! From a path to an inode. Names are bytes and are compared with stored names only: none of them
//! ever becomes a path on a server.

use super::{Context, directory, explain, fail, inode, permission};
use crate::failure::{Errno, Failure};
use crate::record::{Body, Inode};
use crate::txn::Read;
use trireme_proto::message::meta::{NAME_MAX, PATH_LIMIT, Place, ROOT, SYMLINK_LIMIT};

/// The directory in which the last component of a path lies.
pub struct Parent {
    /// The directory.
    pub id: u64,
    /// Its inode.
    pub inode: Inode,
    /// The last component; empty when the path names the directory itself.
    pub name: Vec<u8>,
    /// The path ended in `/`: only a directory will do.
    pub slash: bool,
}

impl Parent {
    /// The name, for operations that make, remove or move one.
    pub fn proper_name(&self, dots: Errno) -> Result<&[u8], Failure> {
        match self.name.as_slice() {
            b"" | b"." | b".." => Err(fail(dots, &self.name)),
            name => Ok(name),
        }
    }
}

/// Walks all but the last component.
pub fn parent<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    place: &Place,
) -> Result<Parent, Failure> {
    walk(
        read,
        context,
        place.base,
        &place.path,
        &mut SYMLINK_LIMIT.clone(),
    )
}

/// Walks a whole path; `follow` a symbolic link at its end.
pub fn resolve<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    place: &Place,
    follow: bool,
) -> Result<(u64, Inode), Failure> {
    let mut budget = SYMLINK_LIMIT;
    if place.path.is_empty() {
        return Ok((place.base, inode(read, place.base)?));
    }
    let mut parent = walk(read, context, place.base, &place.path, &mut budget)?;
    loop {
        let (id, found) = step(read, context, parent.id, parent.inode, &parent.name)?;
        match found.body {
            Body::Symlink(ref target) if follow || parent.slash => {
                spend(&mut budget, &place.path)?;
                let slash = parent.slash;
                // `step` gave the directory away; the target starts in it again.
                let target = target.clone();
                parent = walk(read, context, parent.id, &target, &mut budget)?;
                parent.slash |= slash;
            }
            _ if parent.slash && !found.is_directory() => {
                return Err(fail(Errno::NotDir, &place.path));
            }
            _ => return Ok((id, found)),
        }
    }
}

fn spend(budget: &mut u32, path: &[u8]) -> Result<(), Failure> {
    *budget = budget
        .checked_sub(1)
        .ok_or_else(|| fail(Errno::Loop, path))?;
    Ok(())
}

/// One component below a directory.
fn step<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    id: u64,
    current: Inode,
    name: &[u8],
) -> Result<(u64, Inode), Failure> {
    let Body::Directory { parent, .. } = current.body else {
        return Err(fail(Errno::NotDir, name));
    };
    permission::require(context, &current, permission::EXECUTE, name)?;
    match name {
        b"" | b"." => Ok((id, current)),
        b".." => Ok((parent, inode(read, parent)?)),
        _ => {
            let found = directory::find(read, context.secret, id, name)?
                .ok_or_else(|| fail(Errno::NoEnt, name))?;
            Ok((found.inode, inode(read, found.inode)?))
        }
    }
}

fn walk<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    base: u64,
    path: &[u8],
    budget: &mut u32,
) -> Result<Parent, Failure> {
    if path.len() > PATH_LIMIT {
        return Err(explain(
            Errno::NameTooLong,
            format!("a path of {} bytes (at most {PATH_LIMIT})", path.len()),
        ));
    }
    if path.contains(&0) {
        return Err(explain(Errno::Inval, "a name with a NUL byte"));
    }
    let mut id = if path.first() == Some(&b'/') {
        ROOT
    } else {
        base
    };
    let mut current = inode(read, id)?;
    let mut components: Vec<&[u8]> = path
        .split(|b| *b == b'/')
        .filter(|c| !c.is_empty())
        .collect();
    for component in &components {
        check_name(component)?;
    }
    let name = components.pop().unwrap_or_default().to_vec();
    for component in components {
        let (next, found) = step(read, context, id, current, component)?;
        (id, current) = match found.body {
            Body::Symlink(target) => {
                spend(budget, path)?;
                let inner = walk(read, context, id, &target, budget)?;
                follow_to_end(read, context, inner, budget)?
            }
            _ => (next, found),
        };
    }
    if !current.is_directory() {
        return Err(fail(Errno::NotDir, path));
    }
    permission::require(context, &current, permission::EXECUTE, path)?;
    Ok(Parent {
        id,
        inode: current,
        name,
        slash: path.last() == Some(&b'/'),
    })
}

/// Resolves a symbolic link in the middle of a path to what it finally leads to.
fn follow_to_end<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    mut parent: Parent,
    budget: &mut u32,
) -> Result<(u64, Inode), Failure> {
    loop {
        let (id, found) = step(read, context, parent.id, parent.inode, &parent.name)?;
        match found.body {
            Body::Symlink(target) => {
                spend(budget, &target)?;
                parent = walk(read, context, parent.id, &target, budget)?;
            }
            _ => return Ok((id, found)),
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), Failure> {
    if name.len() > NAME_MAX {
        let what = format!("a name of {} bytes (at most {NAME_MAX})", name.len());
        return Err(explain(Errno::NameTooLong, what));
    }
    Ok(())
}
