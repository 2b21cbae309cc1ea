//! The label of a disk: whose it is, and whether the bytes of the last run can have been lost.
//!
//! The page cache belongs to the running kernel. If the label says that the same boot wrote it,
//! everything acknowledged is still there, however the server died. After another boot it is there
//! only if the server was stopped cleanly (all written back). Otherwise the incarnation changes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::{Event, Options, StoreError};

/// Format of the directory; a newer one is refused.
const FORMAT: u32 = 1;

/// What a disk's label says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub server: u32,
    pub cluster: u64,
    pub incarnation: u64,
    pub boot: String,
    pub clean: bool,
}

impl Label {
    /// Reads a label; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Label>, StoreError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read the label", path)(error)),
        };
        Label::parse(&text)
            .map(Some)
            .map_err(|why| StoreError::Foreign {
                path: path.into(),
                why,
            })
    }

    fn parse(text: &str) -> Result<Label, String> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.split_once(" = ").filter(|(key, _)| *key == name))
                .map(|(_, value)| value)
                .ok_or_else(|| format!("the label has no field {name:?}: not a trireme disk?"))
        };
        let number = |name: &str| {
            field(name)?
                .parse::<u64>()
                .map_err(|_| format!("the label's {name} is not a number"))
        };
        let format = number("format")?;
        if format != u64::from(FORMAT) {
            return Err(format!(
                "the disk has format {format}, this program knows {FORMAT}: use the program that made it"
            ));
        }
        Ok(Label {
            server: number("server")? as u32,
            cluster: number("cluster")?,
            incarnation: number("incarnation")?,
            boot: field("boot")?.to_owned(),
            clean: field("clean")? == "yes",
        })
    }

    fn text(&self) -> String {
        format!(
            "format = {FORMAT}\nserver = {}\ncluster = {}\nincarnation = {}\nboot = {}\nclean = {}\n",
            self.server,
            self.cluster,
            self.incarnation,
            self.boot,
            if self.clean { "yes" } else { "no" }
        )
    }

    /// Replaces the label, durably and atomically.
    pub fn write(&self, path: &Path, options: &Options) -> Result<(), StoreError> {
        let new = path.with_extension("new");
        let folder = path.parent().expect("a label is in a directory");
        let write = || {
            let text = self.text();
            options.saw(Event::Make(&new))?;
            let mut file = File::create(&new)?;
            options.saw(Event::Write {
                path: &new,
                offset: 0,
                bytes: text.as_bytes(),
            })?;
            file.write_all(text.as_bytes())?;
            options.saw(Event::Sync(&new))?;
            file.sync_all()?;
            options.saw(Event::Rename {
                from: &new,
                to: path,
            })?;
            fs::rename(&new, path)?;
            options.saw(Event::SyncFolder(folder))?;
            File::open(folder)?.sync_all()
        };
        write().map_err(StoreError::io("write the label", path))
    }

    /// The label for a run that starts now: another incarnation if bytes can have been lost.
    pub fn start(self, boot: &str, fresh: u64) -> Label {
        let kept = self.clean || self.boot == boot;
        Label {
            incarnation: if kept { self.incarnation } else { fresh },
            boot: boot.to_owned(),
            clean: false,
            ..self
        }
    }
}

/// Names this boot of the kernel.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(
        |_| format!("unknown-{}", fresh()),
        |text| text.trim().to_owned(),
    )
}

/// A random number, not zero.
pub fn fresh() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's hash seeds come from the kernel's random source.
    RandomState::new().hash_one(std::process::id()) >> 2 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> Label {
        Label {
            server: 3,
            cluster: 8,
            incarnation: 11,
            boot: "b1".into(),
            clean: false,
        }
    }

    #[test]
    fn comes_back_from_its_text() {
        assert_eq!(Label::parse(&label().text()), Ok(label()));
        assert!(
            Label::parse("format = 2\n")
                .unwrap_err()
                .contains("format 2")
        );
        assert!(Label::parse("hello").is_err());
    }

    #[test]
    fn incarnation_changes_exactly_when_bytes_can_have_been_lost() {
        assert_eq!(
            label().start("b1", 99).incarnation,
            11,
            "killed, same boot: cache lives"
        );
        assert_eq!(label().start("b2", 99).incarnation, 99, "power cut");
        let clean = Label {
            clean: true,
            ..label()
        };
        assert_eq!(
            clean.clone().start("b2", 99).incarnation,
            11,
            "clean stop, then reboot"
        );
        assert!(!clean.start("b2", 99).clean);
    }
}
