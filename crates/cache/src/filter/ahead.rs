//! The keys of pipelined requests before their turn, so that storage can prefetch them.

use smallvec::SmallVec;

/// Maximum number of requests that are looked at ahead. Each lookup uses about five cache lines, so
/// that those of one round stay in the first-level cache.
pub const AHEAD: usize = 16;

/// What is ahead.
#[derive(Debug)]
pub struct Ahead {
    /// The origin of these keys, as [`crate::key::Namespace`] has it.
    pub origin: u64,
    /// Hashes of the keys that the requests probably look up.
    pub hashes: SmallVec<[u64; AHEAD]>,
    /// Number of bytes of these requests: the next look begins after them.
    pub bytes: usize,
}

impl Ahead {
    /// Reads up to [`AHEAD`] requests to `origin`. `next` returns the hash of a request's key, if
    /// any, and its length; `None` if it is incomplete or not valid, which is handled in its turn.
    pub(super) fn of(
        origin: u64,
        bytes: &[u8],
        next: impl Fn(&[u8]) -> Option<(Option<u64>, usize)>,
    ) -> Self {
        let mut ahead = Self { origin, hashes: SmallVec::new(), bytes: 0 };
        for _ in 0..AHEAD {
            let rest = bytes.get(ahead.bytes..).unwrap_or_default();
            let Some((hash, length)) = next(rest) else {
                ahead.bytes = bytes.len();
                break;
            };
            ahead.hashes.extend(hash);
            ahead.bytes += length;
        }
        ahead
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        filter::{
            Filter,
            memcache::{self, Memcache},
            resp::{self, Resp},
        },
        key::{Key, Namespace},
    };

    /// Concatenation of `requests(0)`, `requests(1)` and so on.
    fn pipeline(requests: impl Fn(usize) -> String) -> Vec<u8> {
        (0..AHEAD + 4).map(requests).collect::<String>().into_bytes()
    }

    fn hashes(namespace: Namespace, keys: std::ops::Range<usize>) -> Vec<u64> {
        keys.map(|key| Key::new(namespace, format!("k{key:02}").as_bytes()).hash).collect()
    }

    #[test]
    fn the_keys_of_the_next_redis_requests_are_found() {
        let filter = Resp::new(Arc::new(resp::Settings::default()));
        let namespace = resp::namespace(&resp::Settings::default(), 0);
        let get = |key| format!("*2\r\n$3\r\nGET\r\n$3\r\nk{key:02}\r\n");
        let one = get(0).len();
        let bytes = pipeline(get);
        let ahead = filter.look_ahead(&bytes);
        assert_eq!(ahead.bytes, AHEAD * one);
        assert_eq!(ahead.hashes.to_vec(), hashes(namespace, 0..AHEAD));
        // Requests without arguments have no key.
        let ahead = filter.look_ahead(b"PING\r\nGET k01\r\n");
        assert_eq!((ahead.hashes.to_vec(), ahead.bytes), (hashes(namespace, 1..2), 15));
        // The look-ahead ignores an incomplete or invalid request.
        for end in [&b"*2\r\n$3\r\nGET\r\n$3\r\nk"[..], b"*2\r\n:1\r\n"] {
            let bytes = [get(7).as_bytes(), end].concat();
            let ahead = filter.look_ahead(&bytes);
            assert_eq!(ahead.hashes.to_vec(), hashes(namespace, 7..8));
            assert_eq!(ahead.bytes, bytes.len());
        }
    }

    #[test]
    fn the_keys_of_the_next_memcached_requests_are_found() {
        let filter = Memcache::new(Arc::new(memcache::Settings::default()));
        let namespace = Namespace::new(0, "", b"", b"");
        let bytes = pipeline(|key| format!("get k{key:02}\r\n"));
        let ahead = filter.look_ahead(&bytes);
        assert_eq!(ahead.hashes.to_vec(), hashes(namespace, 0..AHEAD));
        assert_eq!(ahead.bytes, AHEAD * "get k00\r\n".len());
        let ahead = filter.look_ahead(b"set k03 0 0 2\r\nab\r\nget k0");
        assert_eq!((ahead.hashes.to_vec(), ahead.bytes), (hashes(namespace, 3..4), 25));
    }
}
