//! A cluster of real processes for tests, and numbers that come back with the same seed.
#![allow(dead_code)]

pub mod small;

use std::path::Path;

use trireme::local::{LocalCluster, Up};
use trireme::{Cluster, Options};

/// A cluster whose processes and files go when it is dropped.
pub struct World {
    pub local: LocalCluster,
    _dir: tempfile::TempDir,
}

/// Starts a manager and I/O servers as processes of the built binary.
pub fn world(servers: u32) -> World {
    world_in(tempfile::tempdir().unwrap(), servers)
}

/// The same in a prepared directory.
pub fn world_in(dir: tempfile::TempDir, servers: u32) -> World {
    let mut up = Up::new(dir.path());
    up.binary = env!("CARGO_BIN_EXE_trireme").into();
    up.servers = Some(servers);
    up.publish = false;
    World {
        local: up.start().unwrap(),
        _dir: dir,
    }
}

/// The same with I/O servers that are told more; an error when this machine cannot do that.
pub fn world_with(servers: u32, io_arguments: &[&str]) -> trireme::Result<World> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut up = Up::new(dir.path());
    up.binary = env!("CARGO_BIN_EXE_trireme").into();
    up.servers = Some(servers);
    up.publish = false;
    up.io_arguments = io_arguments.iter().map(ToString::to_string).collect();
    Ok(World {
        local: up.start()?,
        _dir: dir,
    })
}

impl World {
    pub fn client(&self) -> Cluster {
        self.client_with(Options::default())
    }

    pub fn client_with(&self, options: Options) -> Cluster {
        self.local.connect(options).unwrap()
    }
}

/// Another seed for each run of a soak; always the same otherwise.
pub fn seed() -> u64 {
    std::env::var("TRIREME_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// How much longer a soak takes than a test.
pub fn times(count: u64) -> u64 {
    if std::env::var_os("TRIREME_SOAK").is_some() {
        count * 20
    } else {
        count
    }
}

/// Says that a test could not run here, and why.
pub fn skip(test: &str, why: &str) {
    println!("skipped: {why}");
    if let Some(path) = std::env::var_os("TRIREME_SKIPPED")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(path)
    {
        use std::io::Write;
        let _ = writeln!(file, "{test}: {why}");
    }
}

/// xorshift64*: small, and the same everywhere.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Sizes from 1 to `limit`, small ones as likely as large ones.
    pub fn size(&mut self, limit: u64) -> u64 {
        let bits = 64 - limit.leading_zeros() as u64;
        let top = 1 << self.below(bits + 1);
        1 + self.below(top.min(limit))
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// Resident memory of a process in bytes.
pub fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
}

/// The signal is on its way when `kill` returns: waits until every thread of the process stands still.
pub fn wait_until_stopped(pid: u32) {
    let stopped = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.flatten().all(|thread| {
            let text = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // After the name, which is in parentheses and may contain anything.
            text.rsplit(')')
                .next()
                .is_some_and(|rest| rest.starts_with(" T"))
        })
    };
    while !stopped() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(Path::new(&format!("/proc/{pid}/fd"))).map_or(0, Iterator::count)
}
