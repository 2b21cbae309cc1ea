//! A user's buffer: where its bytes lie in memory, gaps included, and how they are packed where the
//! file's representation is not the memory's.

use std::ffi::{c_int, c_void};

use trireme_partition::{Datatype, Part};

use crate::abi::{Handle, call};
use crate::class::{Class, Failure, Result};
use crate::datatype;
use crate::external::Form;
use crate::mpi::{self, check};

/// Buffer, count and type as a program gave them.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    pub buffer: *mut c_void,
    pub count: i64,
    pub datatype: Handle,
}

/// The bytes of a buffer. Whoever gives one to another thread sees to it that the program leaves the
/// buffer alone: MPI's rule for operations that are under way.
#[derive(Debug)]
pub struct Memory {
    first: *mut u8,
    span: usize,
    /// Which bytes of the span, if not all of them in order.
    part: Option<Part>,
    /// Bytes of data.
    pub bytes: u64,
    /// Bytes as they stand in the file, if they do not stand so in memory.
    packed: Option<Vec<u8>>,
    /// What they are made of, and where they stand in memory, if they are others there.
    external: Option<(Form, Box<Memory>)>,
}

// SAFETY: the pointers are only used through `slice` and `slice_mut`, under MPI's rule that nobody else
// touches the buffer of an operation that is under way.
unsafe impl Send for Memory {}

impl Memory {
    /// A buffer as MPI describes it, to be written or read in native representation.
    pub fn new(described: Described, write: bool) -> Result<Memory> {
        let Described {
            buffer,
            count,
            datatype,
        } = described;
        let count = u64::try_from(count)
            .map_err(|_| Failure::new(Class::Count, format!("a count of {count}")))?;
        let measured = mpi::extent(datatype)?;
        let bytes = measured.size.checked_mul(count).ok_or_else(too_large)?;
        let plain = |first: *mut u8, span: u64, part| Memory {
            first,
            span: span as usize,
            part,
            bytes,
            packed: None,
            external: None,
        };
        let buffer = buffer.cast::<u8>();
        if bytes == 0 {
            return Ok(plain(std::ptr::null_mut(), 0, None));
        }
        let dense = measured.lower == 0 && measured.extent == measured.size as i64;
        if dense && datatype::is_basic(datatype)? {
            return Ok(plain(buffer, bytes, None));
        }
        let (lower, upper) = mpi::true_span(datatype)?;
        let reach = i64::try_from(count - 1)
            .ok()
            .and_then(|last| last.checked_mul(measured.extent))
            .ok_or_else(too_large)?;
        let first = lower + reach.min(0);
        let last = upper + reach.max(0);
        let span = (last - first) as u64;
        let origin = buffer.wrapping_offset(first as isize);
        let whole = datatype::decode(datatype)?.contiguous(count)?;
        // Counted from the first byte that is touched: the rest may not be there.
        let shifted = Datatype::structure(&[(-first, whole)])?;
        match Part::of(0, &shifted, 1) {
            Ok(part) if part.is_ordered() && part.size() == span => Ok(plain(origin, span, None)),
            Ok(part) => Ok(plain(origin, span, Some(part))),
            // The same memory twice: fine to write from.
            Err(_) if write => {
                let mut memory = plain(std::ptr::null_mut(), 0, None);
                memory.packed = Some(pack(described, bytes)?);
                Ok(memory)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A buffer whose bytes stand in the file as `external32` has them.
    pub fn external(described: Described, write: bool) -> Result<Memory> {
        let form = Form::of(described.datatype)?;
        let memory = Memory::new(described, write)?;
        let items = memory.bytes.checked_div(form.here()).unwrap_or(0);
        let bytes = items.checked_mul(form.there()).ok_or_else(too_large)?;
        let packed = if write {
            form.outward(&memory.gathered())?
        } else {
            vec![0; bytes as usize]
        };
        Ok(Memory {
            bytes,
            packed: Some(packed),
            external: Some((form, Box::new(memory))),
            ..Memory::none()
        })
    }

    /// Nothing.
    pub fn none() -> Memory {
        Memory {
            first: std::ptr::null_mut(),
            span: 0,
            part: None,
            bytes: 0,
            packed: None,
            external: None,
        }
    }

    /// The bytes of [`Memory::slice`] that count; `None`: all of them.
    pub fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    /// The memory that holds the bytes.
    pub fn slice(&self) -> &[u8] {
        match &self.packed {
            Some(packed) => packed,
            None if self.span == 0 => &[],
            // SAFETY: the program's buffer spans these bytes by its own description.
            None => unsafe { std::slice::from_raw_parts(self.first, self.span) },
        }
    }

    /// The same, to read into.
    pub fn slice_mut(&mut self) -> &mut [u8] {
        match &mut self.packed {
            Some(packed) => packed,
            None if self.span == 0 => &mut [],
            // SAFETY: as above; `&mut self` and MPI's rule make it the only one.
            None => unsafe { std::slice::from_raw_parts_mut(self.first, self.span) },
        }
    }

    /// The bytes in order, without gaps.
    pub fn gathered(&self) -> std::borrow::Cow<'_, [u8]> {
        let Some(part) = &self.part else {
            return self.slice().into();
        };
        let source = self.slice();
        let mut bytes = vec![0; self.bytes as usize];
        for run in part.runs(part.file_span()) {
            let (from, to, len) = (run.file as usize, run.view as usize, run.len as usize);
            bytes[to..to + len].copy_from_slice(&source[from..from + len]);
        }
        bytes.into()
    }

    /// Puts bytes in order to where they belong.
    pub fn scatter(&mut self, bytes: &[u8]) {
        let Some(part) = self.part.clone() else {
            let length = bytes.len();
            self.slice_mut()[..length].copy_from_slice(bytes);
            return;
        };
        let target = self.slice_mut();
        for run in part.runs(part.file_span()) {
            let (to, from) = (run.file as usize, run.view as usize);
            let len = (run.len as usize).min(bytes.len().saturating_sub(from));
            if len > 0 {
                target[to..to + len].copy_from_slice(&bytes[from..from + len]);
            }
        }
    }

    /// After a read of `got` bytes: turns them into the memory's representation.
    pub fn finish_read(&mut self, got: u64) -> Result<()> {
        let (Some((form, memory)), Some(packed)) = (&mut self.external, &self.packed) else {
            return Ok(());
        };
        let items = got.checked_div(form.there()).unwrap_or(0);
        let whole = &packed[..(items * form.there()) as usize];
        memory.scatter(&form.inward(whole)?);
        Ok(())
    }

    /// How many bytes of memory so many bytes of the file are: what a status tells.
    pub fn in_memory(&self, moved: u64) -> u64 {
        match &self.external {
            Some((form, _)) if form.there() > 0 => moved / form.there() * form.here(),
            _ => moved,
        }
    }
}

/// A buffer's bytes in order, as MPI packs them.
pub fn pack(described: Described, bytes: u64) -> Result<Vec<u8>> {
    let length = c_int::try_from(bytes).map_err(|_| too_large())?;
    let mut packed = vec![0u8; bytes as usize];
    let mut position = 0;
    let comm = mpi::own()?.comm_self;
    check(
        "MPI_Pack",
        call!(c"PMPI_Pack", described.buffer => *const c_void, described.count as c_int => c_int,
            described.datatype => Handle, packed.as_mut_ptr().cast() => *mut c_void,
            length => c_int, &raw mut position => *mut c_int, comm => Handle),
    )?;
    Ok(packed)
}

fn too_large() -> Failure {
    Failure::new(Class::Count, "the buffer is larger than any memory")
}
