//! What can be wrong with a request to the lab; every message names the key and the remedy.

/// Why the lab refused something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that does not exist, with the nearest that does.
    #[error("{what} `{name}` does not exist{nearest}; known: {known}")]
    Unknown {
        /// What kind of name it is ("parameter", "experiment", "key").
        what: &'static str,
        /// The name as given.
        name: String,
        /// ": did you mean `x`?" or nothing.
        nearest: String,
        /// All valid names.
        known: String,
    },
    /// A value outside what its key allows.
    #[error("`{key} = {value}` is not allowed: {reason}; allowed: {allowed}")]
    Value {
        /// The key's name.
        key: String,
        /// The value as given.
        value: String,
        /// Why it is refused.
        reason: String,
        /// The range or the choices.
        allowed: String,
    },
    /// An experiment file that is not valid TOML.
    #[error("{file}: {reason}")]
    File {
        /// The file's name.
        file: String,
        /// What the parser or the system said.
        reason: String,
    },
    /// A model that could not run with these settings.
    #[error("{0}")]
    Model(String),
}

impl Error {
    /// An unknown name, with the nearest of the `known` ones as a suggestion.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Error {
        let known: Vec<&str> = known.into_iter().collect();
        let nearest = nearest(name, &known)
            .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        Error::Unknown {
            what,
            name: name.into(),
            nearest,
            known: known.join(", "),
        }
    }

    /// A value that its key does not allow.
    pub fn value(
        key: &str,
        value: impl ToString,
        reason: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Error {
        Error::Value {
            key: key.into(),
            value: value.to_string(),
            reason: reason.into(),
            allowed: allowed.into(),
        }
    }
}

/// The known name with the smallest edit distance, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(d, candidate)| *d <= 1 + candidate.len().max(name.len()) / 3)
        .min_by_key(|(d, _)| *d)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != *y))
                .min(above + 1)
                .min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_gets_the_nearest_one() {
        let message = Error::unknown("parameter", "dsiks", ["disks", "cps", "seeds"]).to_string();
        assert!(message.contains("did you mean `disks`?"), "{message}");
        let message = Error::unknown("parameter", "zzzzzzzz", ["disks", "cps"]).to_string();
        assert!(!message.contains("did you mean"), "{message}");
    }
}
