//! A rotating disk after Ruemmler and Wilkes: geometry, skew, seek curve, read-ahead, immediate
//! reporting.
//!
//! The trick that keeps it exact and fast: lay all sectors on one line in the order in which a
//! sequential transfer passes them, *with* the gaps that skew costs. A sector's place on that
//! line, modulo the sectors of a track, is its angle; and a head that transfers sequentially
//! moves along the line at one place per sector time.

use super::DriveError;
use crate::time::Time;
use serde::Deserialize;

/// Parameters of a rotating drive; see `drives/hp97560.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The parameter file documents each key.
pub struct RotatingDrive {
    pub name: String,
    pub cylinders: u64,
    pub heads: u64,
    pub sectors: u64,
    pub sector_bytes: u64,
    pub rpm: f64,
    pub seek_short_ms: [f64; 2],
    pub seek_long_ms: [f64; 2],
    pub seek_boundary: u64,
    pub head_switch_ms: f64,
    pub track_skew: u64,
    pub cylinder_skew: u64,
    pub overhead_ms: f64,
    pub command_ms: f64,
    pub buffer_kb: u64,
    pub read_ahead: bool,
    pub immediate_report: bool,
    pub write_buffer_kb: u64,
    pub bus_mb_s: f64,
}

impl RotatingDrive {
    pub(super) fn check(&self) -> Result<(), DriveError> {
        require_positive(&[
            ("cylinders", self.cylinders as f64),
            ("heads", self.heads as f64),
            ("sectors", self.sectors as f64),
            ("sector_bytes", self.sector_bytes as f64),
            ("rpm", self.rpm),
            ("bus_mb_s", self.bus_mb_s),
        ])?;
        require_not_negative(&[
            (
                "seek_short_ms",
                self.seek_short_ms[0].min(self.seek_short_ms[1]),
            ),
            (
                "seek_long_ms",
                self.seek_long_ms[0].min(self.seek_long_ms[1]),
            ),
            ("head_switch_ms", self.head_switch_ms),
            ("overhead_ms", self.overhead_ms),
            ("command_ms", self.command_ms),
        ])
    }
}

/// Refuses values that are zero, negative or not a number.
pub(super) fn require_positive(values: &[(&str, f64)]) -> Result<(), DriveError> {
    match values
        .iter()
        .find(|(_, value)| !(*value > 0.0 && value.is_finite()))
    {
        None => Ok(()),
        Some((key, value)) => Err(DriveError(format!(
            "`{key} = {value}` is not allowed: it must be above 0"
        ))),
    }
}

/// Refuses values that are negative or not a number.
pub(super) fn require_not_negative(values: &[(&str, f64)]) -> Result<(), DriveError> {
    match values
        .iter()
        .find(|(_, value)| !(*value >= 0.0 && value.is_finite()))
    {
        None => Ok(()),
        Some((key, value)) => Err(DriveError(format!(
            "`{key} = {value}` is not allowed: it must be 0 or more"
        ))),
    }
}

/// A rotating disk at work.
#[derive(Clone, Debug)]
pub struct Rotating {
    line: Line,
    drive: RotatingDrive,
    sector_time: Time,
    phase: Time,
    head_switch: Time,
    buffer: u64,
    write_buffer: u64,
    /// Where the heads rest when no stream moves them.
    rest: u64,
    reading: Option<Reading>,
    writing: Writing,
}

/// The read buffer and the sequential transfer that fills it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The oldest sector in the buffer.
    from: u64,
    /// The sector at which the head began to read without a pause, and when.
    first: u64,
    start: Time,
    /// Read-ahead stops before this sector.
    limit: u64,
}

/// The newest sequential run of writes.
#[derive(Clone, Copy, Debug, Default)]
struct Writing {
    /// First sector of the run, and when the head meets it.
    first: u64,
    start: Time,
    /// The sector after the run, and when the run is on the medium.
    next: u64,
    end: Time,
    any: bool,
}

