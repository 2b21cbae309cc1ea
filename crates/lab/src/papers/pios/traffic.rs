//! Traffic: what each compute node sends when, drawn at random or read from a user's trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trireme_sim::random::Stream;
use trireme_sim::time::Time;

use super::load::{MESSAGES, SMALL_SHARE, messages_per_second, requests_per_second};
use crate::error::Error;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read of so many bytes: a small request, then the data comes back.
    Read,
    /// A write: the data goes out.
    Write,
    /// A message between compute nodes.
    Message,
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it is generated.
    pub at: Time,
    /// The node that generates it.
    pub from: u32,
    /// The node it is for.
    pub to: u32,
    /// What it is.
    pub kind: Kind,
    /// Size of the data.
    pub bytes: u64,
}

/// A source of entries in order of time.
pub trait Traffic {
    /// The next entry, if there is one.
    fn next_entry(&mut self) -> Option<Entry>;
}

/// Which nodes do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Compute nodes.
    pub compute: Vec<u32>,
    /// I/O nodes.
    pub io: Vec<u32>,
}

impl Placement {
    /// Half the nodes compute (the even ones), `io_nodes` of the others do I/O, evenly distributed;
    /// the rest is idle.
    pub fn even(nodes: u32, io_nodes: u32) -> Result<Self, Error> {
        let half = nodes / 2;
        if io_nodes == 0 || io_nodes > half {
            return Err(Error::value(
                "io_nodes",
                io_nodes,
                "half the nodes compute",
                format!("1 to {half}"),
            ));
        }
        Ok(Self {
            compute: (0..half).map(|n| 2 * n).collect(),
            io: (0..io_nodes)
                .map(|j| 2 * (j * half / io_nodes) + 1)
                .collect(),
        })
    }
}

/// What the stochastic traces look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// F/B at each compute node; infinite for no I/O.
    pub flops_per_byte: f64,
    /// Bytes of one I/O request.
    pub io_bytes: u64,
    /// Share of reads.
    pub reads: f64,
    /// Load of messages between compute nodes.
    pub message_load: f64,
    /// The cycle that this load counts in, ns: 13.3 as stated, or 25 as the paper computed.
    pub load_cycle_ns: f64,
}

/// Poisson traffic of every compute node to destinations of equal probability.
pub struct Stochastic {
    placement: Placement,
    mix: Mix,
    end: Time,
    streams: Vec<Stream>,
    /// The next arrival of each of the two kinds at each compute node.
    next: BinaryHeap<Reverse<(Time, u32, bool)>>,
    rates: [f64; 2],
}

impl Stochastic {
    /// Traffic until `end`.
    pub fn new(placement: Placement, mix: Mix, end: Time, seed: u64) -> Self {
        let io_rate = if mix.flops_per_byte.is_finite() {
            requests_per_second(mix.flops_per_byte, mix.io_bytes)
        } else {
            0.0
        };
        let rates = [
            messages_per_second(mix.message_load, mix.load_cycle_ns),
            io_rate,
        ];
        // Messages and I/O draw from their own streams, so that adding one does not shift the other.
        let streams = (0..2 * placement.compute.len())
            .map(|at| Stream::indexed(seed, "traffic", at))
            .collect();
        let mut traffic = Self {
            placement,
            mix,
            end,
            streams,
            next: BinaryHeap::new(),
            rates,
        };
        for node in 0..traffic.placement.compute.len() as u32 {
            for io in [false, true] {
                traffic.plan(Time::ZERO, node, io);
            }
        }
        traffic
    }

    fn plan(&mut self, now: Time, node: u32, io: bool) {
        let rate = self.rates[usize::from(io)];
        if rate > 0.0 {
            let stream = &mut self.streams[2 * node as usize + usize::from(io)];
            let at = now + Time::from_seconds(stream.exponential(1.0 / rate));
            self.next.push(Reverse((at, node, io)));
        }
    }
}

impl Traffic for Stochastic {
    fn next_entry(&mut self) -> Option<Entry> {
        let Reverse((at, node, io)) = self.next.pop()?;
        if at >= self.end {
            return None;
        }
        let stream = &mut self.streams[2 * node as usize + usize::from(io)];
        let from = self.placement.compute[node as usize];
        let entry = if io {
            let kind = if stream.unit() < self.mix.reads {
                Kind::Read
            } else {
                Kind::Write
            };
            let to = self.placement.io[stream.below(self.placement.io.len() as u64) as usize];
            Entry {
                at,
                from,
                to,
                kind,
                bytes: self.mix.io_bytes,
            }
        } else {
            let others = self.placement.compute.len() as u64 - 1;
            let draw = stream.below(others) as u32;
            let to = self.placement.compute[(draw + u32::from(draw >= node)) as usize];
            let bytes = MESSAGES[usize::from(stream.unit() >= SMALL_SHARE)];
            Entry {
                at,
                from,
                to,
                kind: Kind::Message,
                bytes,
            }
        };
        self.plan(at, node, io);
        Some(entry)
    }
}

/// A trace from a file, in memory.
pub struct Trace {
    entries: std::vec::IntoIter<Entry>,
}

