//! A listening socket: where newcomers come in, and who may listen where.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use trireme_proto::Key;

use crate::Address;

/// One place to listen at.
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    /// Binds the address; gives the door, which never blocks, and where it really is.
    pub fn open(address: &Address, key: &Key) -> io::Result<(Door, Address)> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
        };
        match address {
            Address::Unix(path) => {
                // A socket file without a listener is left from a killed server; one with a listener
                // belongs to somebody who is alive.
                if path.exists() {
                    if std::os::unix::net::UnixStream::connect(path).is_ok() {
                        return Err(io::Error::new(
                            io::ErrorKind::AddrInUse,
                            format!(
                                "cannot listen on {address}: another server already does; stop it first (`trireme down`)"
                            ),
                        ));
                    }
                    std::fs::remove_file(path).map_err(named)?;
                }
                let door = UnixListener::bind(path).map_err(named)?;
                door.set_nonblocking(true)?;
                Ok((Door::Unix(door), address.clone()))
            }
            Address::Tcp(host) => {
                let door = TcpListener::bind(host).map_err(named)?;
                crate::socket::avoid_pacing(&door);
                door.set_nonblocking(true)?;
                let real = door.local_addr()?;
                if !real.ip().is_loopback() && *key == Key::open() {
                    return Err(io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        format!(
                            "refusing to listen on {real} without a cluster key: anybody could come; give --key, or listen on 127.0.0.1"
                        ),
                    ));
                }
                Ok((Door::Tcp(door), Address::Tcp(real.to_string())))
            }
        }
    }

    /// The next newcomer; `None`: nobody is at the door.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let accepted = match self {
            Door::Tcp(door) => door.accept().map(|(one, _)| OwnedFd::from(one)),
            Door::Unix(door) => door.accept().map(|(one, _)| OwnedFd::from(one)),
        };
        match accepted {
            Ok(fd) => Ok(Some(fd)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether Unix sockets come in here.
    pub fn is_unix(&self) -> bool {
        matches!(self, Door::Unix(_))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Door::Tcp(door) => door.as_fd(),
            Door::Unix(door) => door.as_fd(),
        }
    }
}
