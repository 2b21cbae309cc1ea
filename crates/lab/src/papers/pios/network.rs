//! The packet-level simulation: adapters, switches with central queue and bypass, I/O nodes.
//!
//! A message travels as packets of 512 bytes, each as a unit with cut-through: its head needs five
//! cycles per switch and then the output link, for two bytes per cycle. A packet whose output is free
//! and for which nobody queues takes the bypass; others wait in the central queue, from which each
//! output takes the input it has served least recently. Buffers are unlimited, routes static.

use std::collections::VecDeque;

use trireme_sim::agenda::Agenda;
use trireme_sim::random::Stream;
use trireme_sim::statistics::Tally;
use trireme_sim::time::Time;

use super::io_node::{self, Equipment, Next, Node};
use super::load::CYCLE_NS;
use super::topology::{PORTS_MAX, Topology};
use super::traffic::{Entry, Kind, Traffic};

/// Bytes of a packet.
pub const PACKET: u64 = 512;
/// Bytes of a read request.
pub const READ_REQUEST: u64 = 200;
/// Cycles a packet's head needs through a switch (commonly reported for the chip, not verified).
const SWITCH_CYCLES: u64 = 5;

/// How I/O nodes are represented.
#[derive(Clone, Debug)]
pub enum IoNodes {
    /// As PIOS did: the queueing model's mean time of a read, hits and misses together.
    TwoStep {
        /// That time, ms.
        read_ms: f64,
    },
    /// The queueing model inside the simulation: requests wait for each other.
    Integrated(Equipment),
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// How nodes are wired.
    pub topology: Topology,
    /// Speed at which an adapter sends, 10^6 bytes/s; the link's 150 or the stated minimum of 85.
    pub adapter_mb_s: f64,
    /// What I/O nodes do.
    pub io_nodes: IoNodes,
}

/// Mean times; microseconds but where stated.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From the generation of a read request to its first byte at the I/O node.
    pub request: Tally,
    /// From the first byte of a response leaving the I/O node to its last byte at the reader.
    pub response: Tally,
    /// Whole reads, ms.
    pub read_ms: Tally,
    /// From the generation of a write to its last byte in the I/O node's buffer.
    pub write: Tally,
    /// From the generation of a message between compute nodes to its last byte.
    pub message: Tally,
    /// Packets that took a switch's bypass.
    pub bypassed: u64,
    /// Packets that waited in a central queue.
    pub queued: u64,
    /// Events processed.
    pub events: u64,
}

/// Runs traffic through a machine; what is generated before `warm_up` is not measured.
pub fn simulate(
    machine: &Machine,
    traffic: &mut impl Traffic,
    warm_up: Time,
    seed: u64,
) -> Measured {
    let nodes = machine.topology.nodes() as usize;
    let mut run = Run {
        machine,
        agenda: Agenda::new(),
        messages: Vec::new(),
        unused: Vec::new(),
        adapters: vec![Adapter::default(); nodes],
        outputs: vec![Output::default(); machine.topology.links().len()],
        io: match machine.io_nodes {
            IoNodes::TwoStep { .. } => Vec::new(),
            IoNodes::Integrated(equipment) => (0..nodes)
                .map(|node| Node::new(equipment, Stream::indexed(seed, "I/O node", node)))
                .collect(),
        },
        warm_up,
        measured: Measured::default(),
    };
    let mut next = traffic.next_entry();
    if let Some(entry) = next {
        run.agenda.at(entry.at, Event::Arrival);
    }
    while let Some(event) = run.agenda.next_event() {
        match event {
            Event::Arrival => {
                let entry = next.take().expect("an arrival was planned for an entry");
                run.generate(entry);
                next = traffic.next_entry();
                if let Some(entry) = next {
                    run.agenda.at(entry.at, Event::Arrival);
                }
            }
            Event::Inject { node } => run.inject(node),
            Event::Head {
                message,
                hop,
                packet,
            } => run.head(message, hop, packet),
            Event::Output { link } => run.output(link),
            Event::Delivered { message } => run.delivered(message),
            Event::Step { message, step } => run.io_step(message, step),
        }
    }
    run.measured.events = run.agenda.processed();
    run.measured
}

