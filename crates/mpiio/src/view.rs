//! What a process sees of a file: displacement, elementary type, file type, representation.

use std::sync::{Arc, OnceLock};

use trireme_partition::{Datatype, Part};

use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::datatype;
use crate::external::Form;
use crate::folded::Folded;
use crate::mpi;

/// A view. The types are copies of the program's, which may be gone by now.
#[derive(Debug)]
pub struct View {
    pub displacement: u64,
    pub etype: Type,
    pub filetype: Type,
    pub representation: Representation,
    /// Bytes in an elementary type.
    pub unit: u64,
    /// The bytes of the file that are visible, in the order in which they are.
    pub part: Part,
    /// Where the view's byte 0 is, if all that follows it is visible.
    pub plain: Option<u64>,
    /// The bytes that are visible, where `part` does not say it: if some are so more than once, or copies
    /// of the file type reach into each other.
    folded: OnceLock<Option<Folded>>,
    /// How many of the view's bytes `part` is right for.
    whole: u64,
}

/// How numbers stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Native,
    Internal,
    External32,
}

impl Representation {
    pub fn named(name: &str) -> Result<Representation> {
        match name.to_ascii_lowercase().as_str() {
            "native" => Ok(Representation::Native),
            "internal" => Ok(Representation::Internal),
            "external32" => Ok(Representation::External32),
            _ => Err(Failure::new(
                Class::UnsupportedDatarep,
                format!("data representation \"{name}\": native, internal or external32"),
            )),
        }
    }

    /// A type as it stands in the file.
    pub fn measure(self, datatype: Handle) -> Result<(mpi::Extent, Datatype)> {
        let here = mpi::extent(datatype)?;
        // Most types are of one size in both, and then all that MPI says of them holds for both.
        if self != Representation::External32 || Form::of(datatype)?.there() == here.size {
            return Ok((here, datatype::decode(datatype)?));
        }
        let decoded = datatype::decode_outside(datatype)?;
        let there = mpi::Extent {
            size: decoded.size(),
            lower: decoded.lower_bound(),
            extent: decoded.extent(),
        };
        Ok((there, decoded))
    }

    pub fn name(self) -> &'static str {
        match self {
            Representation::Native => "native",
            Representation::Internal => "internal",
            Representation::External32 => "external32",
        }
    }
}

/// A copy of a type, given back when dropped; a type that MPI came with is itself.
#[derive(Debug)]
pub struct Type {
    pub handle: Handle,
    owned: bool,
}

impl Type {
    pub fn copy(handle: Handle) -> Result<Type> {
        if datatype::is_basic(handle)? {
            return Ok(Type {
                handle,
                owned: false,
            });
        }
        Ok(Type {
            handle: mpi::duplicate_type(handle)?,
            owned: true,
        })
    }
}

impl Drop for Type {
    fn drop(&mut self) {
        if self.owned {
            mpi::free_type(self.handle);
        }
    }
}

impl View {
    /// The view of a file that was just opened: all its bytes.
    pub fn bytes() -> Result<Arc<View>> {
        let byte = mpi::own()?.byte;
        View::new(0, byte, byte, Representation::Native, false)
    }