impl Rotating {
    /// A disk at rest on cylinder 0; `phase` shifts the platter's position at time zero.
    pub fn new(drive: &RotatingDrive, phase: Time) -> Rotating {
        let sectors_in = |kb: u64| kb * 1024 / drive.sector_bytes;
        Rotating {
            line: Line::new(drive),
            sector_time: Time::from_seconds(60.0 / drive.rpm / drive.sectors as f64),
            phase,
            head_switch: Time::from_ms(drive.head_switch_ms),
            buffer: sectors_in(drive.buffer_kb),
            write_buffer: sectors_in(drive.write_buffer_kb),
            rest: 0,
            reading: None,
            writing: Writing::default(),
            drive: drive.clone(),
        }
    }

    pub(super) fn command_time(&self) -> Time {
        Time::from_ms(self.drive.overhead_ms + self.drive.command_ms)
    }

    pub(super) fn cylinder(&self) -> u64 {
        self.line.track(self.rest).0
    }

    pub(super) fn settled(&self) -> Time {
        self.writing.end
    }

    pub(super) fn read(&mut self, now: Time, sector: u64, sectors: u64) -> Time {
        // Cached writes go to the medium first.
        let now = now.max(self.writing.end);
        self.writing.any = false;
        let end = sector + sectors;
        if let Some(stream) = self.reading {
            let head = self
                .passed(stream.first, stream.start, now)
                .min(stream.limit);
            self.rest = head.min(stream.limit - 1);
            let stopped = head == stream.limit;
            let from = stream.from.max(head.saturating_sub(self.buffer));
            let buffered = from <= sector && sector <= head && end <= stream.limit;
            if self.drive.read_ahead && buffered {
                return self.hit(now, Reading { from, ..stream }, end, stopped);
            }
        }
        let start = self.position(now, sector);
        self.rest = end - 1;
        let ahead = if self.drive.read_ahead {
            self.buffer
        } else {
            0
        };
        self.reading = Some(Reading {
            from: sector,
            first: sector,
            start,
            limit: end + ahead,
        });
        start + self.transfer(sector, end)
    }

    /// A read that the buffer has or is about to have; read-ahead goes on, or starts again.
    fn hit(&mut self, now: Time, stream: Reading, end: u64, stopped: bool) -> Time {
        let limit = stream.limit.max(end + self.buffer).min(self.line.sectors);
        let done = if end > stream.first {
            now.max(stream.start + self.transfer(stream.first, end))
        } else {
            now
        };
        self.reading = Some(if stopped && limit > stream.limit {
            let start = self.position(now, stream.limit);
            Reading {
                first: stream.limit,
                start,
                limit,
                ..stream
            }
        } else {
            Reading { limit, ..stream }
        });
        done
    }

    pub(super) fn write(&mut self, now: Time, sector: u64, sectors: u64) -> Time {
        let end = sector + sectors;
        if let Some(stream) = self.reading.take() {
            let head = self.passed(stream.first, stream.start, now);
            self.rest = head.min(stream.limit - 1);
        }
        let run = self.writing;
        let contiguous = run.any && sector == run.next;
        let accepted = if contiguous {
            self.room_for(now, sectors)
        } else {
            now.max(run.end)
        };
        if contiguous && now <= run.end {
            // The data is there before the head is: the run goes on without losing a rotation.
            self.writing.next = end;
            self.writing.end = run.start + self.transfer(run.first, end);
        } else {
            let start = self.position(accepted.max(run.end), sector);
            let done = start + self.transfer(sector, end);
            self.writing = Writing {
                first: sector,
                start,
                next: end,
                end: done,
                any: true,
            };
        }
        self.rest = end - 1;
        if self.drive.immediate_report {
            accepted
        } else {
            self.writing.end
        }
    }

    /// From when on `sectors` more fit into the write buffer behind the present run.
    fn room_for(&self, now: Time, sectors: u64) -> Time {
        let run = self.writing;
        let needed = (run.next + sectors)
            .saturating_sub(self.write_buffer)
            .min(run.next);
        if needed <= run.first {
            return now;
        }
        now.max(run.start + self.transfer(run.first, needed))
    }

