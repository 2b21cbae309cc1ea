//! Independent runs on several threads, results in the order of the inputs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on every item with at most `jobs` threads. The result does not depend on `jobs`.
pub fn replicate<T, R, F>(jobs: usize, items: &[T], work: F) -> Vec<R>
where
    T: Sync,
    R: Send,
    F: Fn(&T) -> R + Sync,
{
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            *results[index]
                .lock()
                .expect("no other thread holds this slot") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(worker);
        }
        worker();
    });
    results
        .into_iter()
        .map(|slot| {
            slot.into_inner()
                .ok()
                .flatten()
                .expect("every item was worked on")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_does_not_change_the_results() {
        let items: Vec<u64> = (0..100).collect();
        let one = replicate(1, &items, |x| x * x);
        assert_eq!(one, replicate(3, &items, |x| x * x));
        assert_eq!(one[99], 9801);
        assert!(replicate(4, &[] as &[u64], |x| *x).is_empty());
    }
}
