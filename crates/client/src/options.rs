//! Defaults of a client: deadlines and how transfers are carried out.

use std::time::Duration;

use trireme_proto::limits;

use crate::TransferOptions;

/// How a client behaves. All fields have good defaults.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long any call may take, waiting for servers that restart included.
    pub deadline: Duration,
    /// How long a sync may take: the disks may have much to write.
    pub sync_deadline: Duration,
    /// Changes of names and attributes are answered before they are safe from a power cut; a sync
    /// makes them so, as on a local file system. They always survive the death of any process.
    pub soft_names: bool,
    /// How large requests are carried out.
    pub transfer: TransferOptions,
    /// Reach servers on this host as if they were elsewhere: over TCP, without shared memory. For
    /// measuring and testing what other hosts get.
    pub network_only: bool,
    /// This client's number among those that work together; `hash` starts at the server of that
    /// number. By default the process number: neighbours start at different servers.
    pub own: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deadline: limits::CALL_TIME,
            sync_deadline: limits::CALL_TIME * 4,
            soft_names: false,
            transfer: TransferOptions::default(),
            network_only: false,
            own: std::process::id(),
        }
    }
}
