//! What all listeners of a process know of tables.
//!
//! **Key attributes.** `PutItem` states an item, not its key: which of its attributes are the key
//! is learned from the first `GetItem` of the table that the origin answers. Until then, a put
//! closes the table. After that, only entries whose keys have the same attributes are stored, so a
//! put that closes one key closes all that it can change, whenever it was sent. Names are never
//! replaced: a table that is created anew with other key attributes is not stored until the process
//! restarts.
//!
//! **Recent writes.** `GetItem` without `ConsistentRead` may return what was true before a write
//! that the origin has acknowledged. Such a reply is not stored for [`SETTLES`] after a write.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use hashbrown::HashMap;
use parking_lot::RwLock;
use wire::dynamodb::value::Names;

use crate::key::{Key, Namespace, Scope};

/// Maximum number of tables whose key attributes are known; items of others are not stored.
pub(super) const TABLES_MAX: usize = 4_096;
/// Time after which an eventually consistent read is expected to return a write, from when the
/// write is sent. DynamoDB states no bound: "usually within one second or less".
pub(super) const SETTLES: Duration = Duration::from_secs(2);
/// Number of places for the times of writes; two scopes at one place are confused, which delays a
/// fill.
const PLACES: usize = 16 << 10;

/// What is known of tables. Shared by all listeners of a process, because they can have the same
/// origin.
#[derive(Debug)]
pub struct Tables {
    /// Names of the key attributes, by [`Namespace::collection`].
    names: RwLock<HashMap<u64, Box<[u8]>>>,
    /// For each place, when a scope there was written last, in milliseconds, and 1; 0 for never.
    written: Box<[AtomicU64]>,
    /// A listener stores pages of tables.
    pages: bool,
}

impl Default for Tables {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Tables {
    /// Knows nothing yet; `pages`: whether any listener stores answers to `Query` and `Scan`, so
    /// that writes through each of them close these.
    #[must_use]
    pub fn new(pages: bool) -> Self {
        let written = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { names: RwLock::default(), written, pages }
    }

    /// Whether pages of tables may be stored.
    pub(super) fn have_pages(&self) -> bool {
        self.pages
    }

    /// Gives `see` the names of the key attributes of a table, if they are known.
    pub(super) fn see<T>(&self, table: Namespace, see: impl FnOnce(Names<'_>) -> T) -> Option<T> {
        self.names.read().get(&table.collection).map(|names| see(Names(names)))
    }

    /// Notes that the origin has answered for a key with attributes of these names. Returns whether
    /// an entry with this key may be stored.
    pub(super) fn learn(&self, table: Namespace, names: Names<'_>) -> bool {
        if let Some(is_same) = self.see(table, |known| known == names) {
            return is_same;
        }
        let mut all = self.names.write();
        if all.len() >= TABLES_MAX && !all.contains_key(&table.collection) {
            return false;
        }
        let known = all.entry(table.collection).or_insert_with(|| names.0.into());
        **known == *names.0
    }

    /// Notes that a write to `scope` is sent.
    pub(super) fn wrote(&self, scope: Scope<'_>, now: Duration) {
        let hash = match scope {
            Scope::Key(key) => key.hash,
            Scope::Collection(namespace) => namespace.collection,
            Scope::Database { database, .. } => database,
            Scope::Origin(origin) => origin,
        };
        if let Some(place) = self.place(hash) {
            place.fetch_max(milliseconds(now), Relaxed);
        }
    }

    /// Whether the origin may still return what was true before a write to `key`.
    pub(crate) fn are_settling(&self, key: Key<'_>, now: Duration) -> bool {
        let Namespace { origin, collection, .. } = key.namespace;
        let oldest = milliseconds(now.saturating_sub(SETTLES));
        let is_recent = |hash| {
            let written = self.place(hash).map_or(0, |place| place.load(Relaxed));
            written > 0 && written >= oldest
        };
        [key.hash, collection, origin].into_iter().any(is_recent)
    }

    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        // The high bits: storage uses the low ones.
        self.written.get((hash >> 32) as usize % PLACES)
    }
}

/// Milliseconds and 1.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::dynamodb::value::Names;

    use super::{SETTLES, TABLES_MAX, Tables};
    use crate::key::{Key, Namespace, Scope};

    fn table(name: &str) -> Namespace {
        Namespace::new(1, "origin", b"", name.as_bytes())
    }

    #[test]
    fn the_first_names_of_a_table_are_kept() {
        let tables = Tables::default();
        let known = |name| tables.see(table(name), |names| names.0.to_vec());
        assert_eq!(known("a"), None);
        assert!(tables.learn(table("a"), Names(b"\x01\0\x01x")));
        assert!(!tables.learn(table("a"), Names(b"\x01\0\x01y")));
        assert!(tables.learn(table("a"), Names(b"\x01\0\x01x")));
        assert_eq!(known("a"), Some(b"\x01\0\x01x".to_vec()));
        for number in 1..TABLES_MAX {
            assert!(tables.learn(table(&number.to_string()), Names(b"\x01\0\x01x")));
        }
        assert!(!tables.learn(table("one more"), Names(b"\x01\0\x01x")));
        assert!(tables.learn(table("a"), Names(b"\x01\0\x01x")));
    }

    #[test]
    fn a_write_settles_for_its_scope_alone() {
        let key = |name| Key::new(table("t"), name);
        let scopes =
            [Scope::Key(key(b"a")), Scope::Collection(table("t")), table("t").whole_origin()];
        for (wide, scope) in scopes.into_iter().enumerate() {
            let tables = Tables::default();
            let at = Duration::from_secs(7);
            assert!(!tables.are_settling(key(b"a"), Duration::ZERO));
            tables.wrote(scope, at);
            assert!(tables.are_settling(key(b"a"), at));
            assert!(tables.are_settling(key(b"a"), at + SETTLES));
            assert!(!tables.are_settling(key(b"a"), at + SETTLES + Duration::from_millis(1)));
            assert_eq!(tables.are_settling(key(b"b"), at), wide > 0);
            let other = Key::new(table("u"), b"a");
            assert_eq!(tables.are_settling(other, at), wide > 1);
        }
    }
}
