//! CLIENT TRACKING: which clients are notified of which keys.
//!
//! Each shard has its own [`Tracking`], under the shard's lock: a read and the note that it was
//! read are one step, so no write can slip between them. Tracking names keys without their
//! database, as Redis does. Notifications are [`Notice`]s.

use hashbrown::HashMap;
use smallvec::SmallVec;

/// Maximum number of keys remembered for clients in default mode, in all shards together.
pub const TRACKED_KEYS_MAX: usize = 262_144;

/// Maximum number of keys remembered if the process may use `memory_bytes`: at about 128 bytes a
/// key, a thirtieth of it.
pub fn keys_max_for(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / 4_096)
        .map_or(TRACKED_KEYS_MAX, |keys| keys.min(TRACKED_KEYS_MAX))
}

/// A message for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The client.
    pub client: u64,
    /// The changed key.
    pub key: Box<[u8]>,
    /// The prefix it asked for; `None` if it had read the key.
    pub prefix: Option<Box<[u8]>>,
}

/// A client that is notified of every key with one of its prefixes.
#[derive(Debug, Clone)]
struct Broadcast {
    client: u64,
    prefix: Box<[u8]>,
    /// The client's own changes are left out.
    no_loop: bool,
}

/// No client has this number.
const NO_CLIENT: u64 = u64::MAX;

/// Clients that read one key, and whether they skip their own changes; most keys have one.
type Readers = SmallVec<[(u64, bool); 2]>;

/// Clients that track keys of one shard.
#[derive(Debug)]
pub struct Tracking {
    /// Clients that read a key since their last notification about it.
    readers: HashMap<Box<[u8]>, Readers>,
    broadcasts: Vec<Broadcast>,
    notices: Vec<Notice>,
    /// Keys remembered at most; above it, one is dropped and its clients are notified as if it had
    /// changed.
    keys_max: usize,
}

impl Tracking {
    /// Creates it without tracking clients; at most `keys_max` keys will be remembered.
    pub(crate) fn new(keys_max: usize) -> Self {
        Self { readers: HashMap::new(), broadcasts: Vec::new(), notices: Vec::new(), keys_max }
    }

    /// Remembers at most `keys_max` keys from now on.
    pub fn limit(&mut self, keys_max: usize) {
        self.keys_max = keys_max;
        self.give_up(keys_max);
    }

    /// Drops remembered keys until `left` are left.
    fn give_up(&mut self, left: usize) {
        let count = self.readers.len().saturating_sub(left);
        let given_up: Vec<_> = self.readers.keys().take(count).cloned().collect();
        given_up.iter().for_each(|key| self.tell_readers(key, NO_CLIENT));
    }

    /// Notes that `client` has read `key` and may keep the value.
    pub(crate) fn remember(&mut self, key: &[u8], client: u64, no_loop: bool) {
        if let Some(readers) = self.readers.get_mut(key) {
            if !readers.iter().any(|&(reader, _)| reader == client) {
                readers.push((client, no_loop));
            }
            return;
        }
        self.give_up(self.keys_max.saturating_sub(1));
        self.readers.insert(key.into(), SmallVec::from_elem((client, no_loop), 1));
    }

    /// `client` subscribes to changes of every key that begins with `prefix`.
    pub(crate) fn broadcast(&mut self, client: u64, prefix: &[u8], no_loop: bool) {
        self.broadcasts.push(Broadcast { client, prefix: prefix.into(), no_loop });
    }

    /// `client` ends its broadcasts. Keys that it read stay recorded until they change; the notice
    /// is then discarded.
    pub(crate) fn forget(&mut self, client: u64) {
        self.broadcasts.retain(|broadcast| broadcast.client != client);
    }

    /// Notes that `client` has changed `key`.
    #[inline]
    pub(crate) fn changed(&mut self, key: &[u8], client: u64) {
        if !self.readers.is_empty() {
            self.tell_readers(key, client);
        }
        for broadcast in &self.broadcasts {
            let own = broadcast.no_loop && broadcast.client == client;
            if key.starts_with(&broadcast.prefix) && !own {
                self.notices.push(Notice {
                    client: broadcast.client,
                    key: key.into(),
                    prefix: Some(broadcast.prefix.clone()),
                });
            }
        }
    }

    fn tell_readers(&mut self, key: &[u8], client: u64) {
        for (reader, no_loop) in self.readers.remove(key).into_iter().flatten() {
            if !(no_loop && reader == client) {
                self.notices.push(Notice { client: reader, key: key.into(), prefix: None });
            }
        }
    }

    /// Notes that every key was dropped; the caller notifies tracking clients in one message.
    pub(crate) fn flushed(&mut self) {
        self.readers.clear();
    }

    /// Takes the pending messages; they count as sent.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether any messages are pending.
    #[inline]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Number of keys for which some client will be notified.
    pub(crate) fn keys(&self) -> usize {
        self.readers.len()
    }

    /// Number of pairs of a client and a key that it tracks.
    pub(crate) fn pairs(&self) -> usize {
        self.readers.values().map(SmallVec::len).sum()
    }

    /// The prefixes of all broadcasts.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &[u8]> {
        self.broadcasts.iter().map(|broadcast| &*broadcast.prefix)
    }
}
