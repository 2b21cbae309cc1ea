//! Frames over TCP and Unix sockets with blocking threads; no wait without a deadline.
//!
//! Client side:
//! ```no_run
//! # use trireme_net::*; use trireme_proto::*;
//! # fn f() -> Result<(), NetError> {
//! let endpoint = Endpoint::new(vec!["unix:/run/t/meta.sock".parse().unwrap()]);
//! let pool = Pool::new(endpoint, Key::open(), Identity::of_this_process());
//! // One request, one reply; other threads use other connections of the pool meanwhile.
//! let deadline = Deadline::after(limits::CALL_TIME);
//! let reply: u32 = pool.call(Op::META, &"a request body", deadline)?;
//! # Ok(()) }
//! ```
//! A [`Pool`] keeps idle connections, reconnects when a server comes back, and sends again until
//! the deadline (so requests through [`Pool::call`] must be safe to repeat; [`Pool::call_once`]
//! does not repeat after the request may have arrived). A [`Connection`] belongs to one caller
//! at a time; on any error it is dropped, so a late reply can never be taken for another.
//!
//! Server side: implement [`Handler`] and give it to [`Listener::start`]. One thread per connection
//! calls [`Handler::request`] with each frame; the handler reads the payload, if any,
//! from the [`Link`] and answers with [`Link::reply`] and its sisters, or returns a [`Refusal`](trireme_proto::Refusal).
//! For group commit, take a [`Responder`] with [`Link::responder`], return, and answer from another thread:
//! the connection goes on reading requests meanwhile.
//! Garbage closes that one connection with a logged reason.

mod address;
mod backchannel;
mod connection;
mod deadline;
mod door;
mod error;
mod hall;
mod identity;
pub mod large_pages;
mod link;
mod listener;
mod out;
mod pipeline;
mod pool;
mod reach;
mod region;
pub mod remote_memory;
mod shuffle;
pub mod socket;
mod window;

pub use address::{Address, Endpoint};
pub use backchannel::Backchannel;
pub use connection::{Connection, Reply, Tie};
pub use deadline::Deadline;
pub use error::NetError;
pub use identity::{Identity, Peer, random_bytes, random_u64};
pub use link::{Link, Payload};
pub use listener::{Handler, Listener, ListenerConfig};
pub use out::{Post, Responder};
pub use pipeline::Pipeline;
pub use pool::{Lease, Pool};
pub use reach::{Local, Reach, Whereabouts, Wire};
pub use region::{Loan, Region};
pub use shuffle::{Interval, Member, Shuffle, Survey, Trouble};
pub use window::{WINDOW_BYTES, Window};
