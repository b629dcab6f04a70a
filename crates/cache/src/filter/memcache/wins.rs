//! Rights to replace a stale item, which the origin gave to the cache.
//!
//! The reply to the first `mg` of a stale item contains `W`: its client is to replace the item.
//! Replies to later ones contain `Z`. When a client reads such an item by `get`, the cache's
//! request for its lifetime is that first `mg`. The right belongs to the next client that sends a
//! `mg`.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Maximum number of rights kept. Beyond it, an item expires without being replaced.
const WINS_MAX: usize = 4_096;

/// Keys whose next `mg` wins.
#[derive(Debug, Default)]
pub struct Wins {
    keys: Mutex<HashSet<Box<[u8]>>>,
    /// Number of keys, so that requests take the lock only if there are some.
    count: AtomicUsize,
}

impl Wins {
    /// Keeps a right that the origin has given to the cache.
    pub(super) fn keep(&self, key: &[u8]) {
        let mut keys = self.keys();
        if keys.len() < WINS_MAX {
            keys.insert(key.into());
            self.count.store(keys.len(), Relaxed);
        }
    }

    /// Whether the right to this item is kept.
    #[inline]
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.count.load(Relaxed) > 0 && self.keys().contains(key)
    }

    /// Takes the right for a client; returns false if another client took it before.
    fn take(&self, key: &[u8]) -> bool {
        let mut keys = self.keys();
        let taken = keys.remove(key);
        self.count.store(keys.len(), Relaxed);
        taken
    }

    /// Writes the reply to a `mg` of `key`, with the right to replace the item if it is kept.
    pub(super) fn rewrite(&self, key: &[u8], reply: &[u8], out: &mut Vec<u8>) {
        let end = reply.windows(2).position(|end| end == b"\r\n").unwrap_or(reply.len());
        let (line, rest) = reply.split_at(end);
        let mut words = line.split(|&byte| byte == b' ');
        if !words.any(|word| word == b"Z") || !self.take(key) {
            // No longer stale, or stale again, which gives a new right.
            self.take(key);
            return out.extend_from_slice(reply);
        }
        for (number, word) in line.split(|&byte| byte == b' ').enumerate() {
            if word != b"Z" {
                out.extend_from_slice(if number > 0 { b" " } else { b"" });
                out.extend_from_slice(word);
            }
        }
        out.extend_from_slice(b" W");
        out.extend_from_slice(rest);
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Wins;

    #[test]
    fn a_right_is_given_to_one_client() {
        let wins = Wins::default();
        let rewritten = |reply: &[u8]| {
            let mut out = Vec::new();
            wins.rewrite(b"k", reply, &mut out);
            out
        };
        wins.keep(b"k");
        assert!(wins.has(b"k") && !wins.has(b"l"));
        assert_eq!(rewritten(b"VA 3 t9 Z X\r\n Z \r\n"), b"VA 3 t9 X W\r\n Z \r\n");
        assert!(!wins.has(b"k"));
        assert_eq!(rewritten(b"VA 1 Z X\r\nx\r\n"), b"VA 1 Z X\r\nx\r\n");
        wins.keep(b"k");
        assert_eq!(rewritten(b"EN\r\n"), b"EN\r\n");
        assert!(!wins.has(b"k"));
    }
}