#[derive(Clone, Copy)]
enum Event {
    /// The next entry of the traffic is generated.
    Arrival,
    /// A node's adapter can send its next packet.
    Inject { node: u16 },
    /// A packet's head reaches the switch before its `hop`-th link.
    Head { message: u32, hop: u8, packet: u32 },
    /// An output link for which packets wait becomes free.
    Output { link: u16 },
    /// A message's last byte is at its destination.
    Delivered { message: u32 },
    /// A request's next step at its I/O node.
    Step { message: u32, step: u8 },
}

/// What travels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cargo {
    ReadRequest,
    ReadResponse,
    Write,
    Message,
}

#[derive(Clone, Copy)]
struct Message {
    cargo: Cargo,
    from: u16,
    to: u16,
    bytes: u32,
    /// When it, or the read that it answers, was generated.
    generated: Time,
    /// First byte sent (responses), or first byte received (requests).
    first_byte: Time,
    /// Bytes that a read asks for, and what its I/O node made of it.
    io: io_node::Request,
}

#[derive(Clone, Default)]
struct Adapter {
    queue: VecDeque<u32>,
    sent: u32,
    busy: bool,
}

/// An output link of a switch and who waits for it.
#[derive(Clone, Default)]
struct Output {
    free: Time,
    waiting: u32,
    /// Per input of the switch: packets in order, and when it was served last.
    inputs: Vec<Input>,
    served: u32,
}

#[derive(Clone, Default)]
struct Input {
    queue: VecDeque<(u32, u8, u32)>,
    last: u32,
}

struct Run<'a> {
    machine: &'a Machine,
    agenda: Agenda<Event>,
    messages: Vec<Message>,
    unused: Vec<u32>,
    adapters: Vec<Adapter>,
    outputs: Vec<Output>,
    /// Empty when only mean times are used.
    io: Vec<Node>,
    warm_up: Time,
    measured: Measured,
}

fn cycles(n: u64) -> Time {
    Time((n as f64 * CYCLE_NS * 1e3) as u64)
}

