//! Buffers of this process that a server in the same process may touch: plain copies instead of a
//! detour through the kernel, and none after the buffer's owner has let go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// A buffer on loan. Its owner's [`Loan`] ends the loan when dropped, also while somebody copies:
/// the drop then waits for the copy.
#[derive(Debug)]
pub struct Region {
    address: usize,
    length: usize,
    open: RwLock<bool>,
}

/// Keeps a [`Region`] open.
#[derive(Debug)]
pub struct Loan {
    region: Arc<Region>,
    number: u64,
}

/// The last number given, and what is on loan.
type Regions = Mutex<(u64, HashMap<u64, Arc<Region>>)>;

fn regions() -> &'static Regions {
    static REGIONS: OnceLock<Regions> = OnceLock::new();
    REGIONS.get_or_init(Mutex::default)
}

impl Loan {
    /// Lends `length` bytes at `address`.
    ///
    /// # Safety
    /// The bytes must stay valid, and untouched by others, while the loan lives.
    pub unsafe fn new(address: *mut u8, length: usize) -> Loan {
        let region = Arc::new(Region {
            address: address as usize,
            length,
            open: RwLock::new(true),
        });
        let mut regions = regions().lock().unwrap_or_else(PoisonError::into_inner);
        regions.0 += 1;
        let number = regions.0;
        regions.1.insert(number, region.clone());
        Loan { region, number }
    }
}

impl Loan {
    /// What is on loan.
    pub fn region(&self) -> Arc<Region> {
        self.region.clone()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        regions()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .remove(&self.number);
        *self
            .region
            .open
            .write()
            .unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Region {
    /// The region on loan that is exactly these bytes.
    pub fn find(address: u64, length: u64) -> Option<Arc<Region>> {
        regions()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .values()
            .find(|region| region.address as u64 == address && region.length as u64 == length)
            .cloned()
    }

    /// Runs `with` on the region's address while it is certainly on loan; `None`: it no longer is.
    pub fn with<T>(&self, with: impl FnOnce(*mut u8) -> T) -> Option<T> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.then(|| with(self.address as *mut u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_touches_a_buffer_after_the_loan() {
        let mut buffer = vec![7u8; 100];
        let at = buffer.as_mut_ptr();
        // SAFETY: `buffer` outlives the loan and is not used meanwhile.
        let loan = unsafe { Loan::new(at, 100) };
        assert!(Region::find(at as u64, 99).is_none());
        let region = Region::find(at as u64, 100).unwrap();
        assert_eq!(region.with(|base| base as usize), Some(at as usize));
        drop(loan);
        assert_eq!(region.with(|base| base as usize), None);
        assert!(Region::find(at as u64, 100).is_none());
    }

    #[test]
    fn the_end_of_a_loan_waits_for_copies() {
        // Many short loans against a copier that never stops: a copy after the end would be seen by
        // the check below (and by an address sanitizer).
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (sender, receiver) = std::sync::mpsc::channel::<Arc<Region>>();
        std::thread::scope(|scope| {
            let stopped = &stop;
            scope.spawn(move || {
                let mut last: Option<Arc<Region>> = None;
                while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                    last = receiver.try_recv().ok().or(last);
                    if let Some(region) = &last {
                        // SAFETY: on loan while this runs.
                        region.with(|base| unsafe { base.write_bytes(1, 4096) });
                    }
                }
            });
            for _ in 0..300 {
                let mut buffer = vec![0u8; 4096];
                // SAFETY: `buffer` outlives the loan and is not used meanwhile.
                let loan = unsafe { Loan::new(buffer.as_mut_ptr(), 4096) };
                sender
                    .send(Region::find(buffer.as_ptr() as u64, 4096).unwrap())
                    .unwrap();
                std::thread::yield_now();
                drop(loan);
                buffer.fill(2);
                assert!(buffer.iter().all(|byte| *byte == 2));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
