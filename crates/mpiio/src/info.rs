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

/// The layout that hints ask for; what does not parse is left to the cluster, as hints are.
pub fn layout(hints: &BTreeMap<String, String>) -> LayoutWish {
    LayoutWish {
        unit: number(hints, "striping_unit"),
        count: number(hints, "striping_factor").map(|count| count as u32),
        servers: None,
        first: hints
            .get("start_iodevice")
            .and_then(|text| text.trim().parse().ok()),
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

    #[test]
    fn hints_that_do_not_parse_are_no_hints() {
        let hints = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            owned.collect()
        };
        let good = hints(&[("striping_unit", "65536"), ("striping_factor", " 2 ")]);
        assert_eq!(layout(&good).unit, Some(65536));
        assert_eq!(layout(&good).count, Some(2));
        let bad = hints(&[("striping_unit", "big"), ("striping_factor", "0")]);
        assert_eq!(layout(&bad), LayoutWish::default());
        assert_eq!(permissions(&hints(&[("file_perm", "600")])), Some(0o600));
        assert_eq!(permissions(&hints(&[("file_perm", "9")])), None);
    }
}
