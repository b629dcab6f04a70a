//! What the endpoint needs of the program it belongs to.

use serde::Serialize;
use serde_json::Value;

use super::{Statistics, exposition};
use crate::runtime::{Shared, StorageLimits};

/// A program that can be looked at, and whose storage can be changed, while it serves.
pub trait Observed: Send + Sync + 'static {
    /// `GET /`: a page for people.
    fn page(&self) -> &'static str;
    /// `GET /healthz`: it serves its last requests and takes no new ones.
    fn is_draining(&self) -> bool;
    /// `GET /stats`.
    fn statistics(&self) -> Value;
    /// `GET /metrics`: text exposition format 0.0.4.
    fn exposition(&self) -> String;
    /// `POST /flush`: forgets what is stored; false where what is stored is kept nowhere else.
    fn flush(&self) -> bool;
    /// `POST /storage`: what is absent stays as it is; gives the room from now on.
    fn resize(&self, wanted: Room) -> Room;
}

/// Room for storage; without `items_max` memory alone is the bound.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Room {
    /// Items at most.
    pub items_max: Option<usize>,
    /// Bytes at most.
    pub bytes_max: Option<usize>,
}

impl Observed for Shared {
    fn page(&self) -> &'static str {
        include_str!("page.html")
    }

    fn is_draining(&self) -> bool {
        Shared::is_draining(self)
    }

    fn statistics(&self) -> Value {
        let statistics = Statistics::collect(self);
        serde_json::to_value(statistics).expect("plain values become JSON")
    }

    fn exposition(&self) -> String {
        exposition(&Statistics::collect(self))
    }

    fn flush(&self) -> bool {
        self.shards.clear();
        true
    }

    fn resize(&self, wanted: Room) -> Room {
        let StorageLimits { items_max, bytes_max } = self.shards.resize(|limits| {
            limits.items_max = wanted.items_max.unwrap_or(limits.items_max);
            limits.bytes_max = wanted.bytes_max.unwrap_or(limits.bytes_max);
        });
        let items_max = (items_max != usize::MAX).then_some(items_max);
        Room { items_max, bytes_max: Some(bytes_max) }
    }
}
