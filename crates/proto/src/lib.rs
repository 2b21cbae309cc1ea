//! What goes over the wire, without any I/O: frames, the hello, messages, limits.
//!
//! Every connection is a stream of frames in each direction. A frame is
//! a fixed 64-byte little-endian [`Header`], then a *body* of `header.body`
//! bytes (a small postcard-encoded message, often empty), then a *payload* of
//! `header.payload` raw bytes (file data, never parsed). Before the first frame
//! both sides prove that they hold the cluster key; see [`hello`].
//!
//! | module | owns |
//! |---|---|
//! | [`frame`] | the header, operation numbers, flags |
//! | [`hello`] | challenge and answer before the first frame |
//! | [`key`] | the cluster key, and tokens that make file numbers unguessable |
//! | [`limits`] | every bound, with its reason |
//! | [`message`] | bodies, one file per group of requests |
//! | [`refusal`] | how a request fails: an errno and a sentence |
//!
//! **To add a request**: give it a number in [`frame::Op`], a body in `message/`, a handler
//! in `server/src/request/`, a call in `client/src/`; the four files have the same name.
//! Byte diagrams are in `docs/wire.md`.
#![forbid(unsafe_code)]

pub mod frame;
pub mod hello;
pub mod key;
pub mod limits;
pub mod message;
pub mod refusal;

pub use frame::{Flags, Header, Op};
pub use key::{Key, Rights, Token};
pub use refusal::Refusal;

use serde::{Serialize, de::DeserializeOwned};

/// Encodes a message body.
///
/// # Panics
/// Never for the message types of this crate: postcard fails only on types of unknown length.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages have known lengths")
}

/// Decodes a message body; bytes left over are an error, as a longer message is another message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(Refusal::protocol(format!(
            "{} bytes left over after a message body of {} bytes",
            rest.len(),
            bytes.len()
        ))),
        Err(error) => Err(Refusal::protocol(format!(
            "a message body of {} bytes cannot be read: {error}",
            bytes.len()
        ))),
    }
}
