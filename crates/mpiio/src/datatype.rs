//! MPI types as partitions: taken apart by envelope and contents, put together in the algebra.
//!
//! Regular types stay regular: a vector of a million blocks is one stride here.

use std::ffi::{c_int, c_void};

use trireme_partition::{ArraySpec, Datatype, Dist, Order};

use crate::abi::{Handle, Kind, call};
use crate::class::{Class, Failure, Result};
use crate::external::Form;
use crate::mpi::{self, check, own};

/// Types nested deeper than this are refused rather than followed.
const DEPTH: u32 = 200;

/// How a type was made, counted from `MPI_COMBINER_NAMED`: the same order in every MPI.
mod combiner {
    pub const NAMED: i32 = 0;
    pub const DUP: i32 = 1;
    pub const CONTIGUOUS: i32 = 2;
    pub const VECTOR: i32 = 3;
    pub const HVECTOR_INTEGER: i32 = 4;
    pub const HVECTOR: i32 = 5;
    pub const INDEXED: i32 = 6;
    pub const HINDEXED_INTEGER: i32 = 7;
    pub const HINDEXED: i32 = 8;
    pub const INDEXED_BLOCK: i32 = 9;
    pub const STRUCT_INTEGER: i32 = 10;
    pub const STRUCT: i32 = 11;
    pub const SUBARRAY: i32 = 12;
    pub const DARRAY: i32 = 13;
    pub const F90_REAL: i32 = 14;
    pub const F90_COMPLEX: i32 = 15;
    pub const F90_INTEGER: i32 = 16;
    pub const RESIZED: i32 = 17;
    pub const HINDEXED_BLOCK: i32 = 18;
}

/// What a type was made with.
#[derive(Debug)]
pub struct Contents {
    integers: Vec<c_int>,
    addresses: Vec<isize>,
    types: Vec<Handle>,
}

impl Contents {
    /// The type that it is made of, if of only one.
    pub fn only(&self) -> Result<Handle> {
        self.types.first().copied().ok_or_else(broken)
    }

    /// The fields of a structure: their types and how many of each.
    pub fn fields(&self) -> Result<Vec<(Handle, u64)>> {
        let counts = self.integers.get(1..=self.types.len());
        let counts = counts.ok_or_else(broken)?.iter();
        let fields = self.types.iter().zip(counts);
        Ok(fields
            .map(|(&field, &n)| (field, n.max(0) as u64))
            .collect())
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        for &datatype in &self.types {
            // Asking for contents made new references, except of the types that MPI came with.
            if matches!(envelope(datatype), Ok(e) if !is_named(e.combiner)) {
                mpi::free_type(datatype);
            }
        }
    }
}

struct Envelope {
    integers: c_int,
    addresses: c_int,
    types: c_int,
    combiner: i32,
}

fn is_named(combiner: i32) -> bool {
    combiner == combiner::NAMED || (combiner::F90_REAL..=combiner::F90_INTEGER).contains(&combiner)
}

