//! `LEND`: a client of this host gets the subfile itself, to read and write its bytes in the page
//! cache without a word to the server. Who is about to write a new file has it made.

use std::io;
use std::os::fd::AsFd;

use trireme_net::Link;
use trireme_proto::{Refusal, Rights, refusal::errno};

use super::Call;
use crate::io::{refusal, session::Session};

/// Answers with a descriptor that can do nothing but read, or nothing but write.
pub fn run(
    call: &Call<'_>,
    session: &mut Session,
    link: &mut Link,
) -> Result<io::Result<()>, Refusal> {
    let header = call.header;
    let wanted = header.length.get();
    let (write, make) = (wanted != 0, wanted == 2);
    let need = if write { Rights::WRITE } else { Rights::READ };
    session.check(call.shared, header, need)?;
    let not_lent = |why| Refusal::new(errno::EOPNOTSUPP, why);
    if !link.peer().local {
        return Err(not_lent(
            "files are lent to processes of the same host only",
        ));
    }
    let file = header.file.get();
    let subfile = if make {
        session.find_or_make(call.shared, file)?
    } else {
        let found = session.find(call.shared, file)?;
        found.ok_or_else(|| {
            let why = format!("nothing of file {file} is stored here yet");
            Refusal::new(errno::ENOENT, why)
        })?
    };
    match subfile.lend(write).map_err(refusal)? {
        Some(file) => Ok(link.reply_descriptor(header.reply(), file.as_fd())),
        None => Err(not_lent("this server's disks are not used that way")),
    }
}
