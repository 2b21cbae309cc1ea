//! What the processes of an open file tell each other, over a communicator of the file's own.
//!
//! Only bytes, broadcasts and gathers, so that no constant but `MPI_BYTE` is needed.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trireme::Group;

use crate::abi::{Handle, call};
use crate::class::{Class, Failure, Result};
use crate::mpi::{self, check, own};

/// A communicator of ours.
#[derive(Debug)]
pub struct Comm {
    pub handle: Handle,
    pub rank: u32,
    pub size: u32,
    /// The same processes as the cluster knows them, once they have met there: it notices when one dies.
    watched: OnceLock<Group>,
    /// Why this communicator can no longer be used.
    lost: OnceLock<String>,
}

/// How often a waiting process gives its processor away before it sleeps between two looks.
const YIELDS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);

/// How often a process that waits asks whether those it waits for are alive.
const LOOK: Duration = Duration::from_secs(1);

impl Comm {
    /// A copy of a program's communicator. All its members must call it.
    pub fn duplicate(comm: Handle) -> Result<Comm> {
        let handle = mpi::duplicate(comm)?;
        let (rank, size) = mpi::seat(handle)?;
        Ok(Comm {
            handle,
            rank,
            size,
            watched: OnceLock::new(),
            lost: OnceLock::new(),
        })
    }

    /// From now on, waiting for a process that is gone is an error.
    pub fn watch(&self, group: Group) {
        let _ = self.watched.set(group);
    }

    /// Gives it back to MPI; not if a process is gone, whom MPI might wait for.
    pub fn free(self) {
        if self.lost.get().is_none() {
            mpi::free_comm(self.handle);
        }
    }

    /// Fails if a process has been missed.
    fn all_there(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(Failure::new(Class::Io, why.clone())),
        }
    }

    /// Fails if the cluster has seen a process end. If it cannot say, that is no answer.
    fn look(&self) -> Result<()> {
        let gone = self.watched.get().and_then(|group| group.absent().ok());
        if let Some(rank) = gone.and_then(|ranks| ranks.first().copied()) {
            let _ = self
                .lost
                .set(format!("rank {rank} ended with the file open"));
        }
        self.all_there()
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
        if self.watched.get().is_some() {
            self.meet()?;
        }
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
        self.all_there()?;
        let mut request: Handle = 0;
        check(
            "MPI_Ibarrier",
            call!(c"PMPI_Ibarrier", self.handle => Handle, (&raw mut request).cast() => *mut c_void),
        )?;
        let (mut nap, mut looked) = (NAP, Instant::now());
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
                if looked.elapsed() > LOOK {
                    self.look()?;
                    looked = Instant::now();
                }
            }
        }
        Ok(())
    }
}
