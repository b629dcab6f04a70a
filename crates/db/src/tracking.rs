//! Who wants to hear of which keys: CLIENT TRACKING.
//!
//! Each shard has its own [`Tracking`], under the shard's lock: a read and the note that it was read
//! are one step, so no write can slip between them. Tracking names keys without their database, as
//! Redis does. What is to be told leaves as [`Notice`]s.

use hashbrown::HashMap;
use smallvec::SmallVec;

/// Keys remembered for clients in default mode, in each shard; beyond, one is given up and its
/// clients are told as if it had changed.
pub const TRACKED_KEYS_MAX: usize = 65_536;

/// What a client is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// To whom.
    pub client: u64,
    /// What changed.
    pub key: Box<[u8]>,
    /// The prefix it asked for; `None` if it had read the key.
    pub prefix: Option<Box<[u8]>>,
}

/// A client that hears of every key with one of its prefixes.
#[derive(Debug, Clone)]
struct Broadcast {
    client: u64,
    prefix: Box<[u8]>,
    /// Not of its own changes.
    no_loop: bool,
}

/// Clients that read one key, and whether they skip their own changes; most keys have one.
type Readers = SmallVec<[(u64, bool); 2]>;

/// Who wants to hear of the keys of one shard.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Who read a key since it was last named to them.
    readers: HashMap<Box<[u8]>, Readers>,
    broadcasts: Vec<Broadcast>,
    notices: Vec<Notice>,
}

impl Tracking {
    /// `client` has read `key` and keeps what it read.
    pub(crate) fn remember(&mut self, key: &[u8], client: u64, no_loop: bool) {
        if let Some(readers) = self.readers.get_mut(key) {
            if !readers.iter().any(|&(reader, _)| reader == client) {
                readers.push((client, no_loop));
            }
            return;
        }
        if self.readers.len() >= TRACKED_KEYS_MAX
            && let Some(given_up) = self.readers.keys().next().cloned()
        {
            self.tell_readers(&given_up, u64::MAX);
        }
        self.readers.insert(key.into(), SmallVec::from_elem((client, no_loop), 1));
    }

    /// `client` wants to hear of every key that begins with `prefix`.
    pub(crate) fn broadcast(&mut self, client: u64, prefix: &[u8], no_loop: bool) {
        self.broadcasts.push(Broadcast { client, prefix: prefix.into(), no_loop });
    }

    /// `client` wants no more broadcasts. What it read stays noted until it changes, and whoever
    /// delivers finds that nobody is there.
    pub(crate) fn forget(&mut self, client: u64) {
        self.broadcasts.retain(|broadcast| broadcast.client != client);
    }

    /// `key` was changed by `client`.
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

    /// Every key is gone; whoever tracks is told so in one message, by others.
    pub(crate) fn flushed(&mut self) {
        self.readers.clear();
    }

    /// What is to be told, and is considered told.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Is there anything to be told?
    #[inline]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Keys some client is to hear of once they change.
    pub(crate) fn keys(&self) -> usize {
        self.readers.len()
    }
}
