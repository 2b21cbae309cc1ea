//! MPI programs whose processes are on several hosts: network namespaces that see neither each other's
//! processes nor the sockets of the servers on the other one.

mod command_support;
mod support;

use command_support::World;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::skip;

/// Two hosts on one cable; removed when dropped.
struct Hosts {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.78.0.1", "10.78.0.2"];

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

fn carries(name: &str) -> bool {
    let shown = Command::new("ip")
        .args(["-n", name, "-o", "link", "show", "eth0"])
        .output();
    shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains("state UP"))
}

impl Hosts {
    /// None where namespaces cannot be made.
    fn new() -> Option<Hosts> {
        let pid = std::process::id();
        let names = ["h0", "h1"].map(|host| format!("tri{pid}{host}"));
        let hosts = Hosts { names };
        let [one, other] = &hosts.names;
        let made = ip(&format!("netns add {one}"))
            && ip(&format!("netns add {other}"))
            && ip(&format!(
                "-n {one} link add eth0 type veth peer name eth0 netns {other}"
            ));
        for (name, address) in hosts.names.iter().zip(ADDRESSES) {
            if !(made
                && ip(&format!("-n {name} link set lo up"))
                && ip(&format!("-n {name} addr add {address}/24 dev eth0"))
                && ip(&format!("-n {name} link set eth0 up")))
            {
                return None;
            }
        }
        // A link is there before it carries anything, and MPI looks only once.
        let end = Instant::now() + Duration::from_mins(1);
        for name in &hosts.names {
            while !carries(name) {
                assert!(Instant::now() < end, "{name}'s link stays down");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Some(hosts)
    }

    /// A command on the first host.
    fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[0]]);
        command
    }

    /// What launchers take for ssh: runs a command line on the host of that address. The second host
    /// has a name and processes of its own, and `hidden` is not there.
    fn agent(&self, path: &Path, hidden: &Path) {
        use std::os::unix::fs::PermissionsExt;
        let script = format!(
            "#!/bin/sh\n\
             [ \"$1\" = -x ] && shift\n\
             host=$1; shift\n\
             [ \"$host\" = {} ] && exec sh -c \"$*\"\n\
             exec ip netns exec {} unshare --pid --fork --kill-child --mount-proc --uts \\\n\
             sh -c 'hostname other && mount -t tmpfs tmpfs {} && eval \"$0\"' \"$*\"\n",
            ADDRESSES[0],
            self.names[1],
            hidden.display()
        );
        std::fs::write(path, script).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Options of a launcher for two processes on each host, over TCP.
fn launch(mpi: &str, agent: &Path) -> Vec<String> {
    let [one, other] = ADDRESSES;
    let agent = agent.display();
    let words = if mpi == "mpich" {
        format!(
            "-launcher ssh -launcher-exec {agent} -localhost {one} -hosts {one},{other} -ppn 2 \
             -genv UCX_TLS tcp,self -genv UCX_NET_DEVICES eth0 -n 4"
        )
    } else {
        format!(
            "--allow-run-as-root --oversubscribe --host {one}:2,{other}:2 --mca plm_rsh_agent {agent} \
             --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0 \
             --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1 -n 4"
        )
    };
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn processes_on_two_hosts_share_a_file() {
    let name = "processes_on_two_hosts_share_a_file";
    let binary = Path::new(env!("CARGO_BIN_EXE_trireme"));
    let beside = |place: &str| {
        binary
            .with_file_name(place)
            .join("libtrireme_mpi.so")
            .exists()
    };
    if !beside("deps") && !binary.with_file_name("libtrireme_mpi.so").exists() {
        return skip(
            name,
            "libtrireme_mpi.so is not built: cargo build -p trireme-mpiio",
        );
    }
    let Some(hosts) = Hosts::new() else {
        return skip(name, "network namespaces cannot be made here");
    };
    let world = World::new();
    let dir = world.cluster();
    let started = hosts
        .command()
        .arg(binary)
        .args(["up", "--detach", "--private", "--servers", "2"])
        .args(["--listen", ADDRESSES[0], "--dir"])
        .arg(&dir)
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    // Where both hosts see it.
    let address = world.path("address.json");
    std::fs::copy(dir.join("cluster.json"), &address).unwrap();
    let agent = world.path("agent");
    hosts.agent(&agent, &dir);
    for mpi in ["mpich", "openmpi"] {
        for source in ["transfer.c", "views.c", "where.c"] {
            let Some(program) = compile(&world, mpi, source) else {
                skip(name, &format!("mpicc.{mpi} is not installed"));
                break;
            };
            let output = hosts
                .command()
                .args([
                    "timeout",
                    "-k",
                    "5",
                    if mpi == "mpich" { "30" } else { "120" },
                ])
                .arg(binary)
                .arg("--cluster")
                .arg(&address)
                .args(["mpi-run", "--report"])
                .arg(format!("mpiexec.{mpi}"))
                .args(launch(mpi, &agent))
                .arg(&program)
                .arg(format!("trireme:/{source}.{mpi}"))
                .env("TMPDIR", world.path(""))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            // MPICH 4.0 over UCX's TCP may wait for ever in MPI_Finalize, when all is done: some processes
            // wait for the others to answer that they disconnect, and those in a barrier where they do not.
            let ended = output.status.success() || mpi == "mpich";
            assert!(
                ended && said.contains("all fine"),
                "{source} under {mpi}: {said}"
            );
            if source == "where.c" {
                assert_eq!(said.matches("host other").count(), 2, "{said}");
            } else {
                assert!(
                    said.contains("disk-directed"),
                    "{source} under {mpi}: {said}"
                );
            }
        }
    }
}

fn compile(world: &World, mpi: &str, source: &str) -> Option<PathBuf> {
    let program = world.path(&format!("{source}.{mpi}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../mpiio/tests/programs")
        .join(source);
    let compiled = Command::new(format!("mpicc.{mpi}"))
        .args(["-w", "-o"])
        .arg(&program)
        .arg(&path)
        .status();
    compiled.ok().map(|status| {
        assert!(status.success(), "{source}");
        program
    })
}
