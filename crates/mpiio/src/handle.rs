//! `MPI_File` handles of ours: addresses inside this library, which no MPI can have made.

use std::ffi::c_int;
use std::sync::{Arc, PoisonError, RwLock};

use crate::open::Open;

/// Most files that a process can have open here: each has connections of its own.
const FILES: usize = 4096;

/// Handles are the addresses of these bytes; nobody reads or writes them.
static PLACES: [u8; FILES] = [0; FILES];

/// Fortran's numbers for our files; MPI's own are small.
const FORTRAN: c_int = 0x5472_0000;

static OPEN: RwLock<Vec<Option<Arc<Open>>>> = RwLock::new(Vec::new());

/// The open file of a handle, if it is one of ours.
pub fn get(handle: usize) -> Option<Arc<Open>> {
    let slot = slot(handle)?;
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    open.get(slot).cloned().flatten()
}

/// A handle for a file.
pub fn insert(file: Open) -> Option<(usize, Arc<Open>)> {
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    let slot = open.iter().position(Option::is_none).unwrap_or_else(|| {
        open.push(None);
        open.len() - 1
    });
    if slot >= FILES {
        open.pop();
        return None;
    }
    let file = Arc::new(file);
    open[slot] = Some(file.clone());
    Some((PLACES.as_ptr() as usize + slot, file))
}

/// Forgets a handle.
pub fn remove(handle: usize) -> Option<Arc<Open>> {
    let slot = slot(handle)?;
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    open.get_mut(slot)?.take()
}

/// Fortran's number for a handle of ours.
pub fn to_fortran(handle: usize) -> Option<c_int> {
    Some(FORTRAN + slot(handle)? as c_int)
}

/// The handle of a Fortran number of ours.
pub fn from_fortran(number: c_int) -> Option<usize> {
    let slot = usize::try_from(number.checked_sub(FORTRAN)?).ok()?;
    (slot < FILES).then(|| PLACES.as_ptr() as usize + slot)
}

fn slot(handle: usize) -> Option<usize> {
    let slot = handle.checked_sub(PLACES.as_ptr() as usize)?;
    (slot < FILES).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_and_its_number_are_one() {
        let first = PLACES.as_ptr() as usize;
        for handle in [first, first + 7, first + FILES - 1] {
            assert_eq!(from_fortran(to_fortran(handle).unwrap()), Some(handle));
        }
        assert_eq!(to_fortran(first + FILES), None);
        assert_eq!(to_fortran(0), None);
        assert_eq!(from_fortran(3), None);
        assert_eq!(from_fortran(-1), None);
        assert!(get(first + 9).is_none());
    }
}