impl Trace {
    /// Reads a trace for a machine with so many nodes. A line is `microseconds from to kind bytes`,
    /// kind being read, write or message; `#` starts a comment. Lines may be in any order.
    pub fn parse(file: &str, text: &str, nodes: u32) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let entry = parse_line(line, nodes).map_err(|reason| Error::File {
                file: format!("{file}:{}", number + 1),
                reason: format!(
                    "{reason}; a line is `microseconds from to kind bytes`, such as \
                     `12.5 0 1 read 32768`"
                ),
            })?;
            entries.push(entry);
        }
        entries.sort_by_key(|entry: &Entry| entry.at);
        Ok(Self {
            entries: entries.into_iter(),
        })
    }

    /// Writes entries as a trace.
    pub fn write(mut traffic: impl Traffic) -> String {
        let mut text = String::from("# microseconds from to kind bytes\n");
        while let Some(entry) = traffic.next_entry() {
            let kind = match entry.kind {
                Kind::Read => "read",
                Kind::Write => "write",
                Kind::Message => "message",
            };
            let Entry {
                at,
                from,
                to,
                bytes,
                ..
            } = entry;
            text += &format!("{:.6} {from} {to} {kind} {bytes}\n", at.as_us());
        }
        text
    }
}

impl Traffic for Trace {
    fn next_entry(&mut self) -> Option<Entry> {
        self.entries.next()
    }
}

fn parse_line(line: &str, nodes: u32) -> Result<Entry, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [at, from, to, kind, bytes] = fields[..] else {
        return Err(format!("{} fields, not 5", fields.len()));
    };
    let at: f64 = at.parse().map_err(|_| format!("`{at}` is not a time"))?;
    // A run of more than a month would not end: the limit keeps times far from overflow.
    if !(0.0..=3e12).contains(&at) {
        return Err(format!("time {at} is not between 0 and 3e12"));
    }
    let node = |text: &str| match text.parse::<u32>() {
        Ok(node) if node < nodes => Ok(node),
        _ => Err(format!("`{text}` is not a node of 0 to {}", nodes - 1)),
    };
    let (from, to) = (node(from)?, node(to)?);
    if from == to {
        return Err(format!("node {from} sends to itself"));
    }
    let kind = match kind {
        "read" => Kind::Read,
        "write" => Kind::Write,
        "message" => Kind::Message,
        _ => return Err(format!("`{kind}` is not read, write or message")),
    };
    let bytes: u64 = bytes
        .parse()
        .map_err(|_| format!("`{bytes}` is not a number of bytes"))?;
    if !(1..=1 << 30).contains(&bytes) {
        return Err(format!("{bytes} bytes: 1 to {} are possible", 1 << 30));
    }
    Ok(Entry {
        at: Time::from_us(at),
        from,
        to,
        kind,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(seed: u64) -> Stochastic {
        let mix = Mix {
            flops_per_byte: 14.32,
            io_bytes: 32768,
            reads: 0.67,
            message_load: 0.1,
            load_cycle_ns: 13.3,
        };
        let placement = Placement::even(32, 12).unwrap();
        Stochastic::new(placement, mix, Time::from_seconds(2.0), seed)
    }

    #[test]
    fn rates_and_shares_are_those_of_the_mix() {
        let mut traffic = traffic(1);
        let (mut reads, mut writes, mut messages, mut last) = (0, 0, 0, Time::ZERO);
        while let Some(entry) = traffic.next_entry() {
            assert!(entry.at >= last && entry.from != entry.to);
            last = entry.at;
            match entry.kind {
                Kind::Read => reads += 1,
                Kind::Write => writes += 1,
                Kind::Message => messages += 1,
            }
        }
        let io = f64::from(reads + writes);
        assert!((io / (2.0 * 16.0 * 160.2) - 1.0).abs() < 0.05, "{io}");
        assert!((f64::from(reads) / io - 0.67).abs() < 0.02);
        let rate = f64::from(messages) / (2.0 * 16.0 * 2097.9);
        assert!((rate - 1.0).abs() < 0.03, "{rate}");
    }

    #[test]
    fn a_written_trace_is_read_back() {
        let text = Trace::write(traffic(2));
        let mut again = Trace::parse("t", &text, 32).unwrap();
        let mut drawn = traffic(2);
        while let Some(entry) = drawn.next_entry() {
            assert_eq!(again.next_entry(), Some(entry));
        }
        assert_eq!(again.next_entry(), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (line, reason) in [
            ("1 0 1 read", "4 fields"),
            ("x 0 1 read 1", "`x` is not a time"),
            ("1 0 99 read 1", "`99` is not a node of 0 to 15"),
            ("1 3 3 read 1", "sends to itself"),
            ("1 0 1 fetch 1", "`fetch`"),
            ("1 0 1 read 0", "0 bytes"),
            ("-1 0 1 read 1", "time -1"),
        ] {
            let text = format!("# a comment\n\n{line}\n");
            let error = Trace::parse("t", &text, 16).err().unwrap().to_string();
            assert!(error.contains("t:3") && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn io_nodes_are_evenly_distributed() {
        assert_eq!(Placement::even(32, 4).unwrap().io, [1, 9, 17, 25]);
        assert_eq!(
            Placement::even(16, 8).unwrap().io,
            [1, 3, 5, 7, 9, 11, 13, 15]
        );
        assert_eq!(Placement::even(16, 6).unwrap().io, [1, 3, 5, 9, 11, 13]);
        assert!(Placement::even(16, 9).is_err());
    }
}
