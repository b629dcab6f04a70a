//! The server of a key among several: ketama, as libmemcached and twemproxy choose.
//!
//! Each server has points on a ring of 32-bit numbers, taken from the MD5 of its name and a number.
//! A key belongs to the server of the first point at or after its hash. The hash of keys is a
//! separate choice. Point for point this is `MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED` of libmemcached
//! and `distribution: ketama` of twemproxy, including their rounding.

use md5::{Digest, Md5};

/// Points of a server with the average weight.
const POINTS: f32 = 160.0;
/// Points taken from one digest.
const POINTS_OF_DIGEST: u32 = 4;

/// Hash of keys, by the name that twemproxy gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hash {
    /// `fnv1a_64`, the default of twemproxy: FNV-1a with the lower 32 bits of its 64-bit constants.
    #[default]
    Fnv1a64,
    /// `md5`, which libmemcached uses with ketama: the first four bytes of the digest.
    Md5,
    /// `one_at_a_time`, the default of libmemcached.
    OneAtATime,
}

impl Hash {
    /// The hash of `key`.
    #[must_use]
    pub fn of(self, key: &[u8]) -> u32 {
        match self {
            Self::Fnv1a64 => key.iter().fold(0x8422_2325, |hash: u32, &byte| {
                (hash ^ signed(byte)).wrapping_mul(0x0000_01b3)
            }),
            Self::Md5 => numbers(key)[0],
            Self::OneAtATime => {
                let hash = key.iter().fold(0, |hash: u32, &byte| {
                    let hash = hash.wrapping_add(signed(byte));
                    let hash = hash.wrapping_add(hash << 10);
                    hash ^ (hash >> 6)
                });
                let hash = hash.wrapping_add(hash << 3);
                let hash = hash ^ (hash >> 11);
                hash.wrapping_add(hash << 15)
            }
        }
    }
}

/// Both programs hash characters of C, which are signed.
fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

/// The four numbers in the digest of `text`.
fn numbers(text: &[u8]) -> [u32; 4] {
    let digest: [u8; 16] = Md5::digest(text).into();
    let number = |at: usize| {
        let bytes = digest.get(4 * at..).and_then(|rest| rest.first_chunk());
        u32::from_le_bytes(bytes.copied().unwrap_or_default())
    };
    [number(0), number(1), number(2), number(3)]
}

/// The points of several servers.
#[derive(Debug, Clone)]
pub struct Ring {
    hash: Hash,
    /// Point and index of its server, by point.
    points: Vec<(u32, u16)>,
}

impl Ring {
    /// The ring of servers with these names and weights. A server whose share is less than 1/40 of
    /// the average has no point.
    #[must_use]
    pub fn new(servers: &[(String, u32)], hash: Hash) -> Self {
        let total: u32 = servers.iter().map(|(_, weight)| weight).sum();
        let mut points = Vec::new();
        for (index, (name, weight)) in (0..).zip(servers) {
            // In the precision of the two programs; the 1e-10 that they add is lost in it.
            let share = *weight as f32 / total as f32;
            let digests = share * POINTS / POINTS_OF_DIGEST as f32 * servers.len() as f32;
            for number in 0..digests.floor() as u32 {
                let of_name = numbers(format!("{name}-{number}").as_bytes());
                points.extend(of_name.map(|point| (point, index)));
            }
        }
        points.sort_by_key(|(point, _)| *point);
        Self { hash, points }
    }

    /// Index of the server of `key`; 0 if no server has a point.
    #[must_use]
    pub fn server(&self, key: &[u8]) -> u16 {
        let hash = self.hash.of(key);
        let next = self.points.partition_point(|(point, _)| *point < hash);
        let found = self.points.get(next).or_else(|| self.points.first());
        found.map_or(0, |(_, server)| *server)
    }
}

#[cfg(test)]
mod tests {
    use super::{Hash, Ring};

    #[test]
    fn hashes_are_the_published_ones() {
        // FNV-1a and one-at-a-time as their authors state them; MD5 by RFC 1321.
        assert_eq!(Hash::Fnv1a64.of(b""), 0x8422_2325);
        assert_eq!(Hash::OneAtATime.of(b"a"), 0xca2e_9442);
        assert_eq!(Hash::Md5.of(b"abc"), 0x9850_0190);
    }

    #[test]
    fn a_server_has_points_by_its_weight() {
        let count = |servers: &[(&str, u32)]| {
            let servers: Vec<_> =
                servers.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
            let ring = Ring::new(&servers, Hash::Md5);
            assert!(ring.points.is_sorted());
            let of = |index| ring.points.iter().filter(|(_, server)| *server == index).count();
            (0..).take(servers.len()).map(of).collect::<Vec<_>>()
        };
        assert_eq!(count(&[("a", 1), ("b", 1), ("c", 1)]), [160, 160, 160]);
        assert_eq!(count(&[("a", 1), ("b", 3)]), [80, 240]);
        assert_eq!(count(&[("a", 1), ("b", 99)]), [0, 316]);
    }

    /// Hash, servers and their weights, number of keys of each, and a sum over all choices.
    type Case<'a> = (Hash, &'a [(&'a str, u32)], &'a [usize], u64);

    /// The servers of 10,000 keys, as nutcracker 0.5 stored them: `crates/enroute/tests/cache` asks
    /// it again. Each fourth key has bytes beyond ASCII.
    #[test]
    fn keys_belong_to_the_servers_that_nutcracker_chose() {
        let key = |number: usize| {
            let mut key = format!("n{number}:{}", "k".repeat(number % 97)).into_bytes();
            if number.is_multiple_of(4) {
                key.extend([0xc3, 0xa9, 0x80 | (number & 0x7f) as u8, 0xff]);
            }
            key
        };
        let [one, two, three] = [1, 2, 3].map(|number| format!("127.0.0.1:2395{number}"));
        let (one, two, three) = (one.as_str(), two.as_str(), three.as_str());
        let unnamed = "127.9.8.7";
        let cases: [Case<'_>; 3] = [
            (
                Hash::Fnv1a64,
                &[(unnamed, 1), (one, 1), (two, 1), (three, 1)],
                &[2_269, 2_440, 2_675, 2_616],
                128_119_772,
            ),
            (
                Hash::Md5,
                &[("alpha", 1), (one, 5), ("gamma-3", 2), (three, 1)],
                &[964, 5_611, 2_262, 1_163],
                118_038_032,
            ),
            (
                Hash::OneAtATime,
                &[(unnamed, 7), (one, 1), (two, 3)],
                &[6_298, 610, 3_092],
                84_146_071,
            ),
        ];
        for (hash, servers, counts, sum) in cases {
            let servers: Vec<_> =
                servers.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
            let ring = Ring::new(&servers, hash);
            let chosen = (0..10_000).map(|number| usize::from(ring.server(&key(number))));
            let chosen: Vec<_> = chosen.collect();
            let count = |index| chosen.iter().filter(|&&server| server == index).count();
            assert_eq!((0..servers.len()).map(count).collect::<Vec<_>>(), counts, "{hash:?}");
            let products = (1..).zip(&chosen).map(|(number, &server)| number * (server as u64 + 1));
            assert_eq!(products.sum::<u64>(), sum, "{hash:?}");
        }
    }
}
