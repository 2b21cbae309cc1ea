//! The one buffer of a busy connection: made at its first use.

/// Size of a connection's buffer: fits the second-level cache, so that what was received is still
/// there when it is written; and a stripe unit up to this size is written by one system call.
pub const BUFFER: usize = 256 << 10;

/// A buffer that takes memory only once it is used.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// The whole buffer.
    pub fn get(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; BUFFER];
        }
        &mut self.0
    }
}
