//! From wishes to a layout: what the creator wants, else what the directory hands down, else all
//! servers.

use super::explain;
use crate::failure::{Errno, Failure};
use trireme_proto::message::meta::{Layout, LayoutWish};

/// Stripe unit when nobody says otherwise.
pub const DEFAULT_UNIT: u64 = 64 << 10;
/// Most servers in one layout: it is stored in every inode.
pub const WIDTH_LIMIT: usize = 1024;

/// `wish` where it says something, else `inherited`.
pub fn merge(wish: &LayoutWish, inherited: &LayoutWish) -> LayoutWish {
    let placed = wish.count.is_some() || wish.servers.is_some();
    LayoutWish {
        unit: wish.unit.or(inherited.unit),
        count: if placed { wish.count } else { inherited.count },
        servers: if placed {
            wish.servers.clone()
        } else {
            inherited.servers.clone()
        },
        first: wish.first.or(inherited.first),
    }
}

/// Refuses what no layout could have.
pub fn check(wish: &LayoutWish) -> Result<(), Failure> {
    if let Some(unit) = wish.unit
        && !LayoutWish::UNITS.contains(&unit)
    {
        let largest = LayoutWish::UNITS.end();
        let what = format!("stripe unit {unit} (must be 1 to {largest} bytes)");
        return Err(explain(Errno::Inval, what));
    }
    if wish.count == Some(0) || wish.servers.as_ref().is_some_and(Vec::is_empty) {
        return Err(explain(Errno::Inval, "a layout needs at least one server"));
    }
    Ok(())
}

/// The layout of a new file. `inode` spreads the first stripes of many files over all servers.
pub fn choose(wish: &LayoutWish, known: &[u32], inode: u64) -> Result<Layout, Failure> {
    check(wish)?;
    let servers = match (&wish.servers, wish.count) {
        (Some(servers), _) => {
            if let Some(unknown) = servers.iter().find(|id| !known.contains(id)) {
                let what = format!("server {unknown} is not in the cluster; it has {known:?}");
                return Err(explain(Errno::Inval, what));
            }
            servers.clone()
        }
        (None, Some(count)) if count as usize > known.len() => {
            let what = format!("{count} servers asked, the cluster has {}", known.len());
            return Err(explain(Errno::Inval, what));
        }
        // Fewer than all: a window that moves with the inode number.
        (None, Some(count)) => {
            let start = inode as usize % known.len();
            known
                .iter()
                .cycle()
                .skip(start)
                .take(count as usize)
                .copied()
                .collect()
        }
        (None, None) => known.to_vec(),
    };
    if servers.len() > WIDTH_LIMIT {
        let what = format!(
            "{} servers in one layout (at most {WIDTH_LIMIT})",
            servers.len()
        );
        return Err(explain(Errno::Inval, what));
    }
    let width = servers.len() as u64;
    let first = wish.first.unwrap_or_else(|| (inode % width.max(1)) as u32);
    if width > 0 && u64::from(first) >= width {
        return Err(explain(
            Errno::Inval,
            format!("first server {first} of {width}"),
        ));
    }
    Ok(Layout {
        unit: wish.unit.unwrap_or(DEFAULT_UNIT),
        servers,
        first,
    })
}
