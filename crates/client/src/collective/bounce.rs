//! The memory in which a member packs bytes that do not lie in its buffer as they lie in the file: shared
//! with the servers of its host, so that packing is the only copy on the member's side, and kept from one
//! collective to the next.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use crate::{Cluster, SharedBuffer};

/// The longest memory that is kept; what is longer is packed in ordinary memory.
const KEPT: usize = 64 << 20;

/// A member's memory for packing; empty while a collective uses it.
#[derive(Debug, Default)]
pub(crate) struct Bounce(Mutex<Option<SharedBuffer>>);

/// Memory that was taken.
pub(crate) struct Packed<'a> {
    from: &'a Bounce,
    memory: Memory,
    length: usize,
}

enum Memory {
    Shared(SharedBuffer),
    Own(Vec<u8>),
}

impl Bounce {
    /// So many bytes, whatever they are.
    pub fn take(&self, cluster: &Cluster, length: usize) -> Packed<'_> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let kept = kept.filter(|buffer| buffer.len() >= length);
        let memory = match kept {
            Some(buffer) => Some(buffer),
            None if length == 0 || length > KEPT => None,
            // Rounded up, so that sizes that vary a little do not each need another.
            None => cluster.buffer(length.next_power_of_two()).ok(),
        };
        Packed {
            from: self,
            memory: match memory {
                Some(buffer) => Memory::Shared(buffer),
                None => Memory::Own(vec![0; length]),
            },
            length,
        }
    }
}

impl Deref for Packed<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Shared(buffer) => &buffer[..self.length],
            Memory::Own(bytes) => bytes,
        }
    }
}

impl DerefMut for Packed<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Shared(buffer) => &mut buffer[..self.length],
            Memory::Own(bytes) => bytes,
        }
    }
}

impl Packed<'_> {
    /// Gives it back for the next collective. After one that failed it is dropped instead: a server that
    /// was not heard of any more may still reach into it.
    pub fn keep(self) {
        if let Memory::Shared(buffer) = self.memory {
            let mut kept = self.from.0.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_memory_is_used_again_and_lost_memory_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let embedded = crate::embedded::Embedded::start(dir.path(), 1).unwrap();
        let cluster = embedded.connect().unwrap();
        let bounce = Bounce::default();
        let mut first = bounce.take(&cluster, 5000);
        first[4999] = 7;
        assert_eq!(first.len(), 5000);
        first.keep();
        // Longer, and still within what was rounded up to.
        let again = bounce.take(&cluster, 8000);
        assert_eq!((again.len(), again[4999]), (8000, 7));
        drop(again);
        assert!(bounce.take(&cluster, 5000).iter().all(|byte| *byte == 0));
        let large = bounce.take(&cluster, KEPT + 1);
        assert!(matches!(large.memory, Memory::Own(_)));
        large.keep();
        assert!(bounce.0.lock().unwrap().is_none());
        assert!(bounce.take(&cluster, 0).is_empty());
    }
}
