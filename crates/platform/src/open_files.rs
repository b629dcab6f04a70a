//! Number of files that the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Lets the process open as many files as the system allows: each client takes two, and the initial
/// soft limit is low.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let Err(error) = raised {
        warn!(
            "cannot raise the limit of open files to its maximum: {error}; set LimitNOFILE or \
             `ulimit -n`"
        );
    }
}
