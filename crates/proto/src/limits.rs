//! Every bound of the protocol in one place, each with its reason.

use std::time::Duration;

/// Version of frames and messages that this code speaks.
pub const VERSION: u16 = 4;

/// Largest control body: a directory page or a compact view fits many times over,
/// and what one connection can make a server allocate before any check stays small.
pub const BODY_BYTES: u32 = 1 << 20;

/// Largest payload of one frame: at 1 MiB the cost per frame has vanished in the cost
/// per byte; four times that leaves room, and a receiver can still drain and refuse it quickly.
pub const PAYLOAD_BYTES: u32 = 4 << 20;

/// Connections that one server serves at a time: one thread and at most two buffers each, so 2048
/// of them bound its memory at 1 GiB; beyond, the hello is refused politely.
pub const CONNECTIONS: usize = 2048;

/// Connections that may be in their hello at the same time: strangers cannot take
/// the places of those who have the key.
pub const CONNECTIONS_IN_HELLO: usize = 1024;

/// Time for the whole hello: two small messages, even across a continent.
pub const HELLO_TIME: Duration = Duration::from_secs(5);

/// Time that a frame may take once its first byte has come, beyond what
/// [`FRAME_BYTES_PER_SECOND`] grants its payload.
pub const FRAME_TIME: Duration = Duration::from_secs(8);

/// The slowest link that is worth serving: a frame slower than this is a stalled or hostile peer.
pub const FRAME_BYTES_PER_SECOND: u64 = 64 << 10;

/// How long a client waits for a call unless told otherwise: longer than a server's restart
/// and a full write-back of its page cache, shorter than a user's patience.
pub const CALL_TIME: Duration = Duration::from_secs(30);

/// Most members of a group: each has a thread and two parked lanes on every server.
pub const MEMBERS: u32 = 512;

/// Longest name of a group: for people.
pub const GROUP_NAME_BYTES: usize = 255;

/// How often a server tells a waiting member that its collective goes on.
pub const PROGRESS_TIME: Duration = Duration::from_secs(2);

/// Lanes that a member lends to each server: one for each buffer of the server's pipeline.
pub const LANES: u32 = 2;

/// Where a file ends at the latest: what `off_t` can say, with room so that no sum of offset and length
/// overflows. What disks can hold is less, and their servers' word.
pub const FILE_BYTES: u64 = 1 << 62;

/// Subfiles up to this length are possible on any disk: no file system in use has less. Beyond it servers
/// are asked before anything is written or cut.
pub const ANY_DISK_BYTES: u64 = (1 << 32) - 1;

/// Longest error sentence on the wire: for people, so a line or two.
pub const REFUSAL_BYTES: usize = 1024;

/// How long a frame with `payload` bytes may take after its first byte.
pub fn frame_time(payload: u32) -> Duration {
    FRAME_TIME + Duration::from_millis(u64::from(payload) * 1000 / FRAME_BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_says_what_the_code_does() {
        let wire = include_str!("../../../docs/wire.md");
        let semantics = include_str!("../../../docs/semantics.md");
        for figure in [
            format!("body | at most {BODY_BYTES} "),
            format!("payload | at most {PAYLOAD_BYTES} "),
            format!("be over within {} s", HELLO_TIME.as_secs()),
            format!(
                "({} s and a second per {FRAME_BYTES_PER_SECOND} bytes of payload)",
                FRAME_TIME.as_secs()
            ),
        ] {
            assert!(
                wire.contains(&figure),
                "docs/wire.md does not say {figure:?}"
            );
        }
        for figure in [
            format!("at most {CONNECTIONS} connections"),
            format!("({} s, `Options::deadline`", CALL_TIME.as_secs()),
        ] {
            assert!(
                semantics.contains(&figure),
                "docs/semantics.md does not say {figure:?}"
            );
        }
    }
}
