//! Disks: a drive is data (a parameter file), a disk is its state in a simulation.
//!
//! A disk answers two questions in closed form: when is the data of a read in its buffer, and
//! when does it report a write. The bus between disk and host belongs to the machine, because
//! several disks may share it.

mod rotating;
mod solid;

pub use rotating::{Rotating, RotatingDrive};
pub use solid::{Solid, SolidDrive};

use crate::time::Time;
use serde::Deserialize;

/// A drive's parameters. The keys are those of the files in `drives/`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Drive {
    /// Cylinders, heads, sectors.
    Rotating(RotatingDrive),
    /// Flash.
    Solid(SolidDrive),
}

/// Names and files of the drives that come with the lab.
pub const DRIVES: &[(&str, &str)] = &[
    ("hp97560", include_str!("../drives/hp97560.toml")),
    ("nearline", include_str!("../drives/nearline.toml")),
    ("nvme", include_str!("../drives/nvme.toml")),
];

/// A drive parameter that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("drive: {0}")]
pub struct DriveError(pub String);

impl Drive {
    /// One of the drives that come with the lab.
    pub fn named(name: &str) -> Option<Drive> {
        let (_, text) = DRIVES.iter().find(|(known, _)| *known == name)?;
        Some(Drive::parse(text).expect("the lab's own drive files are valid"))
    }

    /// A drive from the text of a parameter file.
    pub fn parse(text: &str) -> Result<Drive, DriveError> {
        let drive: Drive =
            toml::from_str(text).map_err(|error| DriveError(error.message().to_string()))?;
        drive.check()?;
        Ok(drive)
    }

    /// Refuses parameters that no drive can have.
    pub fn check(&self) -> Result<(), DriveError> {
        match self {
            Drive::Rotating(drive) => drive.check(),
            Drive::Solid(drive) => drive.check(),
        }
    }

    /// The drive's name.
    pub fn name(&self) -> &str {
        match self {
            Drive::Rotating(drive) => &drive.name,
            Drive::Solid(drive) => &drive.name,
        }
    }

    /// Bytes per sector.
    pub fn sector_bytes(&self) -> u64 {
        match self {
            Drive::Rotating(drive) => drive.sector_bytes,
            Drive::Solid(drive) => drive.sector_bytes,
        }
    }

    /// Sectors in total.
    pub fn capacity(&self) -> u64 {
        match self {
            Drive::Rotating(drive) => drive.cylinders * drive.heads * drive.sectors,
            Drive::Solid(drive) => drive.capacity_gb * 1_000_000_000 / drive.sector_bytes,
        }
    }

    /// Sectors of a track: what a random-tracks layout keeps together (1 MB for flash).
    pub fn track(&self) -> u64 {
        match self {
            Drive::Rotating(drive) => drive.sectors,
            Drive::Solid(drive) => (1 << 20) / drive.sector_bytes,
        }
    }

    /// The time of `bytes` on the bus between this drive and its host.
    pub fn bus_time(&self, bytes: u64) -> Time {
        let rate = match self {
            Drive::Rotating(drive) => drive.bus_mb_s,
            Drive::Solid(drive) => drive.bus_mb_s,
        };
        Time::from_us(bytes as f64 / rate)
    }
}

/// A disk at work.
#[derive(Clone, Debug)]
pub enum Disk {
    /// A rotating one.
    Rotating(Box<Rotating>),
    /// A solid-state one.
    Solid(Solid),
}

impl Disk {
    /// A disk at rest; `phase` is the platter's position at time zero.
    pub fn new(drive: &Drive, phase: Time) -> Disk {
        match drive {
            Drive::Rotating(drive) => Disk::Rotating(Box::new(Rotating::new(drive, phase))),
            Drive::Solid(drive) => Disk::Solid(Solid::new(drive)),
        }
    }

    /// The time from sending a command until the disk acts on it.
    pub fn command_time(&self) -> Time {
        match self {
            Disk::Rotating(disk) => disk.command_time(),
            Disk::Solid(disk) => disk.command_time(),
        }
    }

    /// A read command is acted on at `now`: when are all its sectors in the disk's buffer?
    pub fn read(&mut self, now: Time, sector: u64, sectors: u64) -> Time {
        match self {
            Disk::Rotating(disk) => disk.read(now, sector, sectors),
            Disk::Solid(disk) => disk.read(now, sectors),
        }
    }

    /// A write's data is in the disk at `now`: when does the disk report it as done?
    pub fn write(&mut self, now: Time, sector: u64, sectors: u64) -> Time {
        match self {
            Disk::Rotating(disk) => disk.write(now, sector, sectors),
            Disk::Solid(disk) => disk.write(now, sectors),
        }
    }

    /// When everything reported is on the medium.
    pub fn settled(&self) -> Time {
        match self {
            Disk::Rotating(disk) => disk.settled(),
            Disk::Solid(disk) => disk.settled(),
        }
    }

    /// The cylinder under the heads, for traces.
    pub fn cylinder(&self) -> u64 {
        match self {
            Disk::Rotating(disk) => disk.cylinder(),
            Disk::Solid(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_own_drives_are_valid() {
        for (name, _) in DRIVES {
            let drive = Drive::named(name).unwrap();
            assert!(drive.capacity() > 1_000_000, "{name}");
        }
        assert!(Drive::named("floppy").is_none());
    }

    #[test]
    fn impossible_drives_are_refused_by_key() {
        let hp = DRIVES[0].1;
        for (from, to, key) in [
            ("heads = 19", "heads = 0", "heads"),
            ("rpm = 4002.0", "rpm = -1.0", "rpm"),
            ("sector_bytes = 512", "sector_bytes = 0", "sector_bytes"),
            ("heads = 19", "haeds = 19", "haeds"),
            ("head_switch_ms = 1.6", "", "head_switch_ms"),
        ] {
            let error = Drive::parse(&hp.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
