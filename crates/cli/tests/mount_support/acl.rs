//! Access control lists in the words of scripts, `u::rw,u:1001:r,g::-,m::rw,o::-`, and in the form in
//! which the kernel takes them; so tests of lists need no program beside them.

use std::fmt::Write as _;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// The attribute that a script's word stands for.
fn attribute(kind: &str) -> &'static str {
    match kind {
        "access" => "system.posix_acl_access",
        "default" => "system.posix_acl_default",
        other => panic!("no list {other}"),
    }
}

const TAGS: [(&str, u16, u16); 4] = [
    ("u", 1, 2),
    ("g", 4, 8),
    ("m", 0x10, 0x10),
    ("o", 0x20, 0x20),
];

/// The kernel's form; `raw:` stands before bytes in hexadecimal.
fn encode(text: &str) -> Vec<u8> {
    if let Some(digits) = text.strip_prefix("raw:") {
        let pairs = digits.as_bytes().chunks(2);
        return pairs
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
    }
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for line in text.split(',').filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = line.split(':').collect();
        let (_, own, named) = TAGS.into_iter().find(|tag| tag.0 == parts[0]).unwrap();
        let (tag, id) = match parts[1] {
            "" => (own, u32::MAX),
            id => (named, id.parse().unwrap()),
        };
        let right = |(letter, bit)| if parts[2].contains(letter) { bit } else { 0 };
        let rights: u16 = [('r', 4), ('w', 2), ('x', 1)].map(right).iter().sum();
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> String {
    let (head, lines) = bytes.split_at(4);
    let mut text = String::new();
    if head != 2u32.to_le_bytes() {
        let _ = write!(text, "version {head:?}");
    }
    for line in lines.chunks(8) {
        let number = |at: usize| u16::from_le_bytes([line[at], line[at + 1]]);
        let id = u32::from_le_bytes(line[4..8].try_into().unwrap());
        let tag = TAGS
            .iter()
            .find(|tag| [tag.1, tag.2].contains(&number(0)))
            .unwrap();
        let id = if id == u32::MAX {
            String::new()
        } else {
            id.to_string()
        };
        let rights =
            [('r', 4), ('w', 2), ('x', 1)].map(
                |(letter, bit)| {
                    if number(2) & bit == 0 { '-' } else { letter }
                },
            );
        let rights: String = rights.iter().collect();
        let _ = write!(text, "{}:{id}:{rights},", tag.0);
    }
    text
}

/// `setacl PATH access|default LIST`.
pub fn set(path: &Path, kind: &str, list: &str) -> Result<String, Errno> {
    let flags = XattrFlags::empty();
    rustix::fs::lsetxattr(path, attribute(kind), &encode(list), flags)?;
    Ok("ok".into())
}

/// `getacl PATH`: both lists.
pub fn get(path: &Path) -> Result<String, Errno> {
    let one = |kind| {
        let mut bytes = vec![0; 8192];
        match rustix::fs::lgetxattr(path, attribute(kind), &mut bytes) {
            Ok(length) => Ok(decode(&bytes[..length])),
            Err(Errno::NODATA) => Ok("none".into()),
            Err(errno) => Err(errno),
        }
    };
    Ok(format!("{} default {}", one("access")?, one("default")?))
}

/// `delacl PATH access|default`.
pub fn remove(path: &Path, kind: &str) -> Result<String, Errno> {
    rustix::fs::lremovexattr(path, attribute(kind))?;
    Ok("ok".into())
}
