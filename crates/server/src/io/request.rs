//! One request, one file: check the grant, do it, answer.

use trireme_proto::{Header, Refusal, refusal::errno};

use super::Shared;

pub mod allocate;
pub mod collective;
pub mod group;
pub mod lend;
pub mod list;
pub mod read;
pub mod remove;
pub mod space;
pub mod stat;
pub mod sync;
pub mod truncate;
pub mod view;
pub mod window;
pub mod write;

/// A request with what its handler may touch.
pub struct Call<'a> {
    pub shared: &'a Shared,
    pub header: &'a Header,
    pub body: &'a [u8],
}

/// Largest subfile: what `off_t` can say, with room so that no sum of offset and length overflows.
const SUBFILE_BYTES: u64 = 1 << 62;

/// Refuses ranges that no file system could hold before any arithmetic is done with them.
fn check_range(offset: u64, length: u64) -> Result<(), Refusal> {
    if offset > SUBFILE_BYTES || length > SUBFILE_BYTES {
        return Err(Refusal::new(
            errno::EFBIG,
            format!("offset {offset} and length {length} are beyond the largest file"),
        ));
    }
    Ok(())
}
