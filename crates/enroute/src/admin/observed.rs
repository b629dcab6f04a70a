//! Interface between the endpoint and its program.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use cache::explain::Asked;
use endpoint::{Exposition, Report};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Statistics, exposition};
use crate::runtime::{Shared, StorageLimits};

/// A program whose statistics can be read and whose storage can be changed while it serves.
pub trait Observed: Send + Sync + 'static {
    /// `GET /`: a page for people.
    fn page(&self) -> &'static str;
    /// `GET /healthz`: whether the program is draining, that is, accepts no new connections.
    fn is_draining(&self) -> bool;
    /// `GET /stats`.
    fn statistics(&self) -> Value;
    /// `GET /metrics`.
    fn exposition(&self) -> Exposition;
    /// `POST /flush`: drops all stored entries; false where the stored data exist nowhere else, or
    /// nothing is stored.
    fn flush(&self) -> bool {
        false
    }
    /// `POST /storage`: absent fields stay unchanged; returns the new limits.
    ///
    /// # Errors
    /// What is expected instead; nothing has changed.
    fn resize(&self, _: Room) -> Result<Room, String> {
        Err("expected `enroute cache`, `db` or `edge`: other services have no storage".to_owned())
    }
    /// `POST /explain`: why a read is a hit or not, in lines, or what is expected instead; `None`
    /// where this is not known.
    fn explain(&self, _: &Read) -> Option<Result<String, String>> {
        None
    }
    /// `POST /backup`: begins a backup to a directory, or returns what became of it; `None` where
    /// nothing is to be backed up.
    fn backup(&self, _: &Path) -> Option<Result<Backup, String>> {
        None
    }
    /// `POST /reload`: reads the configuration again and applies what can change at once; `None`
    /// where that cannot be done over HTTP.
    fn reload(&self) -> Option<anyhow::Result<Reloaded>> {
        None
    }
}

/// The options that a reload found changed, by name.
#[derive(Debug, Clone, Serialize)]
pub struct Reloaded {
    /// Those that are in force now.
    pub changed: Vec<String>,
    /// Those that take effect after a restart.
    pub needs_restart: Vec<String>,
}

/// A service of which only statistics can be read: returns what it has counted.
pub struct Counted<F>(pub F);

impl<F: Fn() -> Report + Send + Sync + 'static> Observed for Counted<F> {
    fn page(&self) -> &'static str {
        "<!doctype html><title>enroute</title><p><a href=/stats>/stats</a>, <a href=/metrics>/metrics</a>"
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn statistics(&self) -> Value {
        self.0().statistics
    }

    fn exposition(&self) -> Exposition {
        self.0().exposition
    }
}

/// A cache, and how its configuration is read again.
pub struct Cache {
    /// The cache.
    pub shared: Arc<Shared>,
    /// None without a configuration file.
    pub reload: Option<Box<dyn Fn() -> anyhow::Result<Reloaded> + Send + Sync>>,
}

/// A read to be explained.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// Address of the listener; not needed if there is only one.
    pub listen: Option<String>,
    /// Redis: the selected database.
    #[serde(default)]
    pub database: u32,
    /// The command and its arguments.
    pub request: Vec<String>,
}

/// Where a backup is to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupWanted {
    /// Absolute path of a directory to be created.
    pub directory: PathBuf,
}

/// A backup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Backup {
    /// It is complete. If not, ask again within 10 s, or it is abandoned.
    pub ended: bool,
    /// Its point, in milliseconds since the Unix epoch.
    pub point_ms: u64,
    /// Bytes of segments that it shares with the database or with an earlier backup.
    pub linked_bytes: u64,
    /// Bytes of segments that were copied.
    pub copied_bytes: u64,
}

/// Limits of storage; without `items_max` memory is the only limit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Room {
    /// Maximum number of items.
    pub items_max: Option<usize>,
    /// Maximum memory, in bytes.
    pub bytes_max: Option<usize>,
}

impl Room {
    /// The memory that is asked for, where the number of items has no limit.
    ///
    /// # Errors
    /// A limit on the items is asked for.
    pub fn memory_alone(self) -> Result<Option<usize>, String> {
        match self.items_max {
            None => Ok(self.bytes_max),
            Some(_) => Err("`items` has no limit here; expected `memory` alone".to_owned()),
        }
    }
}

impl Observed for Cache {
    fn page(&self) -> &'static str {
        include_str!("page.html")
    }

    fn is_draining(&self) -> bool {
        self.shared.is_draining()
    }

    fn statistics(&self) -> Value {
        let statistics = Statistics::collect(&self.shared);
        serde_json::to_value(statistics).expect("plain values become JSON")
    }

    fn exposition(&self) -> Exposition {
        exposition(&Statistics::collect(&self.shared))
    }

    fn flush(&self) -> bool {
        self.shared.shards.clear();
        true
    }

    fn resize(&self, wanted: Room) -> Result<Room, String> {
        let StorageLimits { items_max, bytes_max } = self.shared.shards.resize(|limits| {
            limits.items_max = wanted.items_max.unwrap_or(limits.items_max);
            limits.bytes_max = wanted.bytes_max.unwrap_or(limits.bytes_max);
        });
        let items_max = (items_max != usize::MAX).then_some(items_max);
        Ok(Room { items_max, bytes_max: Some(bytes_max) })
    }

    fn explain(&self, read: &Read) -> Option<Result<String, String>> {
        let asked = Asked { words: &read.request, database: read.database };
        Some(self.shared.explain(read.listen.as_deref(), asked))
    }

    fn reload(&self) -> Option<anyhow::Result<Reloaded>> {
        self.reload.as_ref().map(|reload| reload())
    }
}
