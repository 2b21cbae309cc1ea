//! Names as people write them: `trireme:/path` is on the cluster, the rest is here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What marks a name on the cluster.
const SCHEME: &[u8] = b"trireme:";

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// On the cluster; absolute.
    Cluster(PathBuf),
    /// On this machine.
    Local(PathBuf),
}

impl Name {
    /// Reads a name; without the scheme it is local.
    pub fn parse(text: &OsStr) -> anyhow::Result<Name> {
        match text.as_bytes().strip_prefix(SCHEME) {
            Some(path) => Ok(Name::Cluster(absolute(path)?)),
            None => Ok(Name::Local(text.into())),
        }
    }

    /// A name below this one.
    pub fn join(&self, name: &OsStr) -> Name {
        match self {
            Name::Cluster(path) => Name::Cluster(path.join(name)),
            Name::Local(path) => Name::Local(path.join(name)),
        }
    }

    /// The path without the scheme.
    pub fn path(&self) -> &Path {
        match self {
            Name::Cluster(path) | Name::Local(path) => path,
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Cluster(path) => write!(f, "trireme:{}", path.display()),
            Name::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Reads a name where only one on the cluster makes sense: the scheme may be left out.
pub fn on_cluster(text: &OsStr) -> anyhow::Result<PathBuf> {
    absolute(
        text.as_bytes()
            .strip_prefix(SCHEME)
            .unwrap_or(text.as_bytes()),
    )
}

/// The same for all names of a command line, before anything is done with the first.
pub fn all_on_cluster(names: &[std::ffi::OsString]) -> anyhow::Result<Vec<PathBuf>> {
    names.iter().map(|name| on_cluster(name)).collect()
}

fn absolute(path: &[u8]) -> anyhow::Result<PathBuf> {
    let shown = String::from_utf8_lossy(path);
    anyhow::ensure!(
        path.first() == Some(&b'/'),
        "\"{shown}\": a name on the cluster begins with /, as in trireme:/{shown}"
    );
    Ok(PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_tells_cluster_from_local() {
        let parse = |text: &str| Name::parse(OsStr::new(text)).unwrap();
        assert_eq!(parse("trireme:/a/b"), Name::Cluster("/a/b".into()));
        assert_eq!(parse("/a/b"), Name::Local("/a/b".into()));
        assert_eq!(parse("./trireme:/a"), Name::Local("./trireme:/a".into()));
        assert!(Name::parse(OsStr::new("trireme:a")).is_err());
    }

    #[test]
    fn the_scheme_may_be_left_out_where_nothing_else_makes_sense() {
        assert_eq!(on_cluster(OsStr::new("/a")).unwrap(), Path::new("/a"));
        assert_eq!(
            on_cluster(OsStr::new("trireme:/a")).unwrap(),
            Path::new("/a")
        );
        let error = on_cluster(OsStr::new("a")).unwrap_err().to_string();
        assert!(error.contains("trireme:/a"), "{error}");
    }
}
