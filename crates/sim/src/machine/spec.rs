//! What a machine is made of.

use crate::disk::Drive;

/// The hardware of a simulated multiprocessor; the default is Table 1 of the disk-directed I/O
/// paper.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// Compute processors.
    pub cps: usize,
    /// I/O processors, each with one bus.
    pub iops: usize,
    /// Disks, dealt to the I/O processors in turn.
    pub disks: usize,
    /// What each disk is.
    pub drive: Drive,
    /// Rate of a network link, in 10^6 bytes per second.
    pub link_mb_s: f64,
    /// Latency of a router in nanoseconds.
    pub router_ns: f64,
    /// Bytes that the network adds to a message.
    pub header_bytes: u64,
}

impl Default for MachineSpec {
    fn default() -> MachineSpec {
        MachineSpec {
            cps: 16,
            iops: 16,
            disks: 16,
            drive: Drive::named("hp97560").expect("it comes with the lab"),
            link_mb_s: 200.0,
            router_ns: 20.0,
            header_bytes: 32,
        }
    }
}

impl MachineSpec {
    /// The I/O processor (from 0) that a disk hangs on.
    pub fn iop_of_disk(&self, disk: usize) -> usize {
        disk % self.iops
    }
}
