//! `trireme bench growth`: throughput from one server to eight, each behind a link of its own.
//!
//! Every I/O server is in a network namespace whose link is shaped with tc tbf in both directions;
//! the clients are in another one without limits. Servers are then the bottleneck, and the question
//! is whether twice the servers give twice the throughput.

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use trireme::{Descriptor, LayoutWish};

use super::crew::{Crew, tell_ready_and_wait};

/// Growth of throughput with the number of servers, over links shaped to 120 MB/s (needs root)
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of servers to compare with one server
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    servers: Vec<u32>,
    /// Client processes
    #[arg(long, default_value = "8")]
    clients: u64,
    /// Megabytes per second of each server's link
    #[arg(long, default_value = "120")]
    link: u32,
    /// Bytes per server and run
    #[arg(long, default_value = "120M", value_parser = output::parse_bytes)]
    size: u64,
    /// Bytes per call
    #[arg(long, default_value = "4M", value_parser = output::parse_bytes)]
    transfer: u64,
    /// Where the servers store
    #[arg(long, default_value = "/tmp")]
    dir: PathBuf,
    /// What a client process does
    #[arg(long, hide = true)]
    work: Option<String>,
    /// Its number
    #[arg(long, hide = true, default_value = "0")]
    number: u64,
}

/// Aggregate throughput must be at least this share of (servers x that of one server).
const TARGET: f64 = 0.9;

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    if let Some(work) = &args.work {
        return client(context, args, work);
    }
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "bench growth makes network namespaces with shaped links, which needs root: sudo trireme bench growth"
    );
    let own = tempfile::Builder::new()
        .prefix("trireme-growth-")
        .tempdir_in(&args.dir)?;
    let most = args.servers.iter().copied().max().unwrap_or(1);
    let net = Net::build(most, args.link)?;
    let _servers = Servers::start(&net, own.path(), most)?;
    let cluster = own.path().join("cluster.json");
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    let mut single = [0.0; 2];
    for &count in &args.servers {
        for (side, work) in ["write", "read"].into_iter().enumerate() {
            let rate = measure(args, &net, &cluster, count, work)?;
            if count == 1 {
                single[side] = rate;
            }
            let growth = rate / single[side] / f64::from(count);
            let verdict = if growth >= TARGET { "pass" } else { "MISS" };
            cells.push(json!({
                "servers": count, "op": work, "mb_per_s": rate, "linear": growth,
                "of_links": rate / f64::from(count * args.link), "pass": growth >= TARGET,
            }));
            rows.push(vec![
                count.to_string(),
                work.to_owned(),
                format!("{rate:.0} MB/s"),
                format!("{:.0} %", 100.0 * rate / f64::from(count * args.link)),
                format!("{growth:.2}x"),
                format!("{TARGET:.2}x {verdict}"),
            ]);
        }
    }
    if context.json {
        output::print_json(
            &json!({ "link_mb_per_s": args.link, "clients": args.clients, "results": cells }),
        );
        return Ok(());
    }
    println!(
        "{} clients, {} MB/s per server's link, {} per server",
        args.clients,
        args.link,
        output::bytes(args.size)
    );
    let header = [
        "SERVERS",
        "WORK",
        "TRIREME",
        "OF THE LINKS",
        "OF LINEAR",
        "TARGET",
    ];
    println!("{}", output::table(&header, &rows));
    Ok(())
}

fn measure(args: &Args, net: &Net, cluster: &Path, count: u32, work: &str) -> anyhow::Result<f64> {
    let arguments: Vec<String> = [
        "--cluster".to_owned(),
        cluster.to_string_lossy().into_owned(),
        "bench".to_owned(),
        "growth".to_owned(),
        "--work".to_owned(),
        work.to_owned(),
        "--clients".to_owned(),
        args.clients.to_string(),
        "--servers".to_owned(),
        count.to_string(),
        "--size".to_owned(),
        args.size.to_string(),
        "--transfer".to_owned(),
        args.transfer.to_string(),
    ]
    .into();
    let mut crew = Crew::start_by(args.clients, |_| net.command("c"), &arguments)?;
    let time = crew.go()?;
    crew.finish()?;
    Ok((args.size * u64::from(count)) as f64 / 1e6 / time.as_secs_f64())
}

