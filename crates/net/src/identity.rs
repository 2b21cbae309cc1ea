//! Who speaks: what a client says of itself, and what a server knows of its peer.

use trireme_proto::hello::Who;

/// What a client says in its hello.
#[derive(Debug, Clone, Copy)]
pub struct Identity(pub Who);

impl Identity {
    /// This process, with a fresh random client number.
    pub fn of_this_process() -> Identity {
        Identity(Who {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            pid: std::process::id(),
            client: random_u64(),
            generation: 0,
        })
    }
}

/// What a server knows of the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// User: from the kernel on Unix sockets, else what the holder of the key says.
    pub uid: u32,
    /// Group, likewise.
    pub gid: u32,
    /// Process on its own host.
    pub pid: u32,
    /// Random number of the client, the same on all its connections.
    pub client: u64,
    /// Whether it is on this host (Unix socket).
    pub local: bool,
    /// For logs: an address or `unix pid 123`.
    pub name: String,
}

/// Random bytes from the kernel.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
    bytes
}

/// A random number that is not zero.
pub fn random_u64() -> u64 {
    u64::from_le_bytes(random_bytes()) | 1
}
