//! Which names are files on trireme: `trireme:/path`, and what lies below `$TRIREME_PREFIX`.

use std::path::{Component, Path, PathBuf};

/// The path on the cluster that a program's name means, or `None`: then it is MPI's.
pub fn on_cluster(name: &str) -> Option<String> {
    let prefix = std::env::var("TRIREME_PREFIX").ok();
    let here = std::env::current_dir().unwrap_or_default();
    resolve(name, prefix.as_deref(), &here)
}

fn resolve(name: &str, prefix: Option<&str>, here: &Path) -> Option<String> {
    if let Some(path) = name.strip_prefix("trireme:") {
        let path = path.trim_start_matches('/');
        return Some(format!("/{path}"));
    }
    let prefix = Path::new(prefix.filter(|prefix| !prefix.is_empty())?);
    let full = clean(&here.join(name));
    let below = full.strip_prefix(clean(prefix)).ok()?;
    if below.as_os_str().is_empty() {
        return None;
    }
    Some(format!("/{}", below.to_str()?))
}

/// Without `.` and `..`, by the names alone.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_ours() {
        let here = Path::new("/home/me");
        let case = |name, prefix| resolve(name, prefix, here);
        assert_eq!(case("trireme:/a/b", None).as_deref(), Some("/a/b"));
        assert_eq!(case("trireme:a", None).as_deref(), Some("/a"));
        assert_eq!(case("/a/b", None), None);
        assert_eq!(case("ufs:/a/b", None), None);
        assert_eq!(case("/t/a/b", Some("/t")).as_deref(), Some("/a/b"));
        assert_eq!(case("/t/a/b", Some("/t/")).as_deref(), Some("/a/b"));
        assert_eq!(case("/two/a", Some("/t")), None);
        assert_eq!(case("/t/../a", Some("/t")), None);
        assert_eq!(case("run/x", Some("/home/me")).as_deref(), Some("/run/x"));
        assert_eq!(case("/t", Some("/t")), None);
        assert_eq!(case("/t/a", Some("")), None);
    }
}
