//! A cluster on one machine whose nodes are network namespaces with shaped links around one switch.

use anyhow::Context as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use trireme::Descriptor;

/// The name of the node that the metadata manager runs on; its link has no limit.
pub const MANAGER: &str = "m";

/// What the names of our namespaces begin with; the number of the process that made them follows.
const PREFIX: &str = "tri";

/// The name of I/O server `id`'s node.
pub fn server(id: u32) -> String {
    format!("s{id}")
}

/// The name of client `number`'s node.
pub fn client(number: u32) -> String {
    format!("c{number}")
}

/// Refuses where namespaces cannot be made.
pub fn check(bench: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "bench {bench} makes network namespaces with shaped links, which needs root: sudo trireme bench {bench}"
    );
    Ok(())
}

/// Nodes around one switch; removed when dropped.
pub struct Net {
    prefix: String,
    names: Vec<String>,
    next_host: u32,
}

impl Net {
    /// The manager's node and a switch.
    pub fn new() -> anyhow::Result<Net> {
        remove_leftovers();
        let mut net = Net {
            prefix: format!("{PREFIX}{}", std::process::id()),
            names: Vec::new(),
            next_host: 100,
        };
        net.add("sw")?;
        net.ip("sw", "link add br0 type bridge")?;
        net.ip("sw", "link set br0 up")?;
        net.join(MANAGER, 1, None)?;
        Ok(net)
    }

    /// Nodes for I/O servers, each with a link of so many megabytes per second in each direction.
    pub fn add_servers(&mut self, count: u32, link: u32) -> anyhow::Result<()> {
        (0..count).try_for_each(|id| self.join(&server(id), server_host(id), Some(link)))
    }

    /// Nodes for clients, likewise; without a limit if `link` is none.
    pub fn add_clients(&mut self, count: u32, link: Option<u32>) -> anyhow::Result<()> {
        for number in 0..count {
            let host = self.next_host;
            self.next_host += 1;
            self.join(&client(number), host, link)?;
        }
        Ok(())
    }
    fn name(&self, short: &str) -> String {
        format!("{}{short}", self.prefix)
    }

    fn add(&mut self, short: &str) -> anyhow::Result<()> {
        let name = self.name(short);
        call(Command::new("ip").args(["netns", "add", &name]))?;
        self.names.push(name);
        self.ip(short, "link set lo up")
    }

    fn ip(&self, short: &str, words: &str) -> anyhow::Result<()> {
        call(
            Command::new("ip")
                .args(["-n", &self.name(short)])
                .args(words.split(' ')),
        )
    }

    /// A node on the switch, its link shaped in both directions.
    fn join(&mut self, short: &str, host: u32, link: Option<u32>) -> anyhow::Result<()> {
        self.add(short)?;
        let peer = self.name(short);
        self.ip(
            "sw",
            &format!("link add v{host} type veth peer name eth0 netns {peer}"),
        )?;
        self.ip("sw", &format!("link set v{host} master br0 up"))?;
        self.ip(short, &format!("addr add 10.77.0.{host}/24 dev eth0"))?;
        // Large packets, as cluster networks have them: the shaped rate counts headers too.
        self.ip("sw", &format!("link set v{host} mtu 9000"))?;
        self.ip(short, "link set eth0 mtu 9000 up")?;
        if let Some(link) = link {
            // A queue that holds what the clients have in flight, as flow control would: a dropped
            // tail costs a retransmission timeout, and then TCP is measured and not the servers.
            for (space, device) in [(short, "eth0".to_owned()), ("sw", format!("v{host}"))] {
                let words = format!(
                    "qdisc add dev {device} root tbf rate {}mbit burst 256kb latency 100ms",
                    link * 8
                );
                call(
                    Command::new("tc")
                        .args(["-n", &self.name(space)])
                        .args(words.split(' ')),
                )?;
            }
        }
        Ok(())
    }

