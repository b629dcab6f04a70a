//! Parameters of CONFIG GET and CONFIG SET.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use notation::parse_redis_size;
use parking_lot::RwLock;
use store::elastic::Sync;

use crate::{
    failure::Failure,
    goal::Goal,
    memory::{MEMORY_BYTES_MIN, clients_bytes_max},
    tracking,
};

/// Parameters that can be read, and those of them that can change.
pub struct Parameters {
    /// The memory of the whole process, in bytes.
    pub memory_bytes: AtomicU64,
    /// Clients served at once.
    pub clients_max: AtomicUsize,
    /// Seconds without a command after which a client is closed; 0 for never.
    pub timeout_seconds: AtomicU64,
    /// Memory to be asked of the orchestrator, in bytes; 0 for none.
    pub memory_bytes_wanted: AtomicU64,
    /// Keys remembered for clients that track, in all shards together.
    pub tracked_keys_max: AtomicUsize,
    /// Index into [`SYNCS`]; atomic because every write reads it.
    sync: AtomicUsize,
    goal: RwLock<Option<Goal>>,
    fixed: BTreeMap<&'static str, String>,
}

/// A change of parameters, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Memory(u64),
    Clients(usize),
    Timeout(u64),
    Sync(Sync),
    Goal(Option<Goal>),
    TrackedKeys(usize),
    Password(String),
    Nothing,
}

/// Redis's name of each way of making writes durable.
pub fn sync_name(sync: Sync) -> &'static str {
    match sync {
        Sync::Always => "always",
        Sync::EverySecond => "everysec",
        Sync::Never => "no",
    }
}

/// The way of making writes durable that `name` means.
pub fn parse_sync(name: &str) -> Option<Sync> {
    SYNCS.into_iter().find(|&sync| sync_name(sync).eq_ignore_ascii_case(name))
}

const SYNCS: [Sync; 3] = [Sync::Always, Sync::EverySecond, Sync::Never];

fn place(sync: Sync) -> usize {
    SYNCS.iter().position(|&other| other == sync).expect("all ways are listed")
}

impl Parameters {
    /// Creates the parameters with their initial values; `fixed` are shown and cannot change.
    pub fn new(
        memory_bytes: u64,
        clients_max: usize,
        sync: Sync,
        fixed: BTreeMap<&'static str, String>,
    ) -> Self {
        Self {
            memory_bytes: AtomicU64::new(memory_bytes),
            clients_max: AtomicUsize::new(clients_max),
            timeout_seconds: AtomicU64::new(0),
            memory_bytes_wanted: AtomicU64::new(0),
            tracked_keys_max: AtomicUsize::new(tracking::keys_max_for(memory_bytes)),
            sync: AtomicUsize::new(place(sync)),
            goal: RwLock::new(None),
            fixed,
        }
    }

    /// Maximum of data that all clients together may keep waiting, in bytes; see
    /// [`clients_bytes_max`].
    pub fn clients_bytes_max(&self) -> usize {
        clients_bytes_max(self.memory_bytes.load(Relaxed))
    }

    /// Maximum memory of one command besides the values in memory, in bytes.
    pub(crate) fn command_bytes_max(&self) -> usize {
        self.clients_bytes_max() / 2
    }

    /// Limit in bytes on what waiting commands keep; beyond it further commands queue for the disk.
    pub(crate) fn waiting_bytes_max(&self) -> usize {
        self.clients_bytes_max() / 4
    }

    /// How writes are made durable.
    pub fn sync(&self) -> Sync {
        SYNCS[self.sync.load(Relaxed)]
    }

    /// Changes how writes are made durable; the shards have to be informed too.
    pub fn set_sync(&self, sync: Sync) {
        self.sync.store(place(sync), Relaxed);
    }

    /// The goal of automatic memory changes; `None` if they are off.
    pub fn goal(&self) -> Option<Goal> {
        *self.goal.read()
    }

    /// Sets the goal of automatic memory changes.
    pub fn set_goal(&self, goal: Option<Goal>) {
        *self.goal.write() = goal;
    }

    /// Every parameter and its value.
    pub(crate) fn all(&self, password: &str) -> BTreeMap<&'static str, String> {
        let mut all = self.fixed.clone();
        all.extend([
            ("maxmemory", self.memory_bytes.load(Relaxed).to_string()),
            ("maxmemory-clients", self.clients_bytes_max().to_string()),
            ("maxclients", self.clients_max.load(Relaxed).to_string()),
            ("timeout", self.timeout_seconds.load(Relaxed).to_string()),
            ("appendfsync", sync_name(self.sync()).to_owned()),
            ("autoscale", self.goal().map_or_else(String::new, |goal| goal.to_string())),
            ("tracking-table-max-keys", self.tracked_keys_max.load(Relaxed).to_string()),
            ("requirepass", password.to_owned()),
        ]);
        all
    }

    /// Returns the change that setting `name` to `value` makes.
    pub(crate) fn check(&self, name: &str, value: &str) -> Result<Change, Failure> {
        let wrong = |why: &str| {
            Failure::new(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ))
        };
        let number = || {
            value.parse::<u64>().map_err(|_| wrong("argument couldn't be parsed into an integer"))
        };
        match name {
            "maxmemory" => {
                let bytes = parse_redis_size(value)
                    .ok_or_else(|| wrong("argument must be a memory value"))?;
                if bytes < MEMORY_BYTES_MIN {
                    return Err(wrong("expected at least 32mb"));
                }
                Ok(Change::Memory(bytes))
            }
            "maxmemory-clients" => Err(wrong("it is derived from maxmemory and cannot be set")),
            "maxclients" => Ok(Change::Clients(number()?.clamp(1, u32::MAX.into()) as usize)),
            "timeout" => Ok(Change::Timeout(number()?)),
            "appendfsync" => {
                let expected = "argument(s) must be one of the following: everysec, always, no";
                Ok(Change::Sync(parse_sync(value).ok_or_else(|| wrong(expected))?))
            }
            "autoscale" if value.is_empty() => Ok(Change::Goal(None)),
            "autoscale" => {
                Ok(Change::Goal(Some(value.parse().map_err(|why: String| wrong(&why))?)))
            }
            // None at all, and more than there may be, is the most.
            "tracking-table-max-keys" => Ok(Change::TrackedKeys(match number()? as usize {
                0 => tracking::TRACKED_KEYS_MAX,
                keys_max => keys_max.min(tracking::TRACKED_KEYS_MAX),
            })),
            "requirepass" => Ok(Change::Password(value.to_owned())),
            _ => match self.fixed.get(name) {
                Some(present) if present == value => Ok(Change::Nothing),
                Some(_) => Err(wrong("can't set immutable config")),
                None => Err(Failure::new(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                ))),
            },
        }
    }
}
