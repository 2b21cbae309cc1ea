//! What a reader should never trip over: files without a purpose, leftovers, endless files.

use std::path::{Path, PathBuf};

/// Longest source file. Most stay under 500 lines; one that needs more has a second job inside.
const MAX_LINES: usize = 800;

/// Longest file of tests: a family of scenarios may stay together.
const MAX_TEST_LINES: usize = 1000;

/// Words that mark unfinished work, spelled so that this file does not contain them itself.
const LEFTOVERS: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
];

/// Every offence against tidiness in the tree.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz/fuzz_targets"] {
        collect(&root.join(folder), &mut files)?;
    }
    let mut offences = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let name = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        offences.extend(in_file(&name, &text));
    }
    Ok(offences)
}

fn in_file(name: &str, text: &str) -> Vec<String> {
    let mut offences = Vec::new();
    if !text.starts_with("//!") {
        offences.push(format!(
            "{name}: the first line does not say why the file exists (//!)"
        ));
    }
    let lines = text.lines().count();
    if lines
        > if name.contains("/tests/") {
            MAX_TEST_LINES
        } else {
            MAX_LINES
        }
    {
        offences.push(format!("{name}: {lines} lines; what is its second job?"));
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = LEFTOVERS.iter().find(|word| line.contains(**word)) {
            offences.push(format!("{name}:{}: '{word}' is left over", number + 1));
        }
    }
    offences
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_purpose_and_a_leftover_are_offences() {
        let leftover = format!("fn f() {{ {}) }}\n", LEFTOVERS[0]);
        assert_eq!(in_file("x.rs", &leftover).len(), 2);
        assert_eq!(in_file("x.rs", "//! Why.\n"), Vec::<String>::new());
    }
}