    /// Moves arm and heads at `now`, and waits until `sector` comes round.
    fn position(&self, now: Time, sector: u64) -> Time {
        let (from, to) = (self.line.track(self.rest), self.line.track(sector));
        let there = now
            + match from.0.abs_diff(to.0) {
                0 if from.1 == to.1 => Time::ZERO,
                0 => self.head_switch,
                cylinders => self.seek(cylinders),
            };
        let rotation = self.sector_time * self.drive.sectors;
        let angle = self.sector_time * (self.line.place(sector) % self.drive.sectors);
        let now_at = (there + self.phase) % rotation;
        there + (angle + rotation - now_at) % rotation
    }

    fn seek(&self, cylinders: u64) -> Time {
        let [a, b] = self.drive.seek_short_ms;
        let [c, d] = self.drive.seek_long_ms;
        Time::from_ms(if cylinders <= self.drive.seek_boundary {
            a + b * (cylinders as f64).sqrt()
        } else {
            c + d * cylinders as f64
        })
    }

    /// The time that the head needs for the sectors from `first` up to `end`.
    fn transfer(&self, first: u64, end: u64) -> Time {
        self.sector_time * (self.line.place(end - 1) + 1 - self.line.place(first))
    }

    /// The sector under a head that reads without a pause from `first` since `start`.
    fn passed(&self, first: u64, start: Time, now: Time) -> u64 {
        let places = now.saturating_sub(start).0 / self.sector_time.0;
        self.line.sector_at(self.line.place(first) + places)
    }
}

/// All sectors on one line, in the order of a sequential transfer, with the gaps of skew.
#[derive(Clone, Debug)]
struct Line {
    track: u64,
    heads: u64,
    /// Places of a track and of a cylinder, gaps included.
    track_places: u64,
    cylinder_places: u64,
    sectors: u64,
}

impl Line {
    fn new(drive: &RotatingDrive) -> Line {
        let track_places = drive.sectors + drive.track_skew;
        Line {
            track: drive.sectors,
            heads: drive.heads,
            track_places,
            cylinder_places: (drive.heads - 1) * track_places + drive.sectors + drive.cylinder_skew,
            sectors: drive.sectors * drive.heads * drive.cylinders,
        }
    }

    /// Cylinder and head of a sector.
    fn track(&self, sector: u64) -> (u64, u64) {
        let track = sector / self.track;
        (track / self.heads, track % self.heads)
    }

    fn place(&self, sector: u64) -> u64 {
        let (cylinder, head) = self.track(sector);
        cylinder * self.cylinder_places + head * self.track_places + sector % self.track
    }

    /// The sector at a place, or the next one if the place is in a gap.
    fn sector_at(&self, place: u64) -> u64 {
        let rest = place % self.cylinder_places;
        let head = (rest / self.track_places).min(self.heads - 1);
        let offset = (rest - head * self.track_places).min(self.track);
        (place / self.cylinder_places * self.heads + head) * self.track + offset
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DRIVES, Drive};
    use super::*;
    use crate::random::Stream;

    fn hp() -> RotatingDrive {
        match Drive::named("hp97560").unwrap() {
            Drive::Rotating(drive) => drive,
            Drive::Solid(_) => unreachable!("{:?}", DRIVES[0]),
        }
    }

    #[test]
    fn place_and_sector_are_inverse() {
        let line = Line::new(&hp());
        for sector in (0..20_000).chain(2_000_000..2_003_000) {
            assert_eq!(line.sector_at(line.place(sector)), sector);
        }
        // A cylinder: 1368 sectors, 18 track skews, one cylinder skew.
        assert_eq!(line.place(1368), 1530);
    }

    #[test]
    fn published_rates_follow_from_the_geometry() {
        let disk = Rotating::new(&hp(), Time::ZERO);
        let mb = f64::from(1 << 20);
        let peak = 72.0 * 512.0 / (disk.sector_time * 72).seconds() / mb;
        assert!((peak * 16.0 - 37.5).abs() < 0.05, "peak {peak}");
        let sustained = 1368.0 * 512.0 / (disk.sector_time * 1530).seconds() / mb;
        assert!(
            (sustained * 16.0 - 33.55).abs() < 0.02,
            "sustained {sustained}"
        );
        let file = disk.transfer(0, 1280);
        assert!((file.as_ms() - 294.85).abs() < 0.01, "{file}");
    }