impl Run<'_> {
    fn generate(&mut self, entry: Entry) {
        let (cargo, bytes) = match entry.kind {
            Kind::Read => (Cargo::ReadRequest, READ_REQUEST),
            Kind::Write => (Cargo::Write, entry.bytes),
            Kind::Message => (Cargo::Message, entry.bytes),
        };
        self.send(Message {
            cargo,
            from: entry.from as u16,
            to: entry.to as u16,
            bytes: bytes as u32,
            generated: entry.at,
            first_byte: Time::ZERO,
            io: io_node::Request {
                read: entry.kind == Kind::Read,
                miss: false,
                bytes: entry.bytes,
            },
        });
    }

    fn send(&mut self, message: Message) {
        let number = if let Some(number) = self.unused.pop() {
            self.messages[number as usize] = message;
            number
        } else {
            self.messages.push(message);
            self.messages.len() as u32 - 1
        };
        let adapter = &mut self.adapters[message.from as usize];
        adapter.queue.push_back(number);
        if !adapter.busy {
            adapter.busy = true;
            self.agenda
                .at(self.agenda.now(), Event::Inject { node: message.from });
        }
    }

    /// An adapter sends one packet of the message at the head of its queue.
    fn inject(&mut self, node: u16) {
        let now = self.agenda.now();
        let adapter = &mut self.adapters[node as usize];
        let Some(&number) = adapter.queue.front() else {
            adapter.busy = false;
            return;
        };
        let message = &mut self.messages[number as usize];
        let packet = adapter.sent;
        if packet == 0 && message.cargo == Cargo::ReadResponse {
            message.first_byte = now;
        }
        let bytes = packet_bytes(message.bytes, packet);
        adapter.sent += 1;
        if u64::from(adapter.sent) * PACKET >= u64::from(message.bytes) {
            adapter.sent = 0;
            adapter.queue.pop_front();
        }
        let adapter_time = Time::from_us(bytes as f64 / self.machine.adapter_mb_s);
        let busy = cycles(bytes.div_ceil(2)).max(adapter_time);
        self.agenda.at(
            now,
            Event::Head {
                message: number,
                hop: 1,
                packet,
            },
        );
        self.agenda.after(busy, Event::Inject { node });
    }

    /// A packet asks for the next link of its route.
    fn head(&mut self, number: u32, hop: u8, packet: u32) {
        let message = self.messages[number as usize];
        let path = self
            .machine
            .topology
            .path(u32::from(message.from), u32::from(message.to));
        let link = path[hop as usize];
        let ready = self.agenda.now() + cycles(SWITCH_CYCLES);
        let output = &mut self.outputs[link as usize];
        if output.waiting == 0 && output.free <= ready {
            self.measured.bypassed += 1;
            self.transmit(link, number, hop, packet, ready);
            return;
        }
        self.measured.queued += 1;
        if output.inputs.is_empty() {
            output.inputs.resize(PORTS_MAX, Input::default());
        }
        let arrived_on = path[hop as usize - 1];
        let input = self.machine.topology.links()[arrived_on as usize].port;
        output.inputs[input as usize]
            .queue
            .push_back((number, hop, packet));
        output.waiting += 1;
        if output.waiting == 1 {
            let free = output.free.max(ready);
            self.agenda.at(free, Event::Output { link });
        }
    }

    /// A free output takes a packet of the input it served least recently.
    fn output(&mut self, link: u16) {
        let output = &mut self.outputs[link as usize];
        output.served += 1;
        let input = output
            .inputs
            .iter_mut()
            .filter(|input| !input.queue.is_empty())
            .min_by_key(|input| input.last)
            .expect("somebody waits");
        input.last = output.served;
        let (number, hop, packet) = input.queue.pop_front().expect("it is not empty");
        output.waiting -= 1;
        let more = output.waiting > 0;
        self.transmit(link, number, hop, packet, self.agenda.now());
        if more {
            self.agenda
                .at(self.outputs[link as usize].free, Event::Output { link });
        }
    }

    fn transmit(&mut self, link: u16, number: u32, hop: u8, packet: u32, start: Time) {
        let message = &mut self.messages[number as usize];
        let bytes = packet_bytes(message.bytes, packet);
        let end = start + cycles(bytes.div_ceil(2));
        self.outputs[link as usize].free = end;
        if self.machine.topology.links()[link as usize].to != u32::from(message.to) {
            self.agenda.at(
                start,
                Event::Head {
                    message: number,
                    hop: hop + 1,
                    packet,
                },
            );
            return;
        }
        if packet == 0 && message.cargo != Cargo::ReadResponse {
            message.first_byte = start;
        }
        if (u64::from(packet) + 1) * PACKET >= u64::from(message.bytes) {
            self.agenda.at(end, Event::Delivered { message: number });
        }
    }

    fn delivered(&mut self, number: u32) {
        let now = self.agenda.now();
        let message = self.messages[number as usize];
        let counts = message.generated >= self.warm_up;
        let since = |start: Time| (now - start).as_us();
        match message.cargo {
            Cargo::ReadRequest => {
                if counts {
                    self.measured
                        .request
                        .add((message.first_byte - message.generated).as_us());
                }
                self.io_start(number);
            }
            Cargo::ReadResponse => {
                if counts {
                    self.measured.response.add(since(message.first_byte));
                    self.measured.read_ms.add((now - message.generated).as_ms());
                }
                self.unused.push(number);
            }
            Cargo::Write => {
                if counts {
                    self.measured.write.add(since(message.generated));
                }
                self.io_start(number);
            }
            Cargo::Message => {
                if counts {
                    self.measured.message.add(since(message.generated));
                }
                self.unused.push(number);
            }
        }
    }

    fn io_start(&mut self, number: u32) {
        let message = &mut self.messages[number as usize];
        match self.machine.io_nodes {
            IoNodes::Integrated(_) => {
                let node = &mut self.io[message.to as usize];
                message.io = node.request(message.io.read, message.io.bytes);
                self.io_step(number, 0);
            }
            IoNodes::TwoStep { read_ms } => {
                let step = Event::Step {
                    message: number,
                    step: ANSWER,
                };
                self.agenda.after(Time::from_ms(read_ms), step);
            }
        }
    }

    fn io_step(&mut self, number: u32, step: u8) {
        let now = self.agenda.now();
        let message = self.messages[number as usize];
        if step != ANSWER {
            let node = &mut self.io[message.to as usize];
            let (at, step) = match node.step(now, message.io, u32::from(step)) {
                Next::Step(at) => (at, step + 1),
                Next::Done(at) => (at, ANSWER),
            };
            self.agenda.at(
                at,
                Event::Step {
                    message: number,
                    step,
                },
            );
            return;
        }
        self.unused.push(number);
        if message.io.read {
            self.send(Message {
                cargo: Cargo::ReadResponse,
                from: message.to,
                to: message.from,
                bytes: message.io.bytes as u32,
                ..message
            });
        }
    }
}