    /// This binary on a node that is a host of its own also to whoever looks at process numbers or
    /// files: other nodes' processes and its `$TMPDIR`, here `own`, are out of each other's sight. What
    /// they have to tell each other goes over the links.
    pub fn command_on_own_host(&self, short: &str, own: &Path) -> Command {
        const ALONE: &str = "mount -t tmpfs tmpfs \"$TMPDIR\" && exec \"$0\" \"$@\"";
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(short)])
            .args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", ALONE])
            .arg(std::env::current_exe().unwrap_or_default())
            .env("TMPDIR", own);
        command
    }

    /// This binary on a node.
    pub fn command(&self, short: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(short)]);
        command.arg(std::env::current_exe().unwrap_or_default());
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Removes what benchmarks that were killed could not remove themselves.
fn remove_leftovers() {
    let Ok(output) = Command::new("ip").args(["netns", "list"]).output() else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    for name in text.lines().filter_map(|line| line.split(' ').next()) {
        if maker(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// The process that made a namespace of this name, if it is one of ours.
fn maker(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
    rest[..digits].parse().ok()
}

fn call(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("run {command:?}: is iproute2 installed?"))?;
    anyhow::ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn server_host(id: u32) -> u32 {
    10 + id
}

/// The cluster's processes, each on its node: the manager first, then the I/O servers.
pub struct Servers {
    children: Vec<Child>,
    /// How clients reach the cluster.
    pub descriptor: PathBuf,
}

impl Servers {
    /// Starts a manager and `count` I/O servers that store below `dir`.
    pub fn start(net: &Net, dir: &Path, count: u32) -> anyhow::Result<Servers> {
        let key = trireme_proto::Key::new(trireme_net::random_bytes());
        std::fs::write(dir.join("key"), key.to_text())?;
        let token_key = trireme_proto::Key::new(trireme_net::random_bytes());
        std::fs::write(dir.join("token-key"), token_key.to_text())?;
        let mut servers = Servers {
            children: Vec::new(),
            descriptor: dir.join("cluster.json"),
        };
        let manager = "tcp:10.77.0.1:7070";
        let file = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let mut start = |space: &str, words: &[&str], listen: &str, data: &str| {
            let mut child = net
                .command(space)
                .args(["serve", words[0], "--listen", listen, "--dir", &file(data)])
                .args([
                    "--key-file",
                    &file("key"),
                    "--token-key-file",
                    &file("token-key"),
                ])
                .args(&words[1..])
                .arg("--with-parent")
                .stdout(Stdio::piped())
                .stderr(std::fs::File::create(dir.join(format!("{data}.log")))?)
                .spawn()?;
            let mut line = String::new();
            let output = child.stdout.take().expect("was asked for");
            servers.children.push(child);
            BufReader::new(output).read_line(&mut line)?;
            anyhow::ensure!(
                line.starts_with("ready"),
                "a server did not start: {}",
                std::fs::read_to_string(dir.join(format!("{data}.log"))).unwrap_or_default()
            );
            anyhow::Ok(())
        };
        start(MANAGER, &["meta"], manager, "meta")?;
        for id in 0..count {
            let listen = format!("tcp:10.77.0.{}:7070", server_host(id));
            let number = id.to_string();
            let words = ["io", "--id", &number, "--manager", manager];
            start(&server(id), &words, &listen, &format!("io{id}"))?;
        }
        let descriptor = Descriptor {
            manager: vec![manager.into()],
            key: Some(key.to_text()),
            dir: None,
        };
        descriptor.write(&servers.descriptor)?;
        Ok(servers)
    }

    /// The I/O servers' processes.
    pub fn pids(&self) -> Vec<u32> {
        self.children[1..].iter().map(Child::id).collect()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_namespaces_are_taken_for_leftovers() {
        assert_eq!(maker("tri123s0"), Some(123));
        assert_eq!(maker("tri7sw"), Some(7));
        for other in ["tri", "trip", "tri12", "trireme", "x1s0"] {
            assert_eq!(maker(other), None, "{other}");
        }
    }
}
