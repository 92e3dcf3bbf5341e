//! How many connections the process may have open: each of them is a file to the kernel.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For everything else the process has open.
const MARGIN: u64 = 256;

/// The soft limit is for programs that cannot count beyond 1024; this one asks for all it may have. Returns how many
/// connections there may be, of those wanted.
pub fn connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, ..limit };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
    }
    // None is without limit.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let possible = usize::try_from(files.saturating_sub(MARGIN)).unwrap_or(usize::MAX).max(1);
    if possible < wanted {
        tracing::warn!(
            "no more than {possible} of {wanted} connections: the process may open {files} files; raise its limit (ulimit -n)"
        );
    }
    wanted.min(possible)
}
