//! The cluster key, and the tokens that make file numbers unguessable.
//!
//! Two secrets. Whoever holds the *cluster key* may speak to the servers at all: clients and
//! servers have it. The *token key* is known to the servers only: the manager signs what a
//! client may do with a file ([`Key::grant`]), the I/O servers check the signature, and no client
//! can make one.

/// A 32-byte secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// A key from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// The key of a cluster without one: known to all, so it proves nothing. Only for
    /// servers that listen on loopback and Unix sockets.
    pub const fn open() -> Key {
        Key(*b"trireme: an open cluster, no key")
    }

    /// Reads the text form: 64 hexadecimal digits, spaces around them allowed.
    pub fn from_text(text: &str) -> Option<Key> {
        let text = text.trim().as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Key(bytes))
    }

    /// The text form, for a key file.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// A keyed hash of `parts`, bound to its `purpose`.
    pub fn mac(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(purpose.len() as u64).to_le_bytes());
        hasher.update(purpose.as_bytes());
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Signs what the holder may do with `file`.
    pub fn token(&self, file: u64, rights: Rights) -> Token {
        let mut input = [0; 32];
        input[..8].copy_from_slice(&file.to_le_bytes());
        input[8..10].copy_from_slice(&rights.0.to_le_bytes());
        input[16..].copy_from_slice(b"trireme token v1");
        let hash = blake3::keyed_hash(&self.0, &input);
        let bytes: [u8; 8] = hash.as_bytes()[..8].try_into().expect("eight bytes");
        Token(u64::from_le_bytes(bytes))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a token grants: [`Flags`](crate::Flags) bits `MAY_READ`, `MAY_WRITE`, `MAY_REMOVE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Rights(u16);

impl Rights {
    /// Nothing but asking for the size.
    pub const NONE: Rights = Rights(0);
    /// Reading, and asking for the size.
    pub const READ: Rights = Rights(4);
    /// Writing, truncating and syncing.
    pub const WRITE: Rights = Rights(8);
    /// Removing.
    pub const REMOVE: Rights = Rights(16);
    /// Reading and writing.
    pub const READ_WRITE: Rights = Rights(12);

    const ALL: u16 = 28;

    /// The rights that a frame's flags claim.
    pub fn claimed(flags: crate::Flags) -> Rights {
        Rights(flags.0 & Self::ALL)
    }

    /// As flags of a request.
    pub fn flags(self) -> crate::Flags {
        crate::Flags(self.0)
    }

    /// Whether all of `other` is granted.
    pub fn allow(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// A signature over a file number and rights, 64 bits: it can only be guessed online,
/// and each wrong guess costs a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Token(pub u64);

/// Everything that lets a client use a file on the I/O servers; given out by the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Grant {
    /// The file's number.
    pub file: u64,
    /// What is granted.
    pub rights: Rights,
    /// The signature over both.
    pub token: Token,
}

impl Key {
    /// A grant, signed. Only servers hold the key that makes sense here.
    pub fn grant(&self, file: u64, rights: Rights) -> Grant {
        Grant {
            file,
            rights,
            token: self.token(file, rights),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_bind_file_and_rights() {
        let key = Key::new([1; 32]);
        let token = key.token(5, Rights::READ);
        assert_eq!(token, key.token(5, Rights::READ));
        assert_ne!(token, key.token(6, Rights::READ));
        assert_ne!(token, key.token(5, Rights::READ_WRITE));
        assert_ne!(token, Key::new([2; 32]).token(5, Rights::READ));
    }

    #[test]
    fn the_text_form_comes_back() {
        let key = Key::new(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(Key::from_text(&format!(" {}\n", key.to_text())), Some(key));
        assert_eq!(Key::from_text("abc"), None);
        assert_eq!(Key::from_text(&"zz".repeat(32)), None);
    }
}
