//! Properties of the process for the database.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use db::Host;
use platform::{
    memory::{self, Overhead},
    private_file, random,
};

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
        let mut bytes = vec![0; count];
        random::fill(&mut bytes);
        bytes
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
