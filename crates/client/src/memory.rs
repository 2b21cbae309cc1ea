//! Buffers that servers on this host read by themselves, so that a write copies each byte once.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, RwLock, Weak};

use trireme_net::{WINDOW_BYTES, Window};

/// The shared buffers that exist, so that a write finds out that its bytes lie in one.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    windows: RwLock<Vec<Weak<Window>>>,
}

impl Registry {
    /// A new buffer, zeroed.
    pub fn buffer(&self, length: usize) -> io::Result<SharedBuffer> {
        if length == 0 || length as u64 > WINDOW_BYTES {
            let why = format!(
                "a shared buffer has 1 to {WINDOW_BYTES} bytes, not {length}; use several, or an \
                 ordinary buffer"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let window = Arc::new(Window::create(length)?);
        let mut windows = self.windows.write().expect("no panic under this lock");
        windows.retain(|window| window.strong_count() > 0);
        windows.push(Arc::downgrade(&window));
        Ok(SharedBuffer { window, length })
    }

    /// The shared buffer that holds all of `bytes`.
    pub fn around(&self, bytes: &[u8]) -> Option<Arc<Window>> {
        let windows = self.windows.read().expect("no panic under this lock");
        windows
            .iter()
            .filter_map(Weak::upgrade)
            .find(|window| window.place_of(bytes).is_some())
    }
}

/// Bytes in memory that this process shares with the I/O servers of its host; see
/// [`Cluster::buffer`](crate::Cluster::buffer).
#[derive(Debug)]
pub struct SharedBuffer {
    window: Arc<Window>,
    length: usize,
}

impl Deref for SharedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let address = self
            .window
            .at(0, self.length as u64)
            .expect("its own length");
        // SAFETY: the mapping lives as long as `window`. In this process its bytes are changed only
        // through `deref_mut` of this one owner; servers hand addresses to the kernel to read from.
        unsafe { std::slice::from_raw_parts(address, self.length) }
    }
}

impl DerefMut for SharedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let address = self
            .window
            .at(0, self.length as u64)
            .expect("its own length");
        // SAFETY: as above, and `&mut self` makes this the only slice of it.
        unsafe { std::slice::from_raw_parts_mut(address, self.length) }
    }
}
