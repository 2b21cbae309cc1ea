//! Access control lists and the inodes that announce them: both or neither, and of one mind.

use super::Check;
use crate::acl::Acl;
use crate::failure::Failure;
use crate::key;
use crate::namespace::acl::List;
use crate::namespace::put_inode;
use crate::record::Inode;
use std::collections::HashSet;

impl Check<'_, '_> {
    pub(super) fn lists(&mut self) -> Result<(), Failure> {
        let mut found = HashSet::new();
        self.each(b'x', |check, key, value| {
            let id = key::number(key).unwrap_or(0);
            let list = key.get(9..).and_then(List::named);
            let (Some(list), Some(node)) = (list, check.inodes.get(&id)) else {
                return Ok(());
            };
            let name = String::from_utf8_lossy(list.name());
            let Ok(Some(acl)) = Acl::parse(value) else {
                let what = format!("{name} of inode {id} is not an access control list");
                if check.problem(what, "remove it") {
                    check.txn.delete(key.to_vec());
                } else {
                    // Announced and there, if damaged: one problem, not two.
                    found.insert((id, list.flag()));
                }
                return Ok(());
            };
            found.insert((id, list.flag()));
            let mut right = node.clone();
            right.mode |= list.flag();
            if list == List::Access {
                right.mode = (right.mode & !0o777) | acl.mode();
            }
            if right.mode != node.mode {
                let what = format!("inode {id} does not know of its {name}");
                if check.problem(what, "write the mode that the list gives") {
                    check.rewrite(id, right);
                }
            }
            Ok(())
        })?;
        let announced: Vec<(u64, u32)> = self
            .inodes
            .iter()
            .flat_map(|(id, node)| {
                let flags = [List::Access, List::Default].map(List::flag);
                flags.map(|flag| (*id, node.mode & flag))
            })
            .filter(|(id, flag)| *flag != 0 && !found.contains(&(*id, *flag)))
            .collect();
        for (id, flag) in announced {
            let what = format!("inode {id} says that it has an access control list; it has none");
            // What the mode shows as the group's rights was the mask of those whom the list named.
            let (remedy, lost) = if flag == List::Access.flag() {
                (
                    "leave rights to the owner only, who can set them anew",
                    0o077,
                )
            } else {
                ("write that it has none", 0)
            };
            if self.problem(what, remedy)
                && let Some(node) = self.inodes.get(&id)
            {
                let mut right = node.clone();
                right.mode &= !(flag | lost);
                self.rewrite(id, right);
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, id: u64, right: Inode) {
        put_inode(self.txn, id, &right);
        self.inodes.insert(id, right);
    }
}
