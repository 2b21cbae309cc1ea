//! The representation `external32`, which all machines share: big-endian, with the sizes of the MPI
//! standard's table. Converted here and not by MPI: Open MPI 4 packs a `long` with another size than it
//! says, and calls of MPI would bind nonblocking operations to the program's thread.

mod number;

use std::ffi::{CStr, c_char, c_int};

use crate::abi::{Handle, call};
use crate::class::{Class, Failure, Result};
use crate::datatype::{self, Origin};
use crate::mpi::{self, check};
use number::{Kind, Number};

/// What a type is made of, in order, without its gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    shape: Shape,
    /// Bytes in memory, and in the file.
    here: u64,
    there: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    One(Number),
    Times(Box<Form>, u64),
    Row(Vec<Form>),
}

impl Form {
    /// What an MPI type is made of.
    pub fn of(datatype: Handle) -> Result<Form> {
        let size = mpi::extent(datatype)?.size;
        if size == 0 {
            return Ok(Form::row(Vec::new()));
        }
        match datatype::origin(datatype)? {
            Origin::Named => named(&type_name(datatype)?, size),
            Origin::Real => one(Kind::Real, size, size),
            Origin::Complex => Ok(one(Kind::Real, size / 2, size / 2)?.times(2)),
            Origin::Integer => one(Kind::Signed, size, size),
            Origin::Of(contents) => {
                let inner = Form::of(contents.only()?)?;
                let count = size.checked_div(inner.here).unwrap_or(0);
                Ok(inner.times(count))
            }
            Origin::Fields(contents) => {
                let fields = contents.fields()?.into_iter();
                let fields = fields.map(|(inner, count)| Ok(Form::of(inner)?.times(count)));
                Ok(Form::row(fields.collect::<Result<_>>()?))
            }
        }
    }

    fn times(self, count: u64) -> Form {
        if count == 1 {
            return self;
        }
        let (here, there) = (self.here * count, self.there * count);
        let shape = match self.shape {
            Shape::Times(inner, before) => Shape::Times(inner, before * count),
            shape => Shape::Times(Box::new(Form { shape, ..self }), count),
        };
        Form { shape, here, there }
    }

    fn row(fields: Vec<Form>) -> Form {
        Form {
            here: fields.iter().map(|field| field.here).sum(),
            there: fields.iter().map(|field| field.there).sum(),
            shape: Shape::Row(fields),
        }
    }

    /// Bytes of one item in memory, without gaps.
    pub fn here(&self) -> u64 {
        self.here
    }

    /// Bytes of one item in the file.
    pub fn there(&self) -> u64 {
        self.there
    }

    /// Items as they stand in the file. Fails, and names it, at a number that does not fit there.
    pub fn outward(&self, native: &[u8]) -> Result<Vec<u8>> {
        let items = (native.len() as u64).checked_div(self.here).unwrap_or(0);
        let mut outside = vec![0; (items * self.there) as usize];
        self.all(
            items,
            &mut &*native,
            &mut &mut *outside,
            &|number, from, to| number.outward(from, to),
        )?;
        Ok(outside)
    }

    /// Items from the file as they stand in memory.
    pub fn inward(&self, outside: &[u8]) -> Result<Vec<u8>> {
        let items = (outside.len() as u64).checked_div(self.there).unwrap_or(0);
        let mut native = vec![0; (items * self.here) as usize];
        self.all(
            items,
            &mut &mut *native,
            &mut &*outside,
            &|number, to, from| {
                number.inward(from, to);
                Ok(())
            },
        )?;
        Ok(native)
    }

