//! Properties of the process for the database.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, RawFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use db::Host;
use platform::{
    memory::{self, Overhead},
    private_file, random,
};
use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, getrlimit},
};

/// Cryptographically random bytes.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random::fill(&mut bytes);
    bytes
}

/// A cryptographically random number.
pub(super) fn random_number() -> u64 {
    u64::from_le_bytes(random_bytes(8).try_into().unwrap_or_default())
}

/// Parameters that clients ask for and that never change.
pub(super) fn fixed_parameters(directory: &Path, port: u16) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("appendonly", "yes".to_owned()),
        ("databases", db::keyspace::DATABASES.to_string()),
        ("dir", directory.display().to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("notify-keyspace-events", String::new()),
        ("port", port.to_string()),
        ("proto-max-bulk-len", store::elastic::Config::default().value_bytes_max.to_string()),
        ("save", String::new()),
    ])
}

/// The process.
pub(super) struct ProcessHost {
    users: Option<PathBuf>,
    port: u16,
    has_orchestrator: bool,
    overhead: Arc<Overhead>,
}

impl ProcessHost {
    pub(super) fn new(
        users: Option<PathBuf>,
        port: u16,
        has_orchestrator: bool,
        overhead: Arc<Overhead>,
    ) -> Self {
        Self { users, port, has_orchestrator, overhead }
    }
}

/// Makes room for `count` open files and clients, as far as the limit of the process goes. In a
/// multi-threaded process the kernel grows the table only after an RCU grace period of up to 18 ms,
/// for which the worker that opens the file, and its lookups, would wait. It never shrinks.
pub(super) fn make_room_for_files(count: usize, any: impl AsFd) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = (count as u64).min(limit).min(i32::MAX as u64).saturating_sub(1);
    // Opening a file with the highest number once is enough.
    if let Err(error) = fcntl_dupfd_cloexec(any, last as RawFd) {
        tracing::debug!("cannot preallocate the file table for {count} files: {error}");
    }
}

/// Resident memory of the process, in bytes; 0 if the system does not report it.
pub(super) fn resident_bytes() -> u64 {
    memory::resident_bytes().unwrap_or(0)
}

impl Host for ProcessHost {
    fn resident_bytes(&self) -> u64 {
        resident_bytes()
    }

    fn memory_for_shards(&self, bytes: u64) -> u64 {
        self.overhead.for_shards(bytes)
    }

    fn memory_for_process(&self, bytes: u64) -> u64 {
        self.overhead.for_process(bytes)
    }

    fn has_orchestrator(&self) -> bool {
        self.has_orchestrator
    }

    fn random_bytes(&self, count: usize) -> Vec<u8> {
        random_bytes(count)
    }

    fn read_users(&self) -> io::Result<Option<String>> {
        self.users.as_deref().map(private_file::read_rights).transpose()
    }

    fn write_users(&self, text: &str) -> io::Result<bool> {
        let Some(path) = &self.users else { return Ok(false) };
        private_file::replace(path, text)?;
        Ok(true)
    }

    fn shut_down(&self) {
        // The same shutdown as for SIGTERM.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }

    fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_table_of_files_has_room_before_it_is_needed() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let count = limit.min(5_000);
        make_room_for_files(count as usize, io::stderr());
        let status = fs::read_to_string("/proc/self/status").expect("Linux says");
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        let size: u64 = size.and_then(|size| size.trim().parse().ok()).expect("a number");
        assert!(size >= count, "room for {size} of {count}");
    }
}
