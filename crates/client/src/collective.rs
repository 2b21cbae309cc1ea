//! Joint transfers: every member of a group names its part of a file and its buffer, and the system
//! moves all of it at once.

mod access;
mod bounce;
mod directed;
mod exchange;
mod independent;
mod serve;
mod two_phase;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use trireme_partition::{ArraySpec, Part, Partition};
use trireme_proto::message::collective::Phases;

use crate::file::File;
use crate::{Error, Group, Pending, Result, TransferOptions};

use access::Access;
pub(crate) use bounce::Bounce;
pub(crate) use exchange::Door;
use serve::Memory;

/// How a collective is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// What measured best: disk-directed.
    #[default]
    Auto,
    /// Each member alone, through the servers' caches: the papers' traditional caching.
    Independent,
    /// Members exchange bytes so that each has one large range, and move that.
    TwoPhase,
    /// The servers move the bytes, in the order that suits their disks.
    DiskDirected,
}

impl Method {
    /// The three that differ.
    pub const ALL: [Method; 3] = [Method::Independent, Method::TwoPhase, Method::DiskDirected];
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Method::Auto => "auto",
            Method::Independent => "independent",
            Method::TwoPhase => "two-phase",
            Method::DiskDirected => "disk-directed",
        })
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Method> {
        [Method::Auto]
            .into_iter()
            .chain(Method::ALL)
            .find(|method| method.to_string() == text)
            .ok_or_else(|| {
                Error::Invalid(format!(
                    "there is no method \"{text}\": auto, independent, two-phase or disk-directed"
                ))
            })
    }
}

/// What one server did in a disk-directed collective, and where its time went.
#[derive(Debug, Clone, Copy)]
pub struct ServerReport {
    /// Its number.
    pub server: u32,
    /// Times and counts.
    pub phases: Phases,
}

/// What a collective did, as one member saw it.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it was carried out.
    pub method: Method,
    /// This member's bytes.
    pub bytes: u64,
    /// Pieces that they consist of in the file.
    pub pieces: u64,
    /// From call to return.
    pub seconds: f64,
    /// Processor time of this member's threads, the kernel's work for them included.
    pub client_cpu: f64,
    /// Processor time that the servers spent on the whole collective (disk-directed only: of requests of
    /// other kinds a server does not know what they belong to).
    pub server_cpu: f64,
    /// Each server's side (disk-directed only).
    pub servers: Vec<ServerReport>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} bytes in {} pieces, {:.3} ms, {:.1} MB/s; processor time {:.3} ms here, {:.3} ms on servers",
            self.method,
            self.bytes,
            self.pieces,
            self.seconds * 1e3,
            self.bytes as f64 / self.seconds / 1e6,
            self.client_cpu * 1e3,
            self.server_cpu * 1e3,
        )?;
        for server in &self.servers {
            let p = &server.phases;
            let ms = |ns: u64| ns as f64 / 1e6;
            writeln!(
                f,
                "  server {}: {} bytes, {} pieces, {} blocks; wait {:.3}, plan {:.3}, disk {:.3}, \
                 move {:.3}, all {:.3}, processor {:.3} ms",
                server.server,
                p.bytes,
                p.pieces,
                p.blocks,
                ms(p.wait_ns),
                ms(p.plan_ns),
                ms(p.disk_ns),
                ms(p.move_ns),
                ms(p.total_ns),
                ms(p.cpu_ns)
            )?;
        }
        Ok(())
    }
}

/// A joint transfer in the making. All members must make the same call on the same file.
///
/// ```no_run
/// # fn f(file: &trireme::File, group: &trireme::Group, mine: trireme::Part, buffer: &mut [u8]) -> trireme::Result<()> {
/// use trireme::{Collective, Method};
/// let report = Collective::new(file, group)
///     .view(mine)                       // my bytes of the file
///     .method(Method::TwoPhase)         // default: what is best
///     .read(buffer)?;
/// println!("{report}");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before `read` or `write`"]
pub struct Collective<'a> {
    file: &'a File,
    group: &'a Group,
    view: Option<Part>,
    at: u64,
    memory: Option<Part>,
    method: Method,
    transfer: TransferOptions,
}

