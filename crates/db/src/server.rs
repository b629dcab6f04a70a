//! State shared by all connections: users, clients, parameters, counters.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use acl::Acl;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

use crate::{
    clients::Clients,
    parameters::Parameters,
    row::{Row, Rows},
    tracking::Notice,
    turns::Turns,
};

/// Interface of the database to its process.
pub trait Host: Send + Sync {
    /// Resident memory of the process, in bytes; 0 if unknown.
    fn resident_bytes(&self) -> u64;

    /// The text of the file of users; `None` if there is no such file.
    ///
    /// # Errors
    /// An error of the system.
    fn read_users(&self) -> io::Result<Option<String>>;

    /// Replaces the file of users; false if none was named.
    ///
    /// # Errors
    /// An error of the system.
    fn write_users(&self, text: &str) -> io::Result<bool>;

    /// Completes the commands under way and ends the process.
    fn shut_down(&self);

    /// The part of a budget for the whole process that the shards may use, in bytes.
    fn memory_for_shards(&self, bytes: u64) -> u64;

    /// The budget for the whole process that leaves `bytes` for the shards.
    fn memory_for_process(&self, bytes: u64) -> u64;

    /// Whether an orchestrator is configured that can be asked for memory.
    fn has_orchestrator(&self) -> bool;

    /// Cryptographically random bytes.
    fn random_bytes(&self, count: usize) -> Vec<u8>;

    /// The process.
    fn process_id(&self) -> u32;

    /// The port that the server listens on.
    fn port(&self) -> u16;
}

/// Counters of all connections.
#[derive(Debug, Default)]
pub struct Stats {
    /// Number of executed commands. The executing thread adds several at once, because each
    /// addition waits for all earlier stores.
    pub commands: AtomicU64,
    /// Connections let in.
    pub connections: AtomicU64,
    /// Connections turned away.
    pub rejected: AtomicU64,
    /// Bytes read from clients.
    pub input_bytes: AtomicU64,
    /// Bytes written to clients.
    pub output_bytes: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
    /// Commands that waited for the disk.
    pub waits: AtomicU64,
    /// Places at which walks over the keys could not read a name, again for every walk.
    pub passed_over: AtomicU64,
    /// Reads from the disk, and the nanoseconds they took.
    pub disk_reads: AtomicU64,
    /// See `disk_reads`.
    pub disk_read_ns: AtomicU64,
}

/// State shared by all connections.
pub struct Server {
    /// Its commands.
    pub(crate) rows: Rows,
    /// Users and their rights.
    pub acl: Acl,
    /// Connected clients.
    pub clients: Clients,
    /// Parameters that CONFIG shows.
    pub parameters: Parameters,
    /// Counters.
    pub stats: Stats,
    /// The process around it.
    pub host: Box<dyn Host>,
    /// Start time of the server, since the Unix epoch.
    pub began: Duration,
    /// Forty random hexadecimal digits.
    pub run_id: String,
    pub(crate) turns: Turns,
    random: AtomicU64,
}

impl Server {
    /// A server of these commands, without clients; `seed` decides everything that is random.
    pub fn new(
        rows: &'static [Row],
        host: Box<dyn Host>,
        parameters: Parameters,
        seed: u64,
        now: Duration,
    ) -> Self {
        let run_id = (0..3).map(|part| format!("{:016x}", mix(seed ^ part))).collect::<String>();
        Self {
            rows: Rows::new(rows),
            acl: Acl::new(rows.iter().map(|row| &row.spec)),
            clients: Clients::default(),
            parameters,
            stats: Stats::default(),
            host,
            began: now,
            run_id: run_id[..40].to_owned(),
            turns: Turns::default(),
            random: AtomicU64::new(seed),
        }
    }

    /// A number that cannot be predicted from the last one without the seed.
    pub(crate) fn random(&self) -> u64 {
        mix(self.random.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed))
    }

    /// Delivers the notices of the shards.
    pub fn deliver(&self, mut notices: Vec<Notice>) {
        // Messages of one client are delivered together, in the order of the events.
        notices.sort_by_key(|notice| notice.client);
        for told in notices.chunk_by(|a, b| a.client == b.client) {
            self.clients.invalidate(told[0].client, told);
        }
    }
}

/// The first number that SplitMix64 draws from `seed`: its bits, spread.
pub(crate) fn mix(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}
