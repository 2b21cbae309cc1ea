//! Extended attributes.

use trireme_proto::message::meta::{self, CAPABILITY, Place, Response, XattrMode};

use super::{Inner, Outcome, acl, unexpected};
use crate::kernel::abi::{GetxattrIn, GetxattrOut, SetxattrIn};
use crate::kernel::{Reply, Request, split_name};

/// To create only and to replace only.
const BOTH: i32 = libc::XATTR_CREATE | libc::XATTR_REPLACE;

impl Inner {
    pub(super) fn getxattr(&self, request: &Request<'_>, reply: Reply) {
        let result = request.take::<GetxattrIn>().and_then(|(what, rest)| {
            let (name, _) = split_name(rest)?;
            supported(name)?;
            // The kernel asks so before it writes by itself.
            if name == CAPABILITY
                && what.size == 0
                && self.has_lost_capability(request.header.nodeid)
            {
                return Err(libc::ENODATA);
            }
            let question = meta::Request::GetXattr {
                place: Place::inode(request.header.nodeid),
                name: name.to_vec(),
            };
            let answer = if acl::is_list(name) {
                if self.has_no_list(request.header.nodeid) {
                    return Err(libc::ENODATA);
                }
                acl::of_what_is_gone(self.ask(question))
            } else {
                // Not as root: who may not read the file may not read its attributes.
                let caller = self.caller(&request.header);
                let answer = self.names.ask_as(caller, question);
                answer.map_err(|error| super::errno(&error))
            };
            match answer {
                Ok(Response::Bytes(value)) => Ok((what.size, value)),
                Ok(other) => unexpected(other),
                Err(errno) => {
                    let value = self.xattr_of_removed(request.header.nodeid, name, errno)?;
                    Ok((what.size, value))
                }
            }
        });
        give(reply, result);
    }

    pub(super) fn listxattr(&self, request: &Request<'_>, reply: Reply) {
        let result = request.arguments::<GetxattrIn>().and_then(|what| {
            let question = meta::Request::ListXattr {
                place: Place::inode(request.header.nodeid),
            };
            let caller = self.caller(&request.header);
            let answer = self.names.ask_as(caller, question);
            let names = match answer.map_err(|error| super::errno(&error)) {
                Ok(Response::Names(names)) => names,
                Ok(other) => return unexpected(other),
                Err(errno) => {
                    let mut names = self.xattrs_of_removed(request.header.nodeid, errno)?;
                    names.retain(|name| request.header.uid == 0 || !name.starts_with(b"trusted."));
                    names
                }
            };
            let mut list = names.join(&0);
            if !list.is_empty() {
                list.push(0);
            }
            Ok((what.size, list))
        });
        give(reply, result);
    }

    pub(super) fn setxattr(&self, request: &Request<'_>, reply: Reply) {
        let result = request.take::<SetxattrIn>().and_then(|(what, rest)| {
            let (name, rest) = split_name(rest)?;
            supported(name)?;
            let value = rest.get(..what.size as usize).ok_or(libc::EINVAL)?;
            let mode = match what.flags as i32 {
                0 => XattrMode::Set,
                libc::XATTR_CREATE => XattrMode::Create,
                libc::XATTR_REPLACE => XattrMode::Replace,
                // It must be there and must not be: an error either way, which depends on whether it is.
                BOTH => return Err(self.already_there(request, name)),
                _ => return Err(libc::EINVAL),
            };
            let inode = request.header.nodeid;
            let question = meta::Request::SetXattr {
                place: Place::inode(inode),
                name: name.to_vec(),
                value: value.to_vec(),
                mode,
            };
            if let Err(errno) = self.change(&request.header, question) {
                return self.set_xattr_of_removed(inode, name, value, mode, errno);
            }
            if name == CAPABILITY {
                self.note_capability(inode);
            }
            if acl::is_list(name) {
                self.note_list(inode);
            }
            Ok(())
        });
        reply.outcome(result);
    }

    /// EEXIST if there is such an attribute, and otherwise why it cannot be read.
    fn already_there(&self, request: &Request<'_>, name: &[u8]) -> i32 {
        let question = meta::Request::GetXattr {
            place: Place::inode(request.header.nodeid),
            name: name.to_vec(),
        };
        let Err(errno) = self.ask(question) else {
            return libc::EEXIST;
        };
        let removed = self.xattr_of_removed(request.header.nodeid, name, errno);
        removed.err().unwrap_or(libc::EEXIST)
    }

    pub(super) fn removexattr(&self, request: &Request<'_>, reply: Reply) {
        let result = split_name(request.names()).and_then(|(name, _)| {
            supported(name)?;
            let question = meta::Request::RemoveXattr {
                place: Place::inode(request.header.nodeid),
                name: name.to_vec(),
            };
            // The kernel has checked that, or does it for whoever is writing.
            let header = if name == CAPABILITY {
                request.header.as_root()
            } else {
                request.header
            };
            match self.change(&header, question) {
                // A list that is not there says what the mode says; taking it away changes nothing.
                Err(libc::ENODATA) if acl::is_list(name) => Ok(()),
                Err(errno) => self.remove_xattr_of_removed(request.header.nodeid, name, errno),
                Ok(_) => Ok(()),
            }
        });
        reply.outcome(result);
    }
}

/// Of the kernel's own attributes only access control lists are kept. A class alone is no name, which the
/// kernel leaves to us.
fn supported(name: &[u8]) -> Outcome<()> {
    if matches!(name, b"trusted." | b"security.") {
        Err(libc::EINVAL)
    } else if name.starts_with(b"system.") && !acl::is_list(name) {
        Err(libc::EOPNOTSUPP)
    } else {
        Ok(())
    }
}

/// Gives a value, or only its length when that is what was asked for.
fn give(reply: Reply, result: Outcome<(u32, Vec<u8>)>) {
    match result {
        Err(errno) => {
            reply.error(errno);
        }
        Ok((0, value)) => {
            reply.give(&GetxattrOut {
                size: value.len() as u32,
                padding: 0,
            });
        }
        Ok((room, value)) if value.len() > room as usize => {
            reply.error(libc::ERANGE);
        }
        Ok((_, value)) => {
            reply.bytes(&value);
        }
    }
}