impl<'a> Collective<'a> {
    /// A joint transfer of `file` by `group`. Without more, this member takes part with nothing.
    pub fn new(file: &'a File, group: &'a Group) -> Collective<'a> {
        Collective {
            file,
            group,
            view: None,
            at: 0,
            memory: None,
            method: Method::Auto,
            transfer: file.transfer(),
        }
    }

    /// The bytes of the file that are this member's.
    pub fn view(mut self, part: Part) -> Self {
        self.view = Some(part);
        self
    }

    /// The first byte of the view to move (default 0).
    pub fn at(mut self, offset: u64) -> Self {
        self.at = offset;
        self
    }

    /// The bytes of the buffer to move, in the order of the view; default: all of them.
    pub fn memory(mut self, part: Part) -> Self {
        self.memory = Some(part);
        self
    }

    /// How to do it; all members must say the same.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Schedule, schedule block and blocks in flight of this call, for the methods in which members move
    /// bytes themselves (default: the file's).
    pub fn transfer(mut self, options: TransferOptions) -> Self {
        self.transfer = options;
        self
    }

    /// Writes this member's bytes, together with all others'. When it returns, all members' bytes are
    /// there for everybody to read.
    pub fn write(&self, data: &[u8]) -> Result<Report> {
        self.write_in_turn(self.group.inner.queue.ticket(), data)
    }

    /// Reads this member's bytes, together with all others. Bytes beyond the file's end are zero.
    pub fn read(&self, data: &mut [u8]) -> Result<Report> {
        self.read_in_turn(self.group.inner.queue.ticket(), data)
    }

    fn write_in_turn(&self, ticket: u64, data: &[u8]) -> Result<Report> {
        self.run(ticket, data.len(), |access| {
            let inner = &self.file.inner;
            inner.wrote.store(true, Ordering::Relaxed);
            let report = if access.is_direct() {
                self.carry_out(access, Memory::source(&data[access.direct()]), true)?
            } else {
                let mut packed = self.bounce(access);
                access.pack(data, &mut packed);
                let report = self.carry_out(access, Memory::source(&packed), true)?;
                packed.keep();
                report
            };
            let end = access.part().file_span().end;
            inner.has_written(end);
            Ok(report)
        })
    }

    fn read_in_turn(&self, ticket: u64, data: &mut [u8]) -> Result<Report> {
        self.run(ticket, data.len(), |access| {
            if access.is_direct() {
                let memory = Memory::target(&mut data[access.direct()]);
                return self.carry_out(access, memory, false);
            }
            let mut packed = self.bounce(access);
            let report = self.carry_out(access, Memory::target(&mut packed), false)?;
            access.unpack(&packed, data);
            packed.keep();
            Ok(report)
        })
    }

    /// Memory for the bytes of a buffer in which they do not lie as in the file.
    fn bounce(&self, access: &Access) -> bounce::Packed<'_> {
        let length = access.direct().end;
        self.group
            .inner
            .bounce
            .take(&self.file.inner.cluster, length)
    }

    /// Starts a joint write; the buffer comes back. A member's collectives run one after the other, in
    /// the order in which they were started.
    pub fn start_write(&self, data: Vec<u8>) -> Pending<(Vec<u8>, Report)> {
        self.start(move |collective, ticket| {
            let report = collective.write_in_turn(ticket, &data)?;
            Ok((data, report))
        })
    }

    /// Starts a joint read; the buffer comes back filled.
    pub fn start_read(&self, mut data: Vec<u8>) -> Pending<(Vec<u8>, Report)> {
        self.start(move |collective, ticket| {
            let report = collective.read_in_turn(ticket, &mut data)?;
            Ok((data, report))
        })
    }

    fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Collective<'_>, u64) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let (file, group) = (self.file.share(), self.group.clone());
        let (view, memory) = (self.view.clone(), self.memory.clone());
        let (at, method, transfer) = (self.at, self.method, self.transfer);
        let ticket = self.group.inner.queue.ticket();
        // On a thread of its own: among a bounded number of workers, members that share a process could
        // wait for each other.
        crate::pending::start_apart(move || {
            let collective = Collective {
                file: &file,
                group: &group,
                view,
                at,
                memory,
                method,
                transfer,
            };
            work(&collective, ticket)
        })
    }

    fn run(
        &self,
        ticket: u64,
        length: usize,
        transfer: impl FnOnce(&Access) -> Result<Report>,
    ) -> Result<Report> {
        let _turn = self.group.inner.queue.wait(ticket);
        // Counted whatever becomes of the call, so that all members' counts stay alike.
        self.group.inner.collectives.fetch_add(1, Ordering::Relaxed);
        let access = Access::new(
            self.view.clone().unwrap_or_else(Part::empty),
            self.at,
            self.memory.as_ref(),
            if self.view.is_some() { length } else { 0 },
        );
        match access {
            Ok(access) => transfer(&access),
            Err(error) => {
                // The others must not wait for us.
                self.refuse(&error);
                Err(error)
            }
        }
    }

    fn carry_out(&self, access: &Access, memory: Memory, write: bool) -> Result<Report> {
        let started = Instant::now();
        let cpu = thread_cpu();
        let mut report = match self.method {
            Method::Independent => independent::run(self, access, memory, write),
            Method::TwoPhase => two_phase::run(self, access, memory, write),
            Method::Auto | Method::DiskDirected => {
                directed::run(self.file, self.group, access, memory, write)
            }
        }?;
        report.seconds = started.elapsed().as_secs_f64();
        report.client_cpu += thread_cpu() - cpu;
        Ok(report)
    }

    fn refuse(&self, error: &Error) {
        match self.method {
            Method::Auto | Method::DiskDirected => directed::refuse(self.file, self.group, error),
            Method::TwoPhase => two_phase::refuse(self.group, error),
            Method::Independent => {
                let _ = meet(self.group, Err(error));
            }
        }
    }
}

