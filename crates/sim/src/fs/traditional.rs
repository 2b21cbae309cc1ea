//! Traditional caching, and two-phase I/O on top of it: compute processors ask, I/O processors
//! with a block cache answer. This file joins the two sides into one program.

use super::caching::{Servers, Thread};
use super::clients::Clients;
use crate::machine::{Machine, Node, Program};

/// The program: clients on the compute processors, servers on the I/O processors.
pub struct Traditional {
    /// The compute processors' side.
    pub clients: Clients,
    /// The I/O processors' side.
    pub servers: Servers,
}

/// Pieces of work and messages of both sides.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A client begins.
    Begin,
    /// A client issues the request it prepared.
    Issue(Thread),
    /// A reply from this disk, at the client.
    Reply(u16),
    /// A client packs data for another one (two-phase).
    Pack(u16),
    /// Data from another client: taken, then unpacked.
    Packed(u16),
    /// Unpacking is done.
    Unpacked,
    /// A client has reached the barrier; at client 0.
    Barrier,
    /// The barrier is open; at every client.
    Release,
    /// A request, at the I/O processor.
    Request(Thread),
    /// Look for its block in the cache.
    Lookup(Thread),
    /// Copy its data into the cache buffer.
    Copy(Thread),
    /// Its block has arrived, or a buffer is free.
    Woken(Thread),
    /// Answer it.
    Answer(Thread),
    /// Consider the block after this one.
    Prefetch(u32),
    /// Issue a disk request.
    DiskIssue(u16),
    /// A disk's interrupt.
    DiskDone(u16),
}

impl Program for Traditional {
    type Job = Job;

    fn arrived(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        match job {
            Job::Request(_) => self.servers.arrived(machine, node, job),
            _ => self.clients.arrived(machine, node, job),
        }
    }

    fn ran(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        if usize::from(node) < self.clients.count() {
            self.clients.ran(machine, node, job);
            if self.clients.io_finished() {
                self.servers.flush(machine);
            }
        } else {
            self.servers.ran(machine, node, job);
        }
    }

    fn disk_done(&mut self, machine: &mut Machine<Job>, disk: usize) {
        self.servers.disk_done(machine, disk);
    }

    fn label(job: Job) -> &'static str {
        match job {
            Job::Begin => "begin",
            Job::Issue(_) => "issue request",
            Job::Reply(_) => "take reply",
            Job::Pack(_) => "pack",
            Job::Packed(_) => "take packed data",
            Job::Unpacked => "unpack",
            Job::Barrier | Job::Release => "barrier",
            Job::Request(_) => "new thread",
            Job::Lookup(_) => "cache lookup",
            Job::Copy(_) => "copy into cache",
            Job::Woken(_) => "wake thread",
            Job::Answer(_) => "answer",
            Job::Prefetch(_) => "consider prefetch",
            Job::DiskIssue(_) => "issue disk request",
            Job::DiskDone(_) => "disk interrupt",
        }
    }
}