fn client(context: &Context, args: &Args, work: &str) -> anyhow::Result<()> {
    let count = *args.servers.first().context("--servers is needed")?;
    let cluster = context.connect()?;
    let mut options = *cluster.options();
    options.own = args.number as u32;
    let layout = LayoutWish {
        count: Some(count),
        first: Some(0),
        ..LayoutWish::default()
    };
    let file = trireme::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(layout)
        .open(&cluster.with_options(options), format!("/growth-{count}"))?;
    anyhow::ensure!(
        file.layout().servers.len() == count as usize,
        "the layout was not granted"
    );
    let share = args.size * u64::from(count) / args.clients;
    let mut buffer = vec![1; args.transfer as usize];
    file.size()?;
    tell_ready_and_wait()?;
    for at in (0..share).step_by(args.transfer as usize) {
        let part = &mut buffer[..args.transfer.min(share - at) as usize];
        let at = share * args.number + at;
        if work == "write" {
            file.write_at(part, at)?;
        } else {
            file.read_exact_at(part, at)?;
        }
    }
    println!("done");
    Ok(())
}

/// Namespaces around one switch; removed when dropped.
struct Net {
    prefix: String,
    names: Vec<String>,
}

impl Net {
    fn build(servers: u32, link: u32) -> anyhow::Result<Net> {
        let prefix = format!("tri{}", std::process::id());
        let mut net = Net {
            prefix,
            names: Vec::new(),
        };
        net.add("sw")?;
        net.ip("sw", "link add br0 type bridge")?;
        net.ip("sw", "link set br0 up")?;
        net.join("c", 1, None)?;
        for server in 0..servers {
            net.join(&format!("s{server}"), 10 + server, Some(link))?;
        }
        Ok(net)
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

    /// A namespace on the switch, its link shaped in both directions.
    fn join(&mut self, short: &str, host: u32, link: Option<u32>) -> anyhow::Result<()> {
        self.add(short)?;
        let peer = self.name(short);
        self.ip(
            "sw",
            &format!("link add v{host} type veth peer name eth0 netns {peer}"),
        )?;
        self.ip("sw", &format!("link set v{host} master br0 up"))?;
        self.ip(short, &format!("addr add 10.77.0.{host}/24 dev eth0"))?;
        self.ip(short, "link set eth0 up")?;
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

    /// This binary in a namespace.
    fn command(&self, short: &str) -> Command {
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

/// The cluster's processes, each in its namespace.
struct Servers(Vec<Child>);

impl Servers {
    fn start(net: &Net, dir: &Path, count: u32) -> anyhow::Result<Servers> {
        let key = trireme_proto::Key::new(trireme_net::random_bytes());
        std::fs::write(dir.join("key"), key.to_text())?;
        let token_key = trireme_proto::Key::new(trireme_net::random_bytes());
        std::fs::write(dir.join("token-key"), token_key.to_text())?;
        let mut servers = Servers(Vec::new());
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
                .spawn()?;
            let mut line = String::new();
            let output = child.stdout.take().expect("was asked for");
            servers.0.push(child);
            BufReader::new(output).read_line(&mut line)?;
            anyhow::ensure!(line.starts_with("ready"), "a server did not start");
            anyhow::Ok(())
        };
        start("c", &["meta"], manager, "meta")?;
        for id in 0..count {
            let listen = format!("tcp:10.77.0.{}:7070", 10 + id);
            let number = id.to_string();
            let words = ["io", "--id", &number, "--manager", manager];
            start(&format!("s{id}"), &words, &listen, &format!("io{id}"))?;
        }
        let descriptor = Descriptor {
            manager: vec![manager.into()],
            key: Some(key.to_text()),
            dir: None,
        };
        descriptor.write(&dir.join("cluster.json"))?;
        Ok(servers)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