    /// A view as `MPI_File_set_view` describes it; with `folds` bytes may be seen more than once.
    pub fn new(
        displacement: u64,
        etype: Handle,
        filetype: Handle,
        representation: Representation,
        folds: bool,
    ) -> Result<Arc<View>> {
        let unit = representation.measure(etype)?.0.size;
        let (file, decoded) = representation.measure(filetype)?;
        if unit == 0 {
            return Err(Failure::new(Class::Type, "the elementary type is empty"));
        }
        if !file.size.is_multiple_of(unit) {
            let why = format!(
                "the file type has {} bytes, which is no multiple of the elementary type's {unit}",
                file.size
            );
            return Err(Failure::new(Class::Type, why));
        }
        let (folded, mut whole) = (OnceLock::new(), u64::MAX);
        // Only MPI's own sizes can be asked of MPI.
        let native = file.size == mpi::extent(filetype)?.size;
        let part = match Part::of(displacement, &decoded, 1) {
            Ok(one) if !one.is_ordered() => {
                let why = "the file type goes backwards, which MPI does not allow";
                return Err(Failure::new(Class::Io, why));
            }
            Ok(one) => match Part::tiled(displacement, &decoded) {
                Ok(part) => part,
                // Most programs that do this use one copy: see `unfold`.
                Err(trireme_partition::Error::Overlap { .. }) => {
                    if native {
                        whole = one.size();
                    }
                    one
                }
                Err(error) => return Err(error.into()),
            },
            Err(trireme_partition::Error::Overlap { .. }) if folds && native => {
                let _ = folded.set(Some(Folded::of(displacement, filetype)?));
                whole = 0;
                Part::of(displacement, &Datatype::bytes(1)?, 1)?
            }
            // What ROMIO says of file types that cannot be.
            Err(error) => return Err(Failure::new(Class::Io, error.to_string())),
        };
        let dense = whole == u64::MAX
            && file.size > 0
            && file.extent == file.size as i64
            && part.is_ordered()
            && {
                let span = part.file_span();
                span.start == displacement && part.size() == span.end - span.start
            };
        Ok(Arc::new(View {
            displacement,
            etype: Type::copy(etype)?,
            filetype: Type::copy(filetype)?,
            representation,
            unit,
            plain: dense.then_some(displacement),
            part,
            folded,
            whole,
        }))
    }

    /// Before a transfer: looks at the file type byte by byte if one copy of it is not enough and the next
    /// reaches into it. Asks MPI, so only the program's own threads may call it.
    pub fn unfold(&self, at: u64, bytes: u64) {
        if at.saturating_add(bytes) > self.whole {
            self.folded
                .get_or_init(|| Folded::of(self.displacement, self.filetype.handle).ok());
        }
    }

    fn seen(&self) -> Option<&Folded> {
        self.folded.get()?.as_ref()
    }

    /// What to go by for `bytes` bytes from `at` on instead of `part`, if that does not do.
    pub fn folded(&self, at: u64, bytes: u64) -> Option<&Folded> {
        let folded = self.seen();
        folded.filter(|_| at.saturating_add(bytes) > self.whole)
    }

    /// How many of the view's bytes a file of `size` bytes has.
    pub fn visible(&self, size: u64) -> u64 {
        match (self.seen(), self.plain) {
            (Some(folded), _) => folded.visible(size),
            (None, Some(start)) => size.saturating_sub(start),
            (None, None) => self.part.bytes_in(0..size),
        }
    }

    /// Where a byte of the view is in the file.
    pub fn to_file(&self, byte: u64) -> Option<u64> {
        match (self.seen(), self.plain) {
            (Some(folded), _) => folded.places(byte).next().map(|place| place.start),
            (None, Some(start)) => start.checked_add(byte),
            (None, None) => self.part.to_file(byte),
        }
    }

    /// Where in the file the first of `bytes` bytes from `at` on is, by its place.
    pub fn file_start(&self, at: u64, bytes: u64) -> u64 {
        match self.seen() {
            Some(folded) => {
                let starts = folded.pieces(at, bytes).map(|place| place.start);
                starts.min().unwrap_or(0)
            }
            None => self.to_file(at).unwrap_or(0),
        }
    }

    /// Where in the file the last of them is, by its place, and one past it.
    pub fn file_end(&self, at: u64, bytes: u64) -> u64 {
        let Some(last) = (at + bytes).checked_sub(1) else {
            return 0;
        };
        match self.seen() {
            Some(folded) => {
                let ends = folded.pieces(at, bytes).map(|place| place.end);
                ends.max().unwrap_or(0)
            }
            None => self.to_file(last).map_or(0, |place| place + 1),
        }
    }
}
