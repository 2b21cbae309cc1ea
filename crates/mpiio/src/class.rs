//! Errors as MPI knows them: a class that programs can ask for, and a sentence for people.

use std::ffi::c_int;
use std::fmt;

use crate::abi::{Kind, abi};

/// The error classes that file routines use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Buffer,
    Count,
    Type,
    Comm,
    Request,
    Arg,
    Other,
    Intern,
    Access,
    Amode,
    BadFile,
    FileExists,
    FileInUse,
    File,
    Io,
    NoSpace,
    NoSuchFile,
    NotSame,
    NoMem,
    Quota,
    ReadOnly,
    UnsupportedDatarep,
    UnsupportedOperation,
    Conversion,
}

/// The class's number under MPICH and under Open MPI.
const NUMBERS: [(Class, c_int, c_int); 24] = [
    (Class::Buffer, 1, 1),
    (Class::Count, 2, 2),
    (Class::Type, 3, 3),
    (Class::Comm, 5, 5),
    (Class::Request, 19, 7),
    (Class::Arg, 12, 13),
    (Class::Other, 15, 16),
    (Class::Intern, 16, 17),
    (Class::Access, 20, 20),
    (Class::Amode, 21, 21),
    (Class::BadFile, 22, 23),
    (Class::FileExists, 25, 28),
    (Class::FileInUse, 26, 29),
    (Class::File, 27, 30),
    (Class::Io, 32, 35),
    (Class::NoSpace, 36, 41),
    (Class::NoSuchFile, 37, 42),
    (Class::NotSame, 35, 40),
    (Class::NoMem, 34, 39),
    (Class::Quota, 39, 44),
    (Class::ReadOnly, 40, 45),
    (Class::UnsupportedDatarep, 43, 51),
    (Class::UnsupportedOperation, 44, 52),
    (Class::Conversion, 23, 25),
];

impl Class {
    /// Its number in this process's MPI.
    pub fn value(self) -> c_int {
        let (_, mpich, open_mpi) = NUMBERS[self.index()];
        match abi().map(|abi| abi.kind) {
            Some(Kind::OpenMpi) => open_mpi,
            _ => mpich,
        }
    }

    /// Its place in the table: the same in all processes, whatever their MPI.
    pub fn index(self) -> usize {
        NUMBERS
            .iter()
            .position(|(class, ..)| *class == self)
            .expect("every class has a row")
    }

    /// The class at a place in the table.
    pub fn at(index: usize) -> Class {
        NUMBERS.get(index).map_or(Class::Other, |row| row.0)
    }

    fn of_errno(errno: i32) -> Class {
        match errno {
            libc::ENOENT => Class::NoSuchFile,
            libc::EEXIST => Class::FileExists,
            libc::EACCES | libc::EPERM => Class::Access,
            libc::ENOSPC => Class::NoSpace,
            libc::EDQUOT => Class::Quota,
            libc::EROFS => Class::ReadOnly,
            libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => Class::BadFile,
            libc::EBUSY | libc::ETXTBSY => Class::FileInUse,
            libc::ENOMEM => Class::NoMem,
            _ => Class::Io,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the program gets to see.
    pub code: Code,
    /// What people get to see.
    pub message: String,
}

/// What a routine returns for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// One of the classes.
    Class(Class),
    /// What MPI itself returned.
    Mpi(c_int),
}

/// What calls inside this library give.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(class: Class, message: impl Into<String>) -> Failure {
        Failure {
            code: Code::Class(class),
            message: message.into(),
        }
    }

    /// The number to return.
    pub fn value(&self) -> c_int {
        match self.code {
            Code::Class(class) => class.value(),
            Code::Mpi(code) => code,
        }
    }

    /// Its class, as far as it is one of ours.
    pub fn class(&self) -> Class {
        match self.code {
            Code::Class(class) => class,
            Code::Mpi(_) => Class::Other,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<trireme::Error> for Failure {
    fn from(error: trireme::Error) -> Failure {
        use trireme_net::NetError::Refused;
        // Only a server's own word is about the file: a cluster or a socket that is not there is not a
        // file that is not there.
        let class = match &error {
            trireme::Error::Net(Refused { source, .. })
            | trireme::Error::At {
                source: Refused { source, .. },
                ..
            } => Class::of_errno(source.errno),
            _ => Class::Io,
        };
        Failure::new(class, error.to_string())
    }
}

impl From<trireme_net::NetError> for Failure {
    fn from(error: trireme_net::NetError) -> Failure {
        trireme::Error::from(error).into()
    }
}

impl From<trireme_partition::Error> for Failure {
    fn from(error: trireme_partition::Error) -> Failure {
        Failure::new(Class::Type, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_travel_by_their_place_in_the_table() {
        for (place, (class, mpich, open_mpi)) in NUMBERS.iter().enumerate() {
            assert_eq!(class.index(), place);
            assert_eq!(Class::at(place), *class);
            assert!(*mpich > 0 && *open_mpi > 0);
        }
        assert_eq!(Class::of_errno(libc::ENOENT), Class::NoSuchFile);
        assert_eq!(Class::of_errno(libc::ETIMEDOUT), Class::Io);
    }
}
