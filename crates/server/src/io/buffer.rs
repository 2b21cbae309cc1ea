//! The one buffer of a busy connection: made at its first use.

/// Size of a connection's buffer: fits the second-level cache, so that what was received is still
/// there when it is written; and a stripe unit up to this size is written by one system call.
pub const BUFFER: usize = 256 << 10;

/// A buffer that takes memory only once it is used, at a page's start.
#[derive(Debug, Default)]
pub struct Buffer(trireme_store::Aligned);

impl Buffer {
    /// The whole buffer.
    pub fn get(&mut self) -> &mut [u8] {
        self.0.get(BUFFER)
    }
}