    /// Calls `convert` for each stretch of numbers of a kind, with its places here and there.
    fn all<H: Stretch, T: Stretch>(
        &self,
        count: u64,
        here: &mut H,
        there: &mut T,
        convert: &impl Fn(Number, H, T) -> Result<()>,
    ) -> Result<()> {
        match &self.shape {
            Shape::One(number) => {
                let here = here.take((self.here * count) as usize);
                convert(*number, here, there.take((self.there * count) as usize))
            }
            Shape::Times(inner, times) => inner.all(times * count, here, there, convert),
            Shape::Row(fields) => {
                for _ in 0..count {
                    for field in fields {
                        field.all(1, here, there, convert)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Bytes that are used up from the front.
trait Stretch {
    fn take(&mut self, bytes: usize) -> Self;
}

impl Stretch for &[u8] {
    fn take(&mut self, bytes: usize) -> Self {
        let (front, rest) = self.split_at(bytes);
        *self = rest;
        front
    }
}

impl Stretch for &mut [u8] {
    fn take(&mut self, bytes: usize) -> Self {
        let (front, rest) = std::mem::take(self).split_at_mut(bytes);
        *self = rest;
        front
    }
}

fn one(kind: Kind, here: u64, there: u64) -> Result<Form> {
    let number = Number::new(kind, here, there).ok_or_else(|| {
        let why = format!("numbers of {here} bytes here and {there} in external32");
        Failure::new(Class::Conversion, why)
    })?;
    Ok(Form {
        shape: Shape::One(number),
        here,
        there,
    })
}

/// The types that MPI comes with, by their names, as in the standard's table; `here` is their size.
fn named(name: &str, here: u64) -> Result<Form> {
    let pair = |value: &str, size: u64| -> Result<Form> {
        Ok(Form::row(vec![named(value, size)?, named("MPI_INT", 4)?]))
    };
    let short = name.strip_prefix("MPI_").unwrap_or(name);
    match short {
        "BYTE" | "PACKED" | "CHAR" | "SIGNED_CHAR" | "UNSIGNED_CHAR" | "CHARACTER" => {
            one(Kind::Unsigned, here, here)
        }
        "WCHAR" => one(Kind::Unsigned, here, 2),
        "LONG" => one(Kind::Signed, here, 4),
        "UNSIGNED_LONG" => one(Kind::Unsigned, here, 4),
        "SHORT" | "INT" | "LONG_LONG" | "LONG_LONG_INT" | "INT8_T" | "INT16_T" | "INT32_T"
        | "INT64_T" | "AINT" | "OFFSET" | "COUNT" | "INTEGER" | "INTEGER1" | "INTEGER2"
        | "INTEGER4" | "INTEGER8" | "INTEGER16" => one(Kind::Signed, here, here),
        "UNSIGNED" | "UNSIGNED_SHORT" | "UNSIGNED_LONG_LONG" | "UINT8_T" | "UINT16_T"
        | "UINT32_T" | "UINT64_T" | "C_BOOL" | "CXX_BOOL" | "CPP_BOOL" | "BOOL" | "LOGICAL"
        | "LOGICAL1" | "LOGICAL2" | "LOGICAL4" | "LOGICAL8" => one(Kind::Unsigned, here, here),
        "FLOAT" | "DOUBLE" | "REAL" | "REAL2" | "REAL4" | "REAL8" | "REAL16"
        | "DOUBLE_PRECISION" => one(Kind::Real, here, here),
        "LONG_DOUBLE" => one(Kind::LongDouble, here, 16),
        "C_COMPLEX" | "C_FLOAT_COMPLEX" | "C_DOUBLE_COMPLEX" | "COMPLEX" | "DOUBLE_COMPLEX"
        | "COMPLEX4" | "COMPLEX8" | "COMPLEX16" | "COMPLEX32" | "CXX_FLOAT_COMPLEX"
        | "CXX_DOUBLE_COMPLEX" | "CXX_COMPLEX" | "CXX_DBLCPLEX" | "2REAL" | "2DOUBLE_PRECISION" => {
            Ok(one(Kind::Real, here / 2, here / 2)?.times(2))
        }
        "C_LONG_DOUBLE_COMPLEX" | "CXX_LONG_DOUBLE_COMPLEX" | "CXX_LDBLCPLEX" => {
            Ok(one(Kind::LongDouble, here / 2, 16)?.times(2))
        }
        "2INT" | "2INTEGER" => Ok(one(Kind::Signed, here / 2, here / 2)?.times(2)),
        "FLOAT_INT" => pair("MPI_FLOAT", here - 4),
        "DOUBLE_INT" => pair("MPI_DOUBLE", here - 4),
        "LONG_INT" => pair("MPI_LONG", here - 4),
        "SHORT_INT" => pair("MPI_SHORT", here - 4),
        "LONG_DOUBLE_INT" => pair("MPI_LONG_DOUBLE", here - 4),
        _ => {
            let why = format!("external32 has no representation for the type {name}");
            Err(Failure::new(Class::UnsupportedDatarep, why))
        }
    }
}

fn type_name(datatype: Handle) -> Result<String> {
    let mut text: [c_char; 1024] = [0; 1024];
    let mut length = 0;
    check(
        "MPI_Type_get_name",
        call!(c"PMPI_Type_get_name", datatype => Handle, text.as_mut_ptr() => *mut c_char,
            &raw mut length => *mut c_int),
    )?;
    text[text.len() - 1] = 0;
    // SAFETY: ends with a NUL, at the latest with the one just put there.
    let name = unsafe { CStr::from_ptr(text.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_turn_number_by_number() {
        // { int; long; double } twice
        let form = Form::row(vec![
            named("MPI_INT", 4).unwrap(),
            named("MPI_LONG", 8).unwrap(),
            named("MPI_DOUBLE", 8).unwrap().times(2),
        ]);
        assert_eq!((form.here(), form.there()), (28, 24));
        let mut native = Vec::new();
        let mut wanted = Vec::new();
        for i in [1i32, -7] {
            native.extend(i.to_ne_bytes());
            native.extend((i64::from(i) * 1000).to_ne_bytes());
            wanted.extend(i.to_be_bytes());
            wanted.extend((i * 1000).to_be_bytes());
            for real in [f64::from(i) / 3.0, f64::INFINITY] {
                native.extend(real.to_ne_bytes());
                wanted.extend(real.to_be_bytes());
            }
        }
        assert_eq!(form.outward(&native).unwrap(), wanted);
        assert_eq!(form.inward(&wanted).unwrap(), native);
    }

    #[test]
    fn a_number_that_does_not_fit_is_named() {
        let form = named("MPI_LONG", 8).unwrap().times(3);
        let numbers = [1i64, 1 << 31, 2];
        let native: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let failure = form.outward(&native).unwrap_err();
        assert!(failure.to_string().contains("2147483648"), "{failure}");
        assert!(
            form.outward(&(-(1i64 << 31)).to_ne_bytes().repeat(3))
                .is_ok()
        );
    }

    #[test]
    fn pairs_and_complex_numbers_keep_their_order() {
        let pair = named("MPI_LONG_INT", 12).unwrap();
        assert_eq!((pair.here(), pair.there()), (12, 8));
        let complex = named("MPI_C_DOUBLE_COMPLEX", 16).unwrap();
        let native: Vec<u8> = [1.5f64, -2.0]
            .iter()
            .flat_map(|r| r.to_ne_bytes())
            .collect();
        let wanted: Vec<u8> = [1.5f64, -2.0]
            .iter()
            .flat_map(|r| r.to_be_bytes())
            .collect();
        assert_eq!(complex.outward(&native).unwrap(), wanted);
        assert!(Form::row(Vec::new()).outward(&[]).unwrap().is_empty());
        assert!(named("MPI_SOMETHING", 4).is_err());
    }
}
