//! Number of files that the process may have open.

use std::os::fd::{AsFd, RawFd};

use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use tracing::{debug, warn};

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

/// Makes room for `count` open files, as far as the limit of the process goes; `any` is one of
/// them. In a multi-threaded process the kernel grows the table only after an RCU grace period of
/// up to 18 ms, for which the thread that opens the file would wait. It never shrinks.
pub fn make_room(count: usize, any: impl AsFd) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = (count as u64).min(limit).min(i32::MAX as u64).saturating_sub(1);
    // Opening a file with the highest number once is enough.
    if let Err(error) = fcntl_dupfd_cloexec(any, last as RawFd) {
        debug!("cannot preallocate the file table for {count} files: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;

    #[test]
    fn the_table_of_files_has_room_before_it_is_needed() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let count = limit.min(5_000);
        make_room(count as usize, io::stderr());
        let status = fs::read_to_string("/proc/self/status").expect("Linux says");
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        let size: u64 = size.and_then(|size| size.trim().parse().ok()).expect("a number");
        assert!(size >= count, "room for {size} of {count}");
    }
}
