//! Access control lists as POSIX.1e (draft 17) has them: the form in which Linux passes them, whom they
//! let in, and what `chmod` and new files make of them. Knows nothing of inodes or of storage.
//!
//! ```text
//! version 4 = 2 | { tag 2 | rights 2 | id 4 } ...      little-endian
//! ```
//!
//! The lines come in one order: owner, named users, owning group, named groups, mask, others. Where there
//! is a named line there is a mask, and the mask, not the owning group's line, is what `stat` shows as the
//! group's rights.

use crate::failure::{Errno, Failure};
use trireme_proto::message::meta::Caller;

/// Longest binary form: the kernel fetches a list into one page.
pub const LIMIT: usize = 4096;

const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id of a line that names nobody.
const NOBODY: u32 = u32::MAX;

/// A list that is whole and in order; others cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    owner: u32,
    users: Vec<(u32, u32)>,
    group: u32,
    groups: Vec<(u32, u32)>,
    mask: Option<u32>,
    other: u32,
}

#[derive(Clone, Copy)]
struct Line {
    tag: u16,
    rights: u32,
    id: u32,
}

fn malformed(why: &str) -> Failure {
    Failure {
        errno: Errno::Inval,
        what: format!("an access control list: {why}"),
    }
}

impl Acl {
    /// Reads the binary form; one without lines stands for no list at all.
    pub fn parse(bytes: &[u8]) -> Result<Option<Acl>, Failure> {
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() > LIMIT {
            return Err(Failure {
                errno: Errno::TooBig,
                what: format!(
                    "an access control list of {} bytes (at most {LIMIT})",
                    bytes.len()
                ),
            });
        }
        let Some((version, body)) = bytes.split_first_chunk() else {
            return Err(malformed("shorter than its version"));
        };
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(Failure {
                errno: Errno::NotSup,
                what: format!("access control lists of version {version} (only {VERSION})"),
            });
        }
        let (lines, rest) = body.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(malformed("ends in the middle of a line"));
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let lines = lines.iter().copied().map(Line::read);
        let lines: Vec<Line> = lines.collect::<Result<_, _>>()?;
        Acl::from_lines(&lines).map(Some)
    }

    fn from_lines(lines: &[Line]) -> Result<Acl, Failure> {
        let mut lines = lines.iter().copied().peekable();
        let mut take = |tag| lines.next_if(|line: &Line| line.tag == tag);
        let mut named = |tag| {
            let mut found = Vec::new();
            while let Some(line) = take(tag) {
                found.push((line.id, line.rights));
            }
            found
        };
        let one = |found: Vec<(u32, u32)>, what: &str| match found[..] {
            [(_, rights)] => Ok(rights),
            _ => Err(malformed(&format!(
                "needs one line for {what}, in its place"
            ))),
        };
        let owner = one(named(OWNER), "the owner")?;
        let users = named(USER);
        let group = one(named(OWNING_GROUP), "the owning group")?;
        let groups = named(GROUP);
        let mask = match named(MASK)[..] {
            [] => None,
            [(_, rights)] => Some(rights),
            _ => return Err(malformed("has more than one mask")),
        };
        let other = one(named(OTHER), "others")?;
        if lines.next().is_some() {
            return Err(malformed("has lines behind that for others"));
        }
        if mask.is_none() && !(users.is_empty() && groups.is_empty()) {
            return Err(malformed("names users or groups and has no mask"));
        }
        Ok(Acl {
            owner,
            users,
            group,
            groups,
            mask,
            other,
        })
    }

    /// The binary form.
    pub fn encode(&self) -> Vec<u8> {
        let line = |tag| move |(id, rights): &(u32, u32)| (tag, *rights, *id);
        let mask = self.mask.map(|rights| (MASK, rights, NOBODY));
        let lines = std::iter::once((OWNER, self.owner, NOBODY))
            .chain(self.users.iter().map(line(USER)))
            .chain([(OWNING_GROUP, self.group, NOBODY)])
            .chain(self.groups.iter().map(line(GROUP)))
            .chain(mask)
            .chain([(OTHER, self.other, NOBODY)]);
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, rights, id) in lines {
            bytes.extend(tag.to_le_bytes());
            bytes.extend((rights as u16).to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// Does the list of a file of `uid` and `gid` give the caller all rights in `want`?
    pub fn permits(&self, caller: &Caller, uid: u32, gid: u32, want: u32) -> bool {
        if caller.uid == uid {
            return self.owner & want == want;
        }
        let mask = self.mask.unwrap_or(7);
        if let Some((_, rights)) = self.users.iter().find(|(id, _)| *id == caller.uid) {
            return rights & mask & want == want;
        }
        // One of the caller's groups must have all of it; two that have half each are not enough.
        let owning = [(gid, self.group)];
        let mut mine = owning
            .iter()
            .chain(&self.groups)
            .filter(|(id, _)| caller.in_group(*id))
            .peekable();
        if mine.peek().is_some() {
            return mine.any(|(_, rights)| rights & mask & want == want);
        }
        self.other & want == want
    }

    /// The permission bits that `stat` shows of a file with this list.
    pub fn mode(&self) -> u32 {
        self.owner << 6 | self.mask.unwrap_or(self.group) << 3 | self.other
    }

    /// It says no more than permission bits do.
    pub fn is_just_mode(&self) -> bool {
        self.mask.is_none()
    }

    /// What `chmod` does to a list: named lines and, beside a mask, the owning group's stay.
    pub fn set_mode(&mut self, mode: u32) {
        self.owner = mode >> 6 & 7;
        *self.mask.as_mut().unwrap_or(&mut self.group) = mode >> 3 & 7;
        self.other = mode & 7;
    }

    /// The list of a file that is made with `mode` in a directory with this default list: nobody gets
    /// more than its maker asked for. The umask has no say.
    #[must_use]
    pub fn inherited(&self, mode: u32) -> Acl {
        let mut made = self.clone();
        made.set_mode(self.mode() & mode);
        made
    }
}

impl Line {
    fn read(bytes: [u8; 8]) -> Result<Line, Failure> {
        let [t0, t1, r0, r1, id @ ..] = bytes;
        let line = Line {
            tag: u16::from_le_bytes([t0, t1]),
            rights: u32::from(u16::from_le_bytes([r0, r1])),
            id: u32::from_le_bytes(id),
        };
        if line.rights > 7 {
            return Err(malformed("rights other than to read, write and execute"));
        }
        if matches!(line.tag, USER | GROUP) && line.id == NOBODY {
            return Err(malformed("a line with the id that means nobody"));
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests;
