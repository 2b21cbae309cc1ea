//! What a member moves: bytes of the file in file order, and how they lie in its buffer.

use std::ops::Range;

use trireme_partition::{Extent, Part};

use crate::{Error, Result};

/// A member's side of a collective.
#[derive(Debug)]
pub(crate) struct Access {
    /// Its bytes of the file, numbered in file order.
    part: Part,
    /// Where they lie, if not in the same order from the buffer's start.
    detour: Option<Detour>,
}

#[derive(Debug)]
struct Detour {
    /// The view's order, if that is not the file's.
    order: Option<(Part, Range<u64>)>,
    /// The bytes of the buffer, if not all of them in order.
    memory: Option<Part>,
}

impl Access {
    /// `length` bytes of a buffer, or those that `memory` selects, are bytes `at` and following of `view`.
    pub fn new(view: Part, at: u64, memory: Option<&Part>, length: usize) -> Result<Access> {
        let bytes = match memory {
            None => length as u64,
            Some(memory) if memory.file_span().end <= length as u64 => memory.size(),
            Some(memory) => {
                return Err(Error::Invalid(format!(
                    "the memory's last byte is number {}, the buffer has {length}",
                    memory.file_span().end
                )));
            }
        };
        let end = at.checked_add(bytes).filter(|end| *end <= view.size());
        let Some(end) = end else {
            return Err(Error::Invalid(format!(
                "the view has {} bytes, {bytes} from {at} on do not fit",
                view.size()
            )));
        };
        let range = at..end;
        let ordered = view.is_ordered();
        let part = if bytes == 0 {
            Part::empty()
        } else if ordered {
            let offset = |byte| view.to_file(byte).expect("inside the view");
            view.clip(offset(at)..offset(end - 1) + 1)?
        } else if range == (0..view.size()) {
            view.clip(view.file_span())?
        } else {
            let extents: Vec<Extent> = pieces(&view, &range)
                .map(|(file, _, len)| Extent { offset: file, len })
                .collect();
            Part::from_extents(&extents)?
        };
        let memory = memory
            .filter(|memory| !memory.is_ordered() || memory.file_span() != (0..bytes))
            .cloned();
        let detour = (!ordered || memory.is_some()).then_some(Detour {
            order: (!ordered).then_some((view, range)),
            memory,
        });
        Ok(Access { part, detour })
    }

    /// This member's bytes of the file; byte n of the packed buffer is its byte n.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Pieces of the file.
    pub fn pieces(&self) -> u64 {
        self.part.runs_in(self.part.file_span())
    }

    /// Whether the buffer can be used as it is.
    pub fn is_direct(&self) -> bool {
        self.detour.is_none()
    }

    /// The part of the buffer to use then.
    pub fn direct(&self) -> Range<usize> {
        0..self.part.size() as usize
    }

    /// Copies the bytes of a buffer to `packed`, in file order.
    pub fn pack(&self, data: &[u8], packed: &mut [u8]) {
        let (order, memory) = match &self.detour {
            None => (None, None),
            Some(detour) => (detour.order.as_ref(), detour.memory.as_ref()),
        };
        let Some((view, range)) = order else {
            match memory {
                None => packed.copy_from_slice(&data[self.direct()]),
                Some(memory) => gather(memory, data, packed),
            }
            return;
        };
        let mut gathered;
        let mut bytes = data;
        if let Some(memory) = memory {
            gathered = vec![0; packed.len()];
            gather(memory, data, &mut gathered);
            bytes = &gathered;
        }
        let mut to = 0;
        for (_, at, len) in pieces(view, range) {
            let (from, len) = ((at - range.start) as usize, len as usize);
            packed[to..to + len].copy_from_slice(&bytes[from..from + len]);
            to += len;
        }
    }

    /// Puts bytes in file order to where the buffer wants them; its other bytes stay.
    pub fn unpack(&self, packed: &[u8], data: &mut [u8]) {
        let Some(detour) = &self.detour else {
            data[self.direct()].copy_from_slice(packed);
            return;
        };
        let mut unordered;
        let mut bytes = packed;
        if let Some((view, range)) = &detour.order {
            unordered = vec![0; packed.len()];
            let mut from = 0;
            for (_, at, len) in pieces(view, range) {
                let (to, len) = ((at - range.start) as usize, len as usize);
                unordered[to..to + len].copy_from_slice(&packed[from..from + len]);
                from += len;
            }
            bytes = &unordered;
        }
        match &detour.memory {
            None => data[..bytes.len()].copy_from_slice(bytes),
            Some(memory) => {
                for run in memory.runs(memory.file_span()) {
                    let (to, from, len) = (run.file as usize, run.view as usize, run.len as usize);
                    data[to..to + len].copy_from_slice(&bytes[from..from + len]);
                }
            }
        }
    }
}

/// The bytes that a part selects, one after the other.
fn gather(memory: &Part, data: &[u8], into: &mut [u8]) {
    for run in memory.runs(memory.file_span()) {
        let (from, to, len) = (run.file as usize, run.view as usize, run.len as usize);
        into[to..to + len].copy_from_slice(&data[from..from + len]);
    }
}

/// The pieces of a range of a view in file order: file offset, view offset, length.
fn pieces<'a>(view: &'a Part, range: &Range<u64>) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
    let range = range.clone();
    view.runs(view.file_span()).filter_map(move |run| {
        let from = run.view.max(range.start);
        let to = (run.view + run.len).min(range.end);
        (from < to).then(|| (run.file + (from - run.view), from, to - from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_on_either_side_is_undone_again() {
        // File order 2, 0, 1; memory with gaps, backwards.
        let extent = |offset, len| Extent { offset, len };
        let view = Part::from_extents(&[extent(20, 3), extent(0, 2), extent(10, 4)]).unwrap();
        let memory = Part::from_extents(&[extent(12, 5), extent(2, 3)]).unwrap();
        let access = Access::new(view, 1, Some(&memory), 20).unwrap();
        assert_eq!(access.part().size(), 8);
        let data: Vec<u8> = (0..20).collect();
        // View bytes 1..9 are memory bytes 12..17, 2..5; in the file: 21, 22, 0, 1, 10..14.
        let mut packed = [0; 8];
        access.pack(&data, &mut packed);
        assert_eq!(packed, [14, 15, 16, 2, 3, 4, 12, 13]);
        let mut back = vec![99; 20];
        access.unpack(&packed, &mut back);
        let wanted: Vec<u8> = (0..20)
            .map(|b| {
                if (12..17).contains(&b) || (2..5).contains(&b) {
                    b
                } else {
                    99
                }
            })
            .collect();
        assert_eq!(back, wanted);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let view = Part::contiguous(100, 50).unwrap();
        assert!(Access::new(view.clone(), 0, None, 51).is_err());
        assert!(Access::new(view.clone(), u64::MAX, None, 2).is_err());
        let memory = Part::contiguous(0, 10).unwrap();
        assert!(Access::new(view.clone(), 0, Some(&memory), 9).is_err());
        let access = Access::new(view, 10, Some(&memory), 10).unwrap();
        assert!(access.is_direct());
        assert_eq!(access.part().file_span(), 110..120);
    }
}
