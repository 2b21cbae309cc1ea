//! `trireme cat`: bytes of files to standard output.

use crate::context::Context;
use crate::name::all_on_cluster;
use crate::output;
use anyhow::Context as _;
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

/// Bytes asked at a time; the next are on their way while these are written. A multiple of three, so that
/// the base64 of several chunks can be joined.
const CHUNK: usize = 3 << 20;

/// Write files to standard output
///
/// With --json a line for each part of up to 3 MiB: {"name", "offset", "length", "base64"}, in order; an
/// empty file is one line of length 0.
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
            let begin = offset;
            offset += got as u64;
            let last = got < buffer.len();
            let following = (!last).then(|| file.start_read(offset, vec![0; CHUNK]));
            let part = &buffer[..got];
            if !context.json {
                out.write_all(part)?;
            } else if got > 0 || begin == 0 {
                let line = json!({
                    "name": path.to_string_lossy(),
                    "offset": begin,
                    "length": got,
                    "base64": output::base64(part),
                });
                writeln!(out, "{line}")?;
            }
            match following {
                Some(following) => next = following,
                None => break,
            }
        }
    }
    out.flush()?;
    Ok(())
}