impl Report {
    fn new(method: Method, access: &Access) -> Report {
        Report {
            method,
            bytes: access.part().size(),
            pieces: access.pieces(),
            seconds: 0.0,
            client_cpu: 0.0,
            server_cpu: 0.0,
            servers: Vec::new(),
        }
    }
}

/// Ends a collective that the members carried out themselves: what one could not do is an error for
/// all.
fn meet(group: &Group, mine: std::result::Result<(), &Error>) -> Result<()> {
    let said = match mine {
        Ok(()) => Vec::new(),
        Err(error) => error.to_string().into_bytes(),
    };
    let all = group.gather(&said)?;
    for (rank, said) in all.iter().enumerate() {
        if !said.is_empty() && rank as u32 != group.rank() {
            return Err(Error::Invalid(format!(
                "group \"{}\": member {rank}: {}",
                group.name(),
                String::from_utf8_lossy(said)
            )));
        }
    }
    Ok(())
}

impl Group {
    /// Writes `data` to this member's part of `file`, together with all other members.
    pub fn write_all(&self, file: &File, view: &Part, data: &[u8]) -> Result<Report> {
        Collective::new(file, self).view(view.clone()).write(data)
    }

    /// Fills `data` from this member's part of `file`, together with all other members.
    pub fn read_all(&self, file: &File, view: &Part, data: &mut [u8]) -> Result<Report> {
        Collective::new(file, self).view(view.clone()).read(data)
    }

    /// Writes this member's part of an array that is distributed over the group.
    ///
    /// ```no_run
    /// # fn f(group: &trireme::Group, file: &trireme::File, mine: &[u8]) -> trireme::Result<()> {
    /// use trireme::{ArraySpec, Dist};
    /// // 1280 x 1024 doubles: rows in blocks, columns dealt out, on a grid of 2 x 2 members.
    /// let array = ArraySpec::new(&[1280, 1024], 8, &[Dist::Block, Dist::Cyclic(1)], &[2, 2]);
    /// group.write_array(file, &array, mine)?;
    /// # Ok(()) }
    /// ```
    pub fn write_array(&self, file: &File, array: &ArraySpec, data: &[u8]) -> Result<Report> {
        self.write_all(file, &self.part_of(array)?, data)
    }

    /// Reads this member's part of an array that is distributed over the group.
    pub fn read_array(&self, file: &File, array: &ArraySpec, data: &mut [u8]) -> Result<Report> {
        self.read_all(file, &self.part_of(array)?, data)
    }

    fn part_of(&self, array: &ArraySpec) -> Result<Part> {
        let partition = Partition::array(array.clone())?;
        partition.expect_parts(self.size())?;
        Ok(partition.part(self.rank())?)
    }
}

/// Processor time of this thread, seconds.
fn thread_cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
