//! What a process sees of a file: displacement, elementary type, file type, representation.

use std::sync::Arc;

use trireme_partition::{Datatype, Part};

use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::datatype;
use crate::external::Form;
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
        View::new(0, byte, byte, Representation::Native)
    }

    /// A view as `MPI_File_set_view` describes it.
    pub fn new(
        displacement: u64,
        etype: Handle,
        filetype: Handle,
        representation: Representation,
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
        let part = match Part::tiled(displacement, &decoded) {
            Ok(part) => part,
            // Copies that would run into each other: there is one then.
            Err(trireme_partition::Error::Overlap { .. }) => Part::of(displacement, &decoded, 1)?,
            Err(error) => return Err(error.into()),
        };
        let dense = file.size > 0 && file.extent == file.size as i64 && part.is_ordered() && {
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
        }))
    }

    /// How many of the view's bytes a file of `size` bytes has.
    pub fn visible(&self, size: u64) -> u64 {
        match self.plain {
            Some(start) => size.saturating_sub(start),
            None => self.part.bytes_in(0..size),
        }
    }

    /// Where a byte of the view is in the file.
    pub fn to_file(&self, byte: u64) -> Option<u64> {
        match self.plain {
            Some(start) => start.checked_add(byte),
            None => self.part.to_file(byte),
        }
    }

    /// Where in the file the last of the bytes before `end` is, and one past it.
    pub fn file_end(&self, end: u64) -> u64 {
        match end.checked_sub(1) {
            None => 0,
            Some(last) => self.to_file(last).map_or(0, |place| place + 1),
        }
    }
}