/// The step after the last: the request is done, and a read is answered.
const ANSWER: u8 = u8::MAX;

fn packet_bytes(bytes: u32, packet: u32) -> u64 {
    (u64::from(bytes) - u64::from(packet) * PACKET).min(PACKET)
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Trace;
    use super::*;

    fn machine(nodes: u32) -> Machine {
        Machine {
            topology: Topology::paper(nodes).unwrap(),
            adapter_mb_s: 1e6,
            io_nodes: IoNodes::TwoStep { read_ms: 3.0 },
        }
    }

    fn run(nodes: u32, trace: &str) -> Measured {
        let mut trace = Trace::parse("test", trace, nodes).unwrap();
        simulate(&machine(nodes), &mut trace, Time::ZERO, 1)
    }

    #[test]
    fn an_idle_network_takes_its_latency_and_its_bytes() {
        // Nodes 0 and 1 share a switch, 0 and 63 are five switches apart.
        for (to, switches) in [(1, 1.0), (5, 3.0), (63, 5.0)] {
            let got = run(64, &format!("0 0 {to} read 32768"));
            let latency = switches * 5.0 * 0.0133;
            assert!(
                (got.request.mean() - latency).abs() < 0.001,
                "{:?}",
                got.request
            );
            // 64 packets of 256 cycles.
            let expected = latency + 64.0 * 256.0 * 0.0133;
            assert!(
                (got.response.mean() - expected).abs() < 0.01,
                "{:?}",
                got.response
            );
            assert!((got.read_ms.mean() - 3.22).abs() < 0.01);
        }
    }

    #[test]
    fn an_adapter_of_85_mb_s_is_the_limit_of_large_messages() {
        let mut trace = Trace::parse("test", "0 0 5 write 32768", 16).unwrap();
        let slow = Machine {
            adapter_mb_s: 85.0,
            ..machine(16)
        };
        let got = simulate(&slow, &mut trace, Time::ZERO, 1).write.mean();
        assert!((got - 384.0).abs() < 5.0, "{got}");
    }

    #[test]
    fn two_senders_to_one_node_share_its_link_fairly() {
        let got = run(16, "0 0 5 message 32768\n0 8 5 message 32768");
        let alone = run(16, "0 0 5 message 32768").message.mean();
        // Packets alternate: both finish at about twice the time.
        assert!(
            (got.message.mean() / alone - 2.0).abs() < 0.02,
            "{}",
            got.message.mean()
        );
        assert!(got.queued > 60 && got.bypassed > 64);
    }

    #[test]
    fn a_small_request_waits_in_its_adapter() {
        let got = run(16, "0 0 5 message 32768\n1 0 9 read 4096");
        assert!(
            (got.request.mean() - 217.0).abs() < 2.0,
            "{}",
            got.request.mean()
        );
    }
}
