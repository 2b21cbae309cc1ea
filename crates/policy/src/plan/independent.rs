//! Independent: a member asks for each contiguous chunk of its part, one block at a time.

use trireme_partition::Part;

/// One request of a member: part or all of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The file block.
    pub block: u64,
    /// How many of its bytes.
    pub bytes: u32,
    /// Whether this request ends a contiguous chunk, that is, a call of the application.
    pub last: bool,
}

/// The requests for a member's part of the first `file_bytes` of a file.
pub fn requests(part: &Part, block_bytes: u64, file_bytes: u64) -> Vec<Request> {
    let mut requests: Vec<Request> = vec![];
    let mut chunk_end = u64::MAX;
    for run in part.runs(0..file_bytes) {
        if run.file == chunk_end {
            // The chunk goes on: its last request so far was not the last one after all.
            if let Some(request) = requests.last_mut() {
                request.last = false;
            }
        }
        let (mut at, end) = (run.file, run.file + run.len);
        while at < end {
            let block = at / block_bytes;
            let until = end.min((block + 1) * block_bytes);
            let bytes = (until - at) as u32;
            match requests.last_mut() {
                Some(open) if !open.last && open.block == block && at == run.file => {
                    open.bytes += bytes;
                    open.last = until == end;
                }
                _ => requests.push(Request {
                    block,
                    bytes,
                    last: until == end,
                }),
            }
            at = until;
        }
        chunk_end = end;
    }
    requests
}
