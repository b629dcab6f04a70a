//! Parsed keys in memory, up to a limit; the least recently used is evicted and wiped.

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use wire::ski::KeyId;

use crate::SigningKey;

/// Limits on the number of keys that stay parsed.
#[derive(Debug, Clone)]
pub struct Config {
    /// Keys at most. A parsed RSA-4096 key takes about 8 KiB, an ECDSA key 1 KiB.
    pub keys_max: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        Self { keys_max: NonZeroUsize::new(10_000).unwrap_or(NonZeroUsize::MIN) }
    }
}

/// Counters of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests whose key was here.
    pub hits: u64,
    /// Requests whose key was not.
    pub misses: u64,
    /// Keys that left for others.
    pub evictions: u64,
}

/// Parsed keys. An evicted key is wiped as soon as the operations that use it at that moment end.
pub struct Cache {
    keys: LruCache<KeyId, Arc<SigningKey>>,
    /// Only keys that were fetched under it are kept.
    generation: u64,
    stats: Stats,
}

impl Cache {
    /// An empty cache.
    pub fn new(config: &Config) -> Self {
        Self { keys: LruCache::new(config.keys_max), generation: 0, stats: Stats::default() }
    }

    /// The key, if it is here.
    pub fn find(&mut self, id: KeyId) -> Option<Arc<SigningKey>> {
        let found = self.keys.get(&id).cloned();
        *(if found.is_some() { &mut self.stats.hits } else { &mut self.stats.misses }) += 1;
        found
    }

    /// The key of an earlier miss, if another request has loaded it since; the miss stays counted.
    pub fn find_again(&mut self, id: KeyId) -> Option<Arc<SigningKey>> {
        self.keys.get(&id).cloned()
    }

    /// Stores a key that was fetched under `generation`, if that is the present one. Returns the
    /// evicted key, or the key itself, for the caller to drop outside of locks.
    pub fn insert(&mut self, key: Arc<SigningKey>, generation: u64) -> Option<Arc<SigningKey>> {
        if generation != self.generation {
            return Some(key);
        }
        let id = key.id();
        let (left_id, left) = self.keys.push(id, key)?;
        if left_id != id {
            self.stats.evictions += 1;
        }
        Some(left)
    }

    /// Drops everything, and what is still being fetched: records or key-encryption keys were
    /// changed. From now on keys are of `generation`.
    pub fn clear(&mut self, generation: u64) {
        self.generation = generation;
        self.keys.clear();
    }

    /// Keys here now.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ski::KeyKind;

    #[test]
    fn a_key_fetched_before_all_were_dropped_is_not_kept() {
        let document = crate::key::generate(KeyKind::EcdsaP256).unwrap();
        let key = Arc::new(SigningKey::from_pkcs8(&document, Vec::new()).unwrap());
        let mut cache = Cache::new(&Config::default());
        assert!(cache.insert(Arc::clone(&key), 0).is_none() && cache.find(key.id()).is_some());
        cache.clear(1);
        assert!(cache.find(key.id()).is_none());
        assert!(cache.insert(Arc::clone(&key), 0).is_some() && cache.is_empty());
        assert!(cache.insert(Arc::clone(&key), 1).is_none() && cache.find(key.id()).is_some());
    }
}
