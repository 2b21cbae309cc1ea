//! How data is printed: sizes, times, modes, names, tables, JSON.

use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trireme_proto::message::meta::{Attr, Entry, Kind, Time};

/// An error with its causes, each said once: many messages contain their cause already.
pub fn error(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let last = matches!(cause.downcast_ref(), Some(trireme::Error::At { .. }));
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        // It has said what is to be said of the refusal below it.
        if last {
            break;
        }
    }
    text
}

/// Prints one JSON value on a line of its own.
pub fn print_json(value: &Value) {
    println!("{value:#}");
}

/// Bytes as text (RFC 4648), for JSON.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let all = group
            .iter()
            .enumerate()
            .fold(0, |all, (at, byte)| all | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..4 {
            let value = (all >> (18 - 6 * digit)) & 63;
            let present = digit <= group.len();
            text.push(if present {
                DIGITS[value as usize] as char
            } else {
                '='
            });
        }
    }
    text
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value < 10.0 => format!("{value:.2} {}", UNITS[unit]),
        _ if value < 100.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Reads a number of bytes: `65536`, `64K`, `64KiB`, `1M`, `1.5G`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; write 65536, 64K, 1M or 1.5G");
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let count = number * (1u64 << shift) as f64;
    if count.is_finite() && count < 9e18 {
        Ok(count as u64)
    } else {
        Err(wrong())
    }
}

/// A name with what could confuse a terminal made visible.
pub fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Type and permission bits as `ls -l` shows them.
pub fn mode(attr: &Attr) -> String {
    let kind = match attr.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    };
    let mut text = String::from(kind);
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    for (index, (bit, with, without)) in special.into_iter().enumerate() {
        let triple = attr.mode >> (6 - 3 * index);
        text.push(if triple & 4 != 0 { 'r' } else { '-' });
        text.push(if triple & 2 != 0 { 'w' } else { '-' });
        text.push(match (triple & 1 != 0, attr.mode & bit != 0) {
            (true, true) => with,
            (false, true) => without,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A word for the kind.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "char-device",
        Kind::BlockDevice => "block-device",
    }
}

/// A time as `2026-01-31 12:00:00`, UTC.
pub fn time(time: Time) -> String {
    let days = time.seconds.div_euclid(86_400);
    let second = time.seconds.rem_euclid(86_400);
    // From days since 1970 to a date: H. Hinnant's civil_from_days.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// An entry as JSON.
pub fn entry_json(path: &str, entry: &Entry) -> Value {
    let attr = &entry.attr;
    let seconds = |time: Time| time.seconds as f64 + f64::from(time.nanos) / 1e9;
    let mut value = json!({
        "path": path,
        "kind": kind(attr.kind),
        "size": attr.size,
        "mode": format!("{:04o}", attr.mode),
        "nlink": attr.nlink,
        "uid": attr.uid,
        "gid": attr.gid,
        "inode": attr.inode,
        "atime": seconds(attr.atime),
        "mtime": seconds(attr.mtime),
        "ctime": seconds(attr.ctime),
        "btime": seconds(attr.btime),
    });
    if let Some(layout) = &entry.layout {
        value["layout"] = json!({
            "unit": layout.unit,
            "servers": layout.servers,
            "first": layout.first,
        });
    }
    value
}

/// A rate for people.
pub fn rate(count: u64, time: Duration) -> String {
    format!(
        "{}/s",
        bytes((count as f64 / time.as_secs_f64().max(1e-9)) as u64)
    )
}

/// A file's time as the cluster keeps it.
pub fn from_system(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time {
            seconds: after.as_secs() as i64,
            nanos: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let up = u64::from(before.subsec_nanos() > 0);
            let nanos = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
            Time {
                seconds: -((before.as_secs() + up) as i64),
                nanos,
            }
        }
    }
}

/// A cluster's time as this machine keeps it.
pub fn to_system(time: Time) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    match u64::try_from(time.seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) + nanos,
    }
}

/// A table without lines; columns of numbers align right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = header.iter().map(|title| width(title)).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let numeric: Vec<bool> = (0..header.len())
        .map(|column| {
            let starts = |row: &Vec<String>| row[column].starts_with(|c: char| c.is_ascii_digit());
            column + 1 < header.len() && !rows.is_empty() && rows.iter().all(starts)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let gap = " ".repeat(widths[column] - width(cell));
            if numeric[column] {
                text.push_str(&gap);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.push_str(&gap);
            }
            text.push_str("  ");
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![line(header.to_vec())];
    lines.extend(
        rows.iter()
            .map(|row| line(row.iter().map(String::as_str).collect())),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in examples {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn times_read_as_dates() {
        let at = |seconds| time(Time { seconds, nanos: 0 });
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(4_102_444_799), "2099-12-31 23:59:59");
    }

    #[test]
    fn system_times_come_back() {
        for time in [(0, 0), (5, 7), (-1, 999_999_999), (-3, 1)] {
            let time = Time {
                seconds: time.0,
                nanos: time.1,
            };
            assert_eq!(from_system(to_system(time)), time);
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("65536"), Ok(65536));
        assert_eq!(parse_bytes("64K"), Ok(65536));
        assert_eq!(parse_bytes("64KiB"), Ok(65536));
        assert_eq!(parse_bytes("1.5M"), Ok(3 << 19));
        assert!(parse_bytes("lots").is_err());
        assert_eq!(bytes(1536), "1.50 KiB");
    }
}
