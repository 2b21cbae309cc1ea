//! Hints: which are heeded, which are only kept, and what a file tells of itself.
//!
//! Heeded: `striping_unit`, `striping_factor`, `start_iodevice` and `file_perm` where a file is
//! created, and our own `trireme_method`. All others (`cb_*`, `romio_*`, `ind_*`) change nothing.

use std::collections::BTreeMap;

use trireme::LayoutWish;

use crate::class::Result;
use crate::mpi;
use crate::open::{Open, lock};

/// The hint that names a method for collectives.
pub const METHOD: &str = "trireme_method";

/// The layout that hints ask for on a cluster of `servers` servers. A hint never makes a call fail: what
/// does not parse, or is no stripe unit, is left to the cluster, and there are no more servers than
/// there are.
pub fn layout(hints: &BTreeMap<String, String>, servers: usize) -> LayoutWish {
    let servers = servers.clamp(1, u32::MAX as usize) as u64;
    let first = hints.get("start_iodevice");
    let first = first.and_then(|text| text.trim().parse::<u64>().ok());
    let count = number(hints, "striping_factor").map(|count| count.min(servers));
    // Which is the first depends on how many there are: all, whatever the directory says.
    let count = count.or(first.map(|_| servers));
    LayoutWish {
        unit: number(hints, "striping_unit").filter(|unit| LayoutWish::UNITS.contains(unit)),
        count: count.map(|count| count as u32),
        servers: None,
        first: first.map(|first| (first % count.unwrap_or(1)) as u32),
    }
}

/// Permission bits that hints ask for, octal.
pub fn permissions(hints: &BTreeMap<String, String>) -> Option<u32> {
    let text = hints.get("file_perm")?;
    u32::from_str_radix(text.trim(), 8)
        .ok()
        .filter(|bits| *bits <= 0o777)
}

fn number(hints: &BTreeMap<String, String>, key: &str) -> Option<u64> {
    let number = hints.get(key)?.trim().parse().ok()?;
    (number > 0).then_some(number)
}

impl Open {
    /// `MPI_File_get_info`: a new object with what is known and what was asked for.
    pub fn info(&self) -> Result<usize> {
        let layout = self.file.layout();
        let own = [
            ("striping_unit", layout.unit.to_string()),
            ("striping_factor", layout.servers.len().to_string()),
            ("start_iodevice", layout.first.to_string()),
            (METHOD, self.method.to_string()),
        ];
        let mut all = lock(&self.hints).clone();
        all.extend(own.map(|(key, value)| (key.to_owned(), value)));
        mpi::info_of(
            all.iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        owned.collect()
    }

    #[test]
    fn hints_that_ask_for_too_much_get_what_there_is() {
        let much = [
            ("striping_factor", "4294967297"),
            ("start_iodevice", "99"),
            ("striping_unit", "18446744073709551615"),
        ];
        let wish = layout(&hints(&much), 4);
        assert_eq!(
            (wish.unit, wish.count, wish.first),
            (None, Some(4), Some(3))
        );
        let first = layout(&hints(&[("start_iodevice", "2")]), 3);
        assert_eq!((first.count, first.first), (Some(3), Some(2)));
    }

    #[test]
    fn hints_that_do_not_parse_are_no_hints() {
        let good = hints(&[("striping_unit", "65536"), ("striping_factor", " 2 ")]);
        assert_eq!(layout(&good, 4).unit, Some(65536));
        assert_eq!(layout(&good, 4).count, Some(2));
        let bad = hints(&[("striping_unit", "big"), ("striping_factor", "0")]);
        assert_eq!(layout(&bad, 4), LayoutWish::default());
        assert_eq!(permissions(&hints(&[("file_perm", "600")])), Some(0o600));
        assert_eq!(permissions(&hints(&[("file_perm", "9")])), None);
    }
}
