//! What advice is about: a machine and a workload, as a user writes them into two files.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A cluster, in figures that a data sheet or a short measurement gives. MB are 10^6 bytes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineDescription {
    /// What to call it.
    pub name: String,
    /// Client nodes.
    pub clients: u32,
    /// I/O servers that may be used.
    pub servers_max: u32,
    /// Link of one client, MB/s each way.
    pub client_link_mb_s: f64,
    /// Link of one server, MB/s each way.
    pub server_link_mb_s: f64,
    /// One-way latency of a message, us.
    pub latency_us: f64,
    /// Processors of a client that may work on I/O.
    pub client_processors: u32,
    /// Processors of a server.
    pub server_processors: u32,
    /// Processor time of a request at a client, us.
    pub client_request_us: f64,
    /// Processor time of a request at a server, us.
    pub server_request_us: f64,
    /// Speed at which one processor copies or gathers, MB/s.
    pub copy_mb_s: f64,
    /// Memory of a server for buffers, MB.
    pub buffers_mb: f64,
    /// Its disks.
    pub disk: DiskDescription,
}

/// The disks of one server.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiskDescription {
    /// Disks per server.
    pub per_server: u32,
    /// Time to reach a block that does not follow the last one, ms.
    pub positioning_ms: f64,
    /// Transfer rate of one disk, MB/s.
    pub rate_mb_s: f64,
}

/// What an application does.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadDescription {
    /// What to call it.
    pub name: String,
    /// Which way data goes.
    pub operation: Operation,
    /// Processes, spread evenly over the clients.
    pub processes: u32,
    /// Bytes that each process moves in one step.
    pub bytes_per_process: u64,
    /// Contiguous bytes of one process in the file: all of them, or a record of an array.
    pub piece_bytes: u64,
    /// Whether all processes make the request together, so that it may be collective.
    pub collective: bool,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// From disks to processes.
    Read,
    /// From processes to disks.
    Write,
}

impl MachineDescription {
    /// Reads a machine; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, Error> {
        let machine: Self = parse(file, text)?;
        let counts = [
            ("clients", machine.clients, 10_000),
            ("servers_max", machine.servers_max, 1024),
            ("client_processors", machine.client_processors, 1024),
            ("server_processors", machine.server_processors, 1024),
            ("disk.per_server", machine.disk.per_server, 64),
        ];
        for (key, value, most) in counts {
            if !(1..=most).contains(&value) {
                return Err(Error::value(
                    key,
                    value,
                    "out of range",
                    format!("1 to {most}"),
                ));
            }
        }
        let positive = [
            ("client_link_mb_s", machine.client_link_mb_s),
            ("server_link_mb_s", machine.server_link_mb_s),
            ("copy_mb_s", machine.copy_mb_s),
            ("buffers_mb", machine.buffers_mb),
            ("disk.rate_mb_s", machine.disk.rate_mb_s),
        ];
        for (key, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::value(key, value, "it must be there", "above 0"));
            }
        }
        let times = [
            ("latency_us", machine.latency_us),
            ("client_request_us", machine.client_request_us),
            ("server_request_us", machine.server_request_us),
            ("disk.positioning_ms", machine.disk.positioning_ms),
        ];
        for (key, value) in times {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::value(key, value, "a time", "0 or more"));
            }
        }
        Ok(machine)
    }
}

impl WorkloadDescription {
    /// Reads a workload; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, Error> {
        let workload: Self = parse(file, text)?;
        if !(1..=100_000).contains(&workload.processes) {
            return Err(Error::value(
                "processes",
                workload.processes,
                "out of range",
                "1 to 100000",
            ));
        }
        let bytes = workload.bytes_per_process;
        if !(1..=1 << 50).contains(&bytes) {
            return Err(Error::value(
                "bytes_per_process",
                bytes,
                "out of range",
                "1 to 2^50",
            ));
        }
        if !(1..=bytes).contains(&workload.piece_bytes) {
            return Err(Error::value(
                "piece_bytes",
                workload.piece_bytes,
                "a piece is part of what a process moves",
                format!("1 to bytes_per_process, {bytes}"),
            ));
        }
        Ok(workload)
    }

    /// Bytes of one step over all processes.
    pub fn total_bytes(&self) -> u64 {
        self.bytes_per_process * u64::from(self.processes)
    }
}

fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| Error::File {
        file: file.into(),
        reason: error.to_string(),
    })
}