    #[test]
    fn the_mean_random_seek_is_that_of_the_facts() {
        let disk = Rotating::new(&hp(), Time::ZERO);
        let mut stream = Stream::new(1, "seeks");
        let n = 100_000;
        let sum: f64 = (0..n)
            .map(|_| {
                let (a, b) = (stream.below(1962), stream.below(1962));
                if a == b {
                    0.0
                } else {
                    disk.seek(a.abs_diff(b)).as_ms()
                }
            })
            .sum();
        assert!(
            (sum / f64::from(n) - 12.91).abs() < 0.15,
            "{}",
            sum / f64::from(n)
        );
    }

    /// The host's side of the disk-only test: one request after the other, no processor.
    fn run(drive: &RotatingDrive, blocks: &[u64], write: bool, phase: Time) -> f64 {
        let mut disk = Rotating::new(drive, phase);
        let bus = Time::from_us(819.2);
        let mut now = Time::ZERO;
        for block in blocks {
            let at = now + disk.command_time();
            now = if write {
                disk.write(at + bus, block * 16, 16)
            } else {
                disk.read(at, block * 16, 16) + bus
            };
        }
        now.seconds()
    }

    /// MB/s of 16 disks with 80 random blocks each, the slowest disk deciding; mean of layouts.
    fn random(drive: &RotatingDrive, write: bool, sorted: bool) -> f64 {
        let rates = (0..20).map(|layout| {
            let mut stream = Stream::new(layout, "layout");
            let slowest = (0..16)
                .map(|_| {
                    let mut blocks: Vec<u64> =
                        (0..80).map(|_| stream.below(1962 * 1368 / 16)).collect();
                    if sorted {
                        blocks.sort_unstable();
                    }
                    run(drive, &blocks, write, stream.time_below(Time::ms(15)))
                })
                .fold(0.0, f64::max);
            10.0 / slowest
        });
        rates.sum::<f64>() / 20.0
    }

    #[track_caller]
    fn near(simulated: f64, expected: f64, tolerance: f64) {
        let error = simulated / expected - 1.0;
        assert!(
            error.abs() <= tolerance,
            "{simulated:.3} instead of {expected}"
        );
    }

    #[test]
    fn random_reads_and_writes_reach_the_published_rates() {
        near(random(&hp(), false, false), 4.41, 0.03);
        near(random(&hp(), false, true), 6.29, 0.03);
        near(random(&hp(), true, false), 5.02, 0.03);
        near(random(&hp(), true, true), 7.52, 0.03);
    }

    fn contiguous(drive: &RotatingDrive, write: bool) -> f64 {
        let blocks: Vec<u64> = (0..80).collect();
        let phases = (0..30).map(|k| Time::from_ms(14.9925 * k as f64 / 30.0));
        phases
            .map(|phase| 10.0 / run(drive, &blocks, write, phase))
            .sum::<f64>()
            / 30.0
    }

    #[test]
    fn a_contiguous_file_streams() {
        near(contiguous(&hp(), false), 32.75, 0.01);
        near(contiguous(&hp(), true), 34.8, 0.02);
    }

    #[test]
    fn without_read_ahead_or_immediate_reporting_every_block_costs_a_rotation() {
        near(
            contiguous(
                &RotatingDrive {
                    read_ahead: false,
                    ..hp()
                },
                false,
            ),
            6.7,
            0.03,
        );
        let slow = RotatingDrive {
            immediate_report: false,
            ..hp()
        };
        near(contiguous(&slow, true), 6.7, 0.03);
        near(random(&slow, true, false), 4.41, 0.03);
        near(random(&slow, true, true), 6.31, 0.03);
    }

    #[test]
    fn the_write_buffer_decides_how_much_is_still_to_come_at_the_end() {
        for (kb, rate) in [
            (8, 33.1),
            (16, 33.5),
            (24, 33.8),
            (32, 34.4),
            (48, 35.2),
            (64, 36.3),
        ] {
            near(
                contiguous(
                    &RotatingDrive {
                        write_buffer_kb: kb,
                        ..hp()
                    },
                    true,
                ),
                rate,
                0.02,
            );
        }
    }
}
