//! What the processes of an open file tell each other, over a communicator of the file's own.
//!
//! Only bytes, broadcasts and gathers, so that no constant but `MPI_BYTE` is needed.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use crate::abi::{Handle, call};
use crate::class::{Class, Failure, Result};
use crate::mpi::{self, check, own};

/// A communicator of ours.
#[derive(Debug)]
pub struct Comm {
    pub handle: Handle,
    pub rank: u32,
    pub size: u32,
}

/// How often a waiting process gives its processor away before it sleeps between two looks.
const YIELDS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);

impl Comm {
    /// A copy of a program's communicator. All its members must call it.
    pub fn duplicate(comm: Handle) -> Result<Comm> {
        let handle = mpi::duplicate(comm)?;
        let (rank, size) = mpi::seat(handle)?;
        Ok(Comm { handle, rank, size })
    }

    /// Rank 0's bytes for everybody.
    pub fn broadcast<const N: usize>(&self, mut bytes: [u8; N]) -> Result<[u8; N]> {
        let byte = own()?.byte;
        check(
            "MPI_Bcast",
            call!(c"PMPI_Bcast", bytes.as_mut_ptr().cast() => *mut c_void, N as c_int => c_int,
                byte => Handle, 0 => c_int, self.handle => Handle),
        )?;
        Ok(bytes)
    }

    /// Everybody's bytes for everybody, by rank.
    pub fn gather<const N: usize>(&self, bytes: [u8; N]) -> Result<Vec<[u8; N]>> {
        let byte = own()?.byte;
        let mut all = vec![[0; N]; self.size as usize];
        check(
            "MPI_Allgather",
            call!(c"PMPI_Allgather", bytes.as_ptr().cast() => *const c_void, N as c_int => c_int,
                byte => Handle, all.as_mut_ptr().cast() => *mut c_void, N as c_int => c_int,
                byte => Handle, self.handle => Handle),
        )?;
        Ok(all)
    }

    /// Everybody's result: a failure of one is a failure of all. Nobody returns before all have come.
    pub fn agree<T>(&self, mine: Result<T>) -> Result<T> {
        let said = match &mine {
            Ok(_) => 0,
            Err(failure) => failure.class().index() as u32 + 1,
        };
        let all = self.gather(said.to_le_bytes())?;
        let value = mine?;
        for (rank, said) in all.iter().enumerate() {
            let said = u32::from_le_bytes(*said);
            if said != 0 {
                let class = Class::at(said as usize - 1);
                return Err(Failure::new(
                    class,
                    format!("rank {rank} failed: {class:?}"),
                ));
            }
        }
        Ok(value)
    }

    /// Returns when all have called it. A process that waits long sleeps: where there are more
    /// processes than processors, the one that is waited for, or a server, needs the processor.
    pub fn meet(&self) -> Result<()> {
        if self.size == 1 {
            return Ok(());
        }
        let mut request: Handle = 0;
        check(
            "MPI_Ibarrier",
            call!(c"PMPI_Ibarrier", self.handle => Handle, (&raw mut request).cast() => *mut c_void),
        )?;
        let mut nap = NAP;
        for look in 0u32.. {
            let mut done = 0;
            check(
                "MPI_Test",
                call!(c"PMPI_Test", (&raw mut request).cast() => *mut c_void,
                    &raw mut done => *mut c_int, own()?.status_ignore as *mut c_void => *mut c_void),
            )?;
            if done != 0 {
                break;
            }
            if look < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(nap);
                nap = (nap * 2).min(NAP_MAX);
            }
        }
        Ok(())
    }
}