fn envelope(datatype: Handle) -> Result<Envelope> {
    let (mut integers, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
    check(
        "MPI_Type_get_envelope",
        call!(c"PMPI_Type_get_envelope", datatype => Handle, &raw mut integers => *mut c_int,
            &raw mut addresses => *mut c_int, &raw mut types => *mut c_int,
            &raw mut combiner => *mut c_int),
    )?;
    let combiner = combiner - own()?.combiner_named;
    Ok(Envelope {
        integers,
        addresses,
        types,
        combiner,
    })
}

fn contents(datatype: Handle, envelope: &Envelope) -> Result<Contents> {
    let mut integers = vec![0; envelope.integers as usize];
    let mut addresses = vec![0isize; envelope.addresses as usize];
    // Wide enough for either kind of handle.
    let mut types = vec![0usize; envelope.types as usize];
    check(
        "MPI_Type_get_contents",
        call!(c"PMPI_Type_get_contents", datatype => Handle, envelope.integers => c_int,
            envelope.addresses => c_int, envelope.types => c_int,
            integers.as_mut_ptr() => *mut c_int, addresses.as_mut_ptr() => *mut isize,
            types.as_mut_ptr().cast() => *mut c_void),
    )?;
    if own()?.kind == Kind::Mpich {
        let narrow = types.as_ptr().cast::<u32>();
        types = (0..types.len())
            // SAFETY: MPICH filled the front half with as many 4-byte handles.
            .map(|i| unsafe { narrow.add(i).read() } as usize)
            .collect();
    }
    Ok(Contents {
        integers,
        addresses,
        types,
    })
}

/// Whether the type is one that MPI came with.
pub fn is_basic(datatype: Handle) -> Result<bool> {
    Ok(is_named(envelope(datatype)?.combiner))
}

/// How a type came to be, for who wants to know what it is made of and not where that lies.
#[derive(Debug)]
pub enum Origin {
    /// MPI came with it.
    Named,
    /// A Fortran number of a wanted precision.
    Real,
    Complex,
    Integer,
    /// Made of items of one type.
    Of(Contents),
    /// A structure.
    Fields(Contents),
}

/// How the type came to be.
pub fn origin(datatype: Handle) -> Result<Origin> {
    let envelope = envelope(datatype)?;
    Ok(match envelope.combiner {
        combiner::NAMED => Origin::Named,
        combiner::F90_REAL => Origin::Real,
        combiner::F90_COMPLEX => Origin::Complex,
        combiner::F90_INTEGER => Origin::Integer,
        combiner::STRUCT | combiner::STRUCT_INTEGER => {
            Origin::Fields(contents(datatype, &envelope)?)
        }
        _ => Origin::Of(contents(datatype, &envelope)?),
    })
}

/// The type in the algebra.
pub fn decode(datatype: Handle) -> Result<Datatype> {
    decode_at(datatype, false, 0)
}

/// The type as it stands in a file in `external32`: what it is made of has another size there, and what
/// is counted in items moves along; what is counted in bytes does not.
pub fn decode_outside(datatype: Handle) -> Result<Datatype> {
    decode_at(datatype, true, 0)
}

fn decode_at(handle: Handle, outside: bool, depth: u32) -> Result<Datatype> {
    if depth > DEPTH {
        let why = format!("the type is nested more than {DEPTH} deep");
        return Err(Failure::new(Class::Type, why));
    }
    let measured = mpi::extent(handle)?;
    let envelope = envelope(handle)?;
    let decoded = if !is_named(envelope.combiner) {
        let contents = contents(handle, &envelope)?;
        derived(envelope.combiner, &contents, outside, depth)?
    } else if outside {
        Datatype::bytes(Form::of(handle)?.there())?
    } else {
        named(measured)?
    };
    if outside {
        return Ok(decoded);
    }
    if decoded.size() != measured.size {
        let why = format!(
            "a type of {} bytes was read as one of {} (combiner {})",
            measured.size,
            decoded.size(),
            envelope.combiner
        );
        return Err(Failure::new(Class::Type, why));
    }
    // MPI pads structures to their alignment, and knows markers that move bounds.
    if decoded.extent() != measured.extent || decoded.lower_bound() != measured.lower {
        return Ok(decoded.resized(measured.lower, measured.extent)?);
    }
    Ok(decoded)
}

/// A type that MPI came with; the pairs for MINLOC can have a gap before their integer.
fn named(measured: mpi::Extent) -> Result<Datatype> {
    const INTEGER: u64 = 4;
    let whole = measured.extent == measured.size as i64;
    if whole || measured.size <= INTEGER {
        return Ok(Datatype::bytes(measured.size)?);
    }
    let value = measured.size - INTEGER;
    let place = value.next_multiple_of(INTEGER) as i64;
    Ok(Datatype::structure(&[
        (0, Datatype::bytes(value)?),
        (place, Datatype::bytes(INTEGER)?),
    ])?)
}

fn derived(combiner: i32, contents: &Contents, outside: bool, depth: u32) -> Result<Datatype> {
    let inner = |number: usize| -> Result<Datatype> {
        let handle = contents.types.get(number).copied();
        decode_at(handle.ok_or_else(broken)?, outside, depth + 1)
    };
    let int = |number: usize| contents.integers.get(number).copied().ok_or_else(broken);
    let count =
        |number: usize| -> Result<u64> { u64::try_from(int(number)?).map_err(|_| broken()) };
    let ints = |from: usize, n: usize| contents.integers.get(from..from + n).ok_or_else(broken);
    let counts = |from: usize, n: usize| -> Result<Vec<u64>> {
        let list = ints(from, n)?;
        Ok(list.iter().map(|&value| value.max(0) as u64).collect())
    };
    let addresses = |n: usize| contents.addresses.get(..n).ok_or_else(broken);
    let blocks = |lengths: &[u64], places: &mut dyn Iterator<Item = i64>| -> Vec<(u64, i64)> {
        lengths.iter().copied().zip(places).collect()
    };
    Ok(match combiner {
        combiner::DUP => inner(0)?,
        combiner::CONTIGUOUS => inner(0)?.contiguous(count(0)?)?,
        combiner::VECTOR => inner(0)?.vector(count(0)?, count(1)?, int(2)?.into())?,
        combiner::HVECTOR_INTEGER => inner(0)?.hvector(count(0)?, count(1)?, int(2)?.into())?,
        combiner::HVECTOR => inner(0)?.hvector(count(0)?, count(1)?, addresses(1)?[0] as i64)?,
        combiner::INDEXED | combiner::HINDEXED_INTEGER => {
            let n = count(0)? as usize;
            let mut places = ints(1 + n, n)?.iter().map(|&place| place.into());
            let blocks = blocks(&counts(1, n)?, &mut places);
            if combiner == combiner::INDEXED {
                inner(0)?.indexed(&blocks)?
            } else {
                inner(0)?.hindexed(&blocks)?
            }
        }
        combiner::HINDEXED => {
            let n = count(0)? as usize;
            let mut places = addresses(n)?.iter().map(|&place| place as i64);
            inner(0)?.hindexed(&blocks(&counts(1, n)?, &mut places))?
        }
        combiner::INDEXED_BLOCK => {
            let n = count(0)? as usize;
            let mut places = ints(2, n)?.iter().map(|&place| place.into());
            inner(0)?.indexed(&blocks(&vec![count(1)?; n], &mut places))?
        }
        combiner::HINDEXED_BLOCK => {
            let n = count(0)? as usize;
            let mut places = addresses(n)?.iter().map(|&place| place as i64);
            inner(0)?.hindexed(&blocks(&vec![count(1)?; n], &mut places))?
        }
        combiner::STRUCT | combiner::STRUCT_INTEGER => {
            let n = count(0)? as usize;
            let lengths = counts(1, n)?;
            let places: Vec<i64> = if combiner == combiner::STRUCT {
                addresses(n)?.iter().map(|&place| place as i64).collect()
            } else {
                ints(1 + n, n)?.iter().map(|&place| place.into()).collect()
            };
            let mut fields = Vec::with_capacity(n);
            for number in 0..n {
                let field = inner(number)?.contiguous(lengths[number])?;
                fields.push((places[number], field));
            }
            Datatype::structure(&fields)?
        }
        combiner::SUBARRAY => {
            let n = count(0)? as usize;
            let shape = counts(1, n)?;
            let (sizes, starts) = (counts(1 + n, n)?, counts(1 + 2 * n, n)?);
            inner(0)?.subarray(&shape, &sizes, &starts, order(int(1 + 3 * n)?)?)?
        }
        combiner::DARRAY => darray(&inner(0)?, contents)?,
        combiner::RESIZED => {
            let bounds = addresses(2)?;
            inner(0)?.resized(bounds[0] as i64, bounds[1] as i64)?
        }
        other => {
            let why = format!("a type made in a way this library does not know (number {other})");
            return Err(Failure::new(Class::Type, why));
        }
    })
}

fn order(value: c_int) -> Result<Order> {
    Ok(if value == own()?.order_fortran {
        Order::ColumnMajor
    } else {
        Order::RowMajor
    })
}

fn darray(item: &Datatype, contents: &Contents) -> Result<Datatype> {
    let integers = &contents.integers;
    let n = *integers.get(2).ok_or_else(broken)? as usize;
    if integers.len() < 4 * n + 4 {
        return Err(broken());
    }
    let list = |number: usize| &integers[3 + number * n..3 + (number + 1) * n];
    let (shape, kinds, arguments, grid) = (list(0), list(1), list(2), list(3));
    let abi = own()?;
    let distribution = kinds
        .iter()
        .zip(arguments)
        .map(|(&kind, &argument)| {
            let default = argument == abi.distribute_default;
            match kind - abi.distribute_block {
                0 if default => Dist::Block,
                0 => Dist::BlockOf(argument as u64),
                1 if default => Dist::Cyclic(1),
                1 => Dist::Cyclic(argument as u64),
                _ => Dist::None,
            }
        })
        .collect::<Vec<_>>();
    let spec = ArraySpec {
        shape: shape.iter().map(|&extent| extent as u64).collect(),
        record: item.size(),
        distribution,
        grid: grid.iter().map(|&extent| extent as u32).collect(),
        order: order(integers[4 * n + 3])?,
        ghost: Vec::new(),
        processes: integers[0] as u32,
    };
    Ok(item.darray(&spec, integers[1] as u32)?)
}

fn broken() -> Failure {
    Failure::new(Class::Type, "MPI's account of the type does not add up")
}
