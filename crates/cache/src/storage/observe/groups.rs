//! Reads by command and prefix of the key.

use std::time::Duration;

use hashbrown::HashMap;
use telemetry::{Latencies, Spread};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    forecast::Group,
    sample::{Counts, Share, Sums},
};

/// Maximum number of groups. A new one takes the place of the one with the fewest reads.
const GROUPS_MAX: usize = 64;
/// A prefix ends with the first of these.
const SEPARATORS: &[u8] = b":./";
/// Longest prefix, with its separator; the prefix of a key without a separator is empty.
const PREFIX_BYTES_MAX: usize = 48;

/// Reads of each group, and of all.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: HashMap<u64, Counted>,
    all: Counted,
}

#[derive(Debug, Default)]
struct Counted {
    command: &'static str,
    prefix: Box<[u8]>,
    reads: Sums,
    hits: Sums,
    bytes: Sums,
    /// Of hits, each as often as the reads that it stands for.
    latency: Box<Latencies>,
}

/// A read that would be a hit; its latency at the origin is to be noted.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    group: u64,
    weight: f64,
}

impl Groups {
    /// Counts a read: its command, place and key. `bytes` is the length of the answer that caching
    /// would give.
    pub(super) fn count(
        &mut self,
        (command, place, key): (&'static str, (&str, &str), &[u8]),
        counts: Counts,
        bytes: Option<usize>,
    ) -> Option<Hit> {
        let (database, collection) = place;
        let (start, end) = match database {
            "" => (&[][..], prefix_of(key)),
            _ => (database.as_bytes(), collection.as_bytes()),
        };
        let hash = [start, end].iter().fold(0, |seed, part| xxh3_64_with_seed(part, seed));
        let group = xxh3_64_with_seed(command.as_bytes(), hash);
        if !self.groups.contains_key(&group) {
            let parts = !database.is_empty() && !collection.is_empty();
            let dot: &[u8] = if parts { b"." } else { b"" };
            let prefix = [start, dot, end].concat().into_boxed_slice();
            self.add(group, Counted { command, prefix, ..Counted::default() });
        }
        for counted in self.groups.get_mut(&group).into_iter().chain([&mut self.all]) {
            counted.reads.add(counts, 1.0);
            if let Some(bytes) = bytes {
                counted.hits.add(counts, 1.0);
                counted.bytes.add(counts, bytes as f64);
            }
        }
        bytes.map(|_| Hit { group, weight: counts.weight })
    }

    fn add(&mut self, group: u64, new: Counted) {
        if self.groups.len() >= GROUPS_MAX {
            let reads = |(_, one): &(&u64, &Counted)| one.reads.all(Share::default());
            let least = self.groups.iter().min_by(|one, two| reads(one).total_cmp(&reads(two)));
            if let Some(least) = least.map(|(hash, _)| *hash) {
                self.groups.remove(&least);
            }
        }
        self.groups.insert(group, new);
    }

    pub(super) fn took(&mut self, hit: Hit, latency: Duration) {
        for counted in self.groups.get_mut(&hit.group).into_iter().chain([&mut self.all]) {
            counted.latency.record(latency, hit.weight.round() as u64);
        }
    }

    pub(super) fn latency(&self) -> &Latencies {
        &self.all.latency
    }

    pub(super) fn bytes(&self, of_others: Share) -> f64 {
        self.all.bytes.all(of_others)
    }

    /// Every group, most reads first.
    pub(super) fn all(&self, of_others: Share) -> Vec<Group> {
        let group = |counted: &Counted| {
            let mut latency = Spread::default();
            counted.latency.add_to(&mut latency);
            Group {
                command: counted.command,
                prefix: counted.prefix.clone(),
                reads: counted.reads.all(of_others),
                hits: counted.hits.all(of_others),
                bytes: counted.bytes.all(of_others),
                latency,
            }
        };
        let mut groups: Vec<_> = self.groups.values().map(group).collect();
        groups.sort_by(|one, two| two.reads.total_cmp(&one.reads));
        groups
    }
}

/// The prefix of a key, with its separator.
fn prefix_of(key: &[u8]) -> &[u8] {
    let beginning = key.get(..PREFIX_BYTES_MAX).unwrap_or(key);
    let end = beginning.iter().position(|byte| SEPARATORS.contains(byte));
    end.and_then(|end| key.get(..=end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Counts = Counts { sampled: false, weight: 1.0 };

    #[test]
    fn a_prefix_ends_with_the_first_separator() {
        for (key, prefix) in [
            (&b"user:7:name"[..], &b"user:"[..]),
            (b"a.b:c", b"a."),
            (b"/page", b"/"),
            (b"plain", b""),
            (b"", b""),
            (&[b'x'; 100], b""),
        ] {
            assert_eq!(prefix_of(key), prefix, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_groups_with_the_most_reads_stay() {
        let mut groups = Groups::default();
        for round in 0..1_000 {
            for often in 0..8 {
                let key = format!("often{often}:{round}");
                groups.count(("get", ("", ""), key.as_bytes()), ONE, Some(10));
            }
            for rare in 0..40 {
                let key = format!("rare{}:", 40 * round + rare);
                groups.count(("get", ("", ""), key.as_bytes()), ONE, None);
            }
        }
        let all = groups.all(Share::default());
        assert_eq!(all.len(), GROUPS_MAX);
        for group in &all[..8] {
            assert!(group.prefix.starts_with(b"often"), "{}", group.prefix.escape_ascii());
            assert_eq!((group.reads, group.hits, group.bytes), (1_000.0, 1_000.0, 10_000.0));
        }
        assert_eq!(groups.bytes(Share::default()), 80_000.0);
        let mut by_place = |database, collection| {
            groups.count(("find", (database, collection), b"\x07key"), ONE, None);
            let found = groups.all(Share::default()).into_iter().find(|one| one.command == "find");
            String::from_utf8(found.expect("just counted").prefix.into_vec()).expect("names")
        };
        assert_eq!(by_place("shop", "items"), "shop.items");
        assert_eq!(by_place("orders", ""), "orders");
    }
}
