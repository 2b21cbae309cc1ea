//! `trireme cat`: bytes of files to standard output.

use crate::context::Context;
use crate::name::all_on_cluster;
use anyhow::Context as _;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

/// Bytes asked at a time; the next are on their way while these are written.
const CHUNK: usize = 4 << 20;

/// Write files to standard output
#[derive(clap::Args)]
pub struct Args {
    /// The files
    #[arg(required = true)]
    names: Vec<OsString>,
}

/// Copies to standard output.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let paths = all_on_cluster(&args.names)?;
    let cluster = context.connect()?;
    let mut out = std::io::stdout().lock();
    for path in paths {
        let file = cluster.open(path.as_os_str().as_bytes())?;
        let mut offset = 0;
        let mut next = file.start_read(0, vec![0; CHUNK]);
        loop {
            let (buffer, got) = next.wait().with_context(|| format!("{}", path.display()))?;
            offset += got as u64;
            if got < buffer.len() {
                out.write_all(&buffer[..got])?;
                break;
            }
            next = file.start_read(offset, vec![0; CHUNK]);
            out.write_all(&buffer[..got])?;
        }
    }
    out.flush()?;
    Ok(())
}
