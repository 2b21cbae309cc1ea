//! Subfiles that belong to nobody: the data half of `fsck`.
//!
//! A stray can be left when a client whose lease had ended wrote to a file that was removed
//! meanwhile. It is called one only if the server listed it, the manager has no such inode, and the
//! number was given out before the listing began; inode numbers are never given out again, so a
//! stray can never become a file. A server whose listing failed, or a manager that did not answer
//! for a page, yields no strays at all for what was asked.

use trireme_net::NetError;
use trireme_proto::key::Grant;
use trireme_proto::message::io::List;
use trireme_proto::message::meta::Life;
use trireme_proto::{Header, Op};

use crate::{Cluster, Result};

/// Inode numbers in one question to the manager.
const PAGE: usize = 8192;

/// A subfile that no file owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// Where it lies.
    pub server: u32,
    /// The file that is gone.
    pub inode: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Strays {
    /// Subfiles that no file owns.
    pub strays: Vec<Stray>,
    /// Subfiles seen.
    pub subfiles: u64,
    /// What could not be looked at, and why.
    pub unchecked: Vec<String>,
}

/// Looks at all subfiles of all servers in the map.
pub fn find_strays(cluster: &Cluster) -> Result<Strays> {
    cluster.refresh()?;
    let mut found = Strays::default();
    for server in &cluster.map().servers {
        let numbers = match list(cluster, server.id) {
            Ok(numbers) => numbers,
            Err(error) => {
                found
                    .unchecked
                    .push(format!("listing I/O server {}: {error}", server.id));
                continue;
            }
        };
        found.subfiles += numbers.len() as u64;
        for page in numbers.chunks(PAGE) {
            match cluster.namespace().life(page.to_vec()) {
                Ok(lives) if lives.len() == page.len() => {
                    let gone = page
                        .iter()
                        .zip(lives)
                        .filter(|(_, life)| *life == Life::Gone);
                    found.strays.extend(gone.map(|(inode, _)| Stray {
                        server: server.id,
                        inode: *inode,
                    }));
                }
                Ok(lives) => found.unchecked.push(format!(
                    "the manager answered for {} of {} files",
                    lives.len(),
                    page.len()
                )),
                Err(error) => found.unchecked.push(format!("asking the manager: {error}")),
            }
        }
    }
    Ok(found)
}

/// All subfiles of a server, or an error: half a list is no list.
fn list(cluster: &Cluster, server: u32) -> Result<Vec<u64>> {
    let pool = cluster.server(server)?;
    let deadline = cluster.deadline();
    let mut all: Vec<u64> = Vec::new();
    loop {
        let after = all.last().copied().unwrap_or(0);
        let page: List = pool.with(deadline, |connection| {
            let mut header = Header::request(Op::LIST);
            header.file.set(after);
            let reply = connection.call(&mut header, &[], &[], &mut [], deadline)?;
            trireme_proto::decode(&reply.body).map_err(|source| NetError::Refused {
                peer: connection.peer().to_owned(),
                source,
            })
        })?;
        if page.files.is_empty() {
            return Ok(all);
        }
        for (inode, _) in page.files {
            // Numbers that do not grow would make this go round for ever.
            if inode <= all.last().copied().unwrap_or(0) {
                return Err(crate::Error::Invalid(format!(
                    "the list of I/O server {server} is out of order at file {inode}"
                )));
            }
            all.push(inode);
        }
    }
}

impl Stray {
    /// Removes it, after asking once more whether it is one.
    pub fn remove(&self, cluster: &Cluster) -> Result<()> {
        let namespace = cluster.namespace();
        if namespace.life(vec![self.inode])? != [Life::Gone] {
            return Err(crate::Error::Invalid(format!(
                "inode {} is not gone",
                self.inode
            )));
        }
        let grants = namespace.admin(vec![self.inode])?;
        let grant: &Grant = grants
            .get(1)
            .ok_or_else(|| crate::Error::Invalid("the manager gave no grant".into()))?;
        let deadline = cluster.deadline();
        cluster.server(self.server)?.with(deadline, |connection| {
            let mut header = Header::request(Op::REMOVE);
            header.file.set(grant.file);
            header.token.set(grant.token.0);
            header.add_flags(grant.rights.flags());
            connection
                .call(&mut header, &[], &[], &mut [], deadline)
                .map(|_| ())
        })?;
        Ok(())
    }
}
