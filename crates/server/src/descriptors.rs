//! How many descriptors a process may have: the soft limit is often only 1024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as may be, for a process whose connections, open files and threads each take one.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
