//! Processes that do one job of a benchmark after the other, together: ours, or those of an MPI program.
//!
//! Each member reads lines and answers with lines:
//!
//! ```text
//! job ...        what to do
//!   ready PID    everything is prepared, the clock has not started
//! go
//!   done         the transfer has returned
//! check          everybody is done
//!   verified 1   every byte was compared (0: something was wrong); more words may follow
//! ```
//!
//! An idle member waits in `read` and uses no processor.

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::process;

/// How long any answer may take. A job that takes longer is a mistake in the benchmark's sizes.
const PATIENCE: Duration = Duration::from_mins(5);

/// How often a squad that keeps silent is checked for being alive.
const LOOK: Duration = Duration::from_millis(500);

/// The members.
pub struct Squad {
    /// What error messages call them.
    what: &'static str,
    children: Vec<Child>,
    members: Vec<Member>,
}

/// What one job took.
#[derive(Debug, Clone)]
pub struct Run {
    /// From the signal until the last member was done.
    pub seconds: f64,
    /// Processor seconds of the members meanwhile.
    pub members_cpu: f64,
    /// Of the servers.
    pub servers_cpu: f64,
    /// Every byte was where it belongs.
    pub verified: bool,
    /// What else each member had to say.
    pub words: Vec<String>,
}

/// The two ends of a conversation with a member.
pub struct Member {
    to: File,
    from: File,
    heard: Vec<u8>,
}

impl Member {
    /// `from` must not block: it is polled.
    pub fn new(to: File, from: File) -> Member {
        Member {
            to,
            from,
            heard: Vec::new(),
        }
    }

    /// Takes a line if there is one by then.
    fn line(&mut self, time: Duration) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim().to_owned()));
            }
            let timeout = Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: i64::from(time.subsec_nanos()),
            };
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            if poll(&mut fds, Some(&timeout))? == 0 {
                return Ok(None);
            }
            let mut bytes = [0; 4096];
            match self.from.read(&mut bytes) {
                Ok(0) => anyhow::bail!("it has ended"),
                Ok(got) => self.heard.extend_from_slice(&bytes[..got]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Squad {
    /// Processes of this binary, `command(n)` starting number n; it adds `bench worker`.
    pub fn of_workers(count: u32, command: impl Fn(u32) -> Command) -> anyhow::Result<Squad> {
        let mut squad = Squad::new("worker", Vec::new(), Vec::new());
        for number in 0..count {
            let mut child = command(number)
                .args(["bench", "worker", "--number", &number.to_string()])
                .args(["--members", &count.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("start a worker process")?;
            let to = OwnedFd::from(child.stdin.take().expect("was asked for"));
            let from = OwnedFd::from(child.stdout.take().expect("was asked for"));
            squad.children.push(child);
            squad.members.push(Member::new(to.into(), from.into()));
        }
        Ok(squad)
    }

    /// Members that something else has started.
    pub fn new(what: &'static str, children: Vec<Child>, members: Vec<Member>) -> Squad {
        Squad {
            what,
            children,
            members,
        }
    }

    /// Does one job; `servers` are the processes whose processor time counts too.
    pub fn run(&mut self, job: &str, servers: &[u32]) -> anyhow::Result<Run> {
        self.tell(job)?;
        let ready = self.hear("ready")?;
        let pids: Vec<u32> = ready
            .iter()
            .map(|words| words.parse().context("a member did not say its number"))
            .collect::<anyhow::Result<_>>()?;
        let (members, of_servers) = (
            process::cpu_seconds_of(&pids)?,
            process::cpu_seconds_of(servers)?,
        );
        let begin = Instant::now();
        self.tell("go")?;
        self.hear("done")?;
        let seconds = begin.elapsed().as_secs_f64();
        let members_cpu = process::cpu_seconds_of(&pids)? - members;
        let servers_cpu = process::cpu_seconds_of(servers)? - of_servers;
        self.tell("check")?;
        let verified = self.hear("verified")?;
        Ok(Run {
            seconds,
            members_cpu,
            servers_cpu,
            verified: verified.iter().all(|words| words.starts_with('1')),
            words: verified
                .iter()
                .map(|words| {
                    words
                        .split_once(' ')
                        .map_or("", |(_, rest)| rest)
                        .to_owned()
                })
                .collect(),
        })
    }

    fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let what = self.what;
        for (number, member) in self.members.iter_mut().enumerate() {
            member
                .to
                .write_all(format!("{line}\n").as_bytes())
                .with_context(|| format!("{what} {number} has ended"))?;
        }
        Ok(())
    }

    /// Everybody's next line, which must start with `word`; gives what follows it.
    fn hear(&mut self, word: &str) -> anyhow::Result<Vec<String>> {
        let begin = Instant::now();
        let mut all = Vec::new();
        for number in 0..self.members.len() {
            let line = loop {
                let got = self.members[number]
                    .line(LOOK)
                    .with_context(|| format!("{} {number} was to say {word:?}", self.what))?;
                if let Some(line) = got {
                    break line;
                }
                for child in &mut self.children {
                    if let Some(status) = child.try_wait()? {
                        anyhow::bail!("a process of the {}s has ended: {status}", self.what);
                    }
                }
                anyhow::ensure!(
                    begin.elapsed() < PATIENCE,
                    "{} {number} did not say {word:?} within {PATIENCE:?}",
                    self.what
                );
            };
            let Some(rest) = line.strip_prefix(word) else {
                anyhow::bail!("{} {number} said {line:?} instead of {word:?}", self.what);
            };
            all.push(rest.trim().to_owned());
        }
        Ok(all)
    }
}

impl Drop for Squad {
    fn drop(&mut self) {
        // Without their jobs they end by themselves; whoever does not is ended.
        self.members.clear();
        let begin = Instant::now();
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
