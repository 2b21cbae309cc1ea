//! A plain solid-state drive: access latency, parallel channels, no positions.

use super::DriveError;
use crate::time::Time;
use serde::Deserialize;

/// Parameters of a solid-state drive; see `drives/nvme.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The parameter file documents each key.
pub struct SolidDrive {
    pub name: String,
    pub capacity_gb: u64,
    pub sector_bytes: u64,
    pub read_latency_us: f64,
    pub write_latency_us: f64,
    pub channel_mb_s: f64,
    pub channels: u64,
    pub page_kb: u64,
    pub overhead_us: f64,
    pub bus_mb_s: f64,
}

impl SolidDrive {
    pub(super) fn check(&self) -> Result<(), DriveError> {
        let positive = [
            ("capacity_gb", self.capacity_gb as f64),
            ("sector_bytes", self.sector_bytes as f64),
            ("channel_mb_s", self.channel_mb_s),
            ("channels", self.channels as f64),
            ("page_kb", self.page_kb as f64),
            ("bus_mb_s", self.bus_mb_s),
        ];
        super::rotating::require_positive(&positive)?;
        super::rotating::require_not_negative(&[
            ("read_latency_us", self.read_latency_us),
            ("write_latency_us", self.write_latency_us),
            ("overhead_us", self.overhead_us),
        ])
    }
}

/// A solid-state disk at work.
#[derive(Clone, Debug)]
pub struct Solid {
    overhead: Time,
    read_latency: Time,
    write_latency: Time,
    page_time: Time,
    page_sectors: u64,
    channels: u64,
    free: Time,
}

impl Solid {
    /// A disk at rest.
    pub fn new(drive: &SolidDrive) -> Solid {
        let page_bytes = drive.page_kb * 1024;
        Solid {
            overhead: Time::from_us(drive.overhead_us),
            read_latency: Time::from_us(drive.read_latency_us),
            write_latency: Time::from_us(drive.write_latency_us),
            page_time: Time::from_us(page_bytes as f64 / drive.channel_mb_s),
            page_sectors: (page_bytes / drive.sector_bytes).max(1),
            channels: drive.channels,
            free: Time::ZERO,
        }
    }

    pub(super) fn command_time(&self) -> Time {
        self.overhead
    }

    pub(super) fn read(&mut self, now: Time, sectors: u64) -> Time {
        let start = now.max(self.free);
        self.free = start + self.transfer(sectors);
        self.free + self.read_latency
    }

    pub(super) fn write(&mut self, now: Time, sectors: u64) -> Time {
        let start = now.max(self.free);
        self.free = start + self.transfer(sectors);
        start + self.write_latency
    }

    pub(super) fn settled(&self) -> Time {
        self.free
    }

    /// The time that the channels need for these sectors, spread page by page.
    fn transfer(&self, sectors: u64) -> Time {
        let pages = sectors.div_ceil(self.page_sectors);
        let full = sectors.min(self.page_sectors);
        let first = Time(self.page_time.0 * full / self.page_sectors);
        first + self.page_time * (pages.div_ceil(self.channels).max(1) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, Drive};
    use crate::time::Time;

    #[test]
    fn a_large_read_uses_all_channels() {
        let mut disk = Disk::new(&Drive::named("nvme").unwrap(), Time::ZERO);
        let sectors = (1 << 20) / 512;
        let done = disk.read(Time::ZERO, 0, sectors);
        let rate = (1 << 20) as f64 / done.as_us();
        assert!(
            (1000.0..3300.0).contains(&rate),
            "{rate} MB/s for one request of 1 MB"
        );
    }
}
