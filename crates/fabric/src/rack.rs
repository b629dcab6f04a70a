//! The second topology: NetCache's rack, one switch over servers that each own a partition.
//!
//! Clients ask at a fixed total rate; the switch answers what it holds and passes the rest to the
//! server of the key, a queue with one rate. A write to an item in the switch makes it invalid
//! there until its server's update comes back; the client has its answer before. Queries are
//! processed in the order in which they reach the switch, and none overtakes another on the way to
//! a server. So the result of a query is known when it is processed, and no event queue is needed.

mod zipf;

use std::collections::HashMap;

use policy::hotkey;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

use crate::Error;
pub use zipf::Zipf;

/// The key of a rank: 16 bytes, of which the last twelve are digits.
#[must_use]
pub fn key(rank: u64) -> [u8; 16] {
    let (mut key, mut rest) = (*b"key:000000000000", rank);
    for digit in key[4..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The server, of `servers`, that owns a key.
#[must_use]
pub fn server(key: &[u8; 16], servers: u32) -> u32 {
    (hotkey::hash(key, 0) % u64::from(servers)) as u32
}

/// A rack and the queries of its clients (NetCache, §7: 128 servers of 10 M queries per second,
/// 10,000 cached items).
#[derive(Debug, Clone, PartialEq)]
pub struct Rack {
    /// Storage servers; each key belongs to one.
    pub servers: u32,
    /// Capacity of one server, in queries per second.
    pub server_qps: u64,
    /// Queue length of one server, in queries; further ones are dropped.
    pub server_queue: u32,
    /// Time from the switch to a server and through it, without queueing, in nanoseconds.
    pub server_latency_ns: u64,
    /// Time from a server back to the switch, in nanoseconds.
    pub update_ns: u64,
    /// Hottest items in the switch; 0 caches nothing.
    pub cached: u64,
    /// Keys.
    pub keys: u64,
    /// The exponent of their popularity; 0 is uniform.
    pub skew: f64,
    /// The share of writes.
    pub writes: f64,
    /// The exponent of the written keys' popularity; 0 is uniform.
    pub write_skew: f64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            servers: 128,
            server_qps: 10_000_000,
            server_queue: 32,
            server_latency_ns: 7_000,
            update_ns: 1_000,
            cached: 10_000,
            keys: 100_000_000,
            skew: 0.99,
            writes: 0.0,
            write_skew: 0.0,
        }
    }
}

/// Results of the queries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RackMetrics {
    /// Queries asked.
    pub asked: u64,
    /// Answered by the switch.
    pub switch_answers: u64,
    /// Answered by each server.
    pub server_answers: Vec<u64>,
    /// Dropped at full servers.
    pub dropped: u64,
    /// Sum over answers of queueing and server time, in nanoseconds; the switch takes no time.
    pub latency_ns: u64,
    /// Writes that made an item in the switch invalid for a while.
    pub invalidated: u64,
}

impl RackMetrics {
    /// Ratio of dropped to sent queries.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.dropped as f64 / self.asked.max(1) as f64
    }

    /// Answers of switch and servers.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.switch_answers + self.server_answers.iter().sum::<u64>()
    }
}

/// Throughput is what a rack answers at no more than this loss: of the half to one percent
/// NetCache's clients hold (§7.1), the lower bound, with which its NoCache is at the paper's shares
/// of uniform keys.
const LOSS_MAX: f64 = 0.005;

/// Number of runs of a throughput search. Each halves the interval, down to a quarter of a percent.
pub const SEARCH_RUNS: u32 = 12;

impl Rack {
    /// Sends `queries` at a total rate of `qps`, evenly spaced; the same `seed` gives the same
    /// result.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names what means nothing.
    pub fn run(&self, qps: u64, queries: u64, seed: u64) -> Result<RackMetrics, Error> {
        self.check(qps)?;
        let reads = Zipf::new(self.keys, self.skew);
        let writes = (self.writes > 0.0).then(|| Zipf::new(self.keys, self.write_skew));
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut metrics = RackMetrics {
            server_answers: vec![0; self.servers as usize],
            ..RackMetrics::default()
        };
        // Times in units of 1 ns / (server_qps * qps): both rates are exact, and nothing is
        // divided.
        let mut free = vec![0_u128; self.servers as usize];
        let service = 1_000_000_000 * u128::from(qps);
        let queue = u128::from(self.server_queue) * service;
        let unit = u128::from(self.server_qps) * u128::from(qps);
        let in_ns = |time: u128| (time / unit) as u64;
        let mut invalid_until = HashMap::new();
        for query in 0..queries {
            let now = u128::from(query) * 1_000_000_000 * u128::from(self.server_qps);
            let written = writes.as_ref().filter(|_| random.random::<f64>() < self.writes);
            let write = written.is_some();
            let rank = written.unwrap_or(&reads).rank(random.random::<f64>());
            metrics.asked += 1;
            let cached = rank < self.cached;
            if cached && !write && invalid_until.get(&rank).is_none_or(|until| *until <= now) {
                metrics.switch_answers += 1;
                continue;
            }
            let server = server(&key(rank), self.servers) as usize;
            let waits = free[server].saturating_sub(now);
            if waits >= queue {
                metrics.dropped += 1;
                continue;
            }
            free[server] = now + waits + service;
            metrics.server_answers[server] += 1;
            metrics.latency_ns += in_ns(waits) + self.server_latency_ns;
            if cached && write {
                metrics.invalidated += 1;
                let away_ns = u128::from(self.server_latency_ns + self.update_ns);
                invalid_until.insert(rank, now + waits + away_ns * unit);
            }
        }
        Ok(metrics)
    }

    /// The highest rate, in queries per second, at which at most one query in two hundred is lost,
    /// and its results. `look` gets the number of finished runs, of [`SEARCH_RUNS`]; if it returns
    /// `false`, the search ends with `None`.
    ///
    /// # Errors
    ///
    /// As [`Rack::run`].
    pub fn throughput(
        &self,
        queries: u64,
        seed: u64,
        mut look: impl FnMut(u32) -> bool,
    ) -> Result<Option<(u64, RackMetrics)>, Error> {
        // One server's rate loses nothing. The switch answers at line rate: a hundred racks' worth
        // is beyond anything it can save.
        let mut least = self.server_qps;
        let mut found = self.run(least, queries, seed)?;
        let mut most = 100 * u64::from(self.servers) * self.server_qps;
        for over in 0..SEARCH_RUNS {
            if !look(over) {
                return Ok(None);
            }
            let middle = ((least as f64) * (most as f64)).sqrt() as u64;
            let metrics = self.run(middle, queries, seed)?;
            if metrics.loss() <= LOSS_MAX {
                (least, found) = (middle, metrics);
            } else {
                most = middle;
            }
        }
        Ok(Some((least, found)))
    }

    fn check(&self, qps: u64) -> Result<(), Error> {
        let rates = 1..=1_000_000_000_000;
        let holds = [
            (
                "servers",
                (1..=65_536).contains(&self.servers),
                "1 to 65536",
                f64::from(self.servers),
            ),
            ("server_qps", rates.contains(&self.server_qps), "1 to 10^12", self.server_qps as f64),
            ("server_queue", self.server_queue > 0, "at least 1", f64::from(self.server_queue)),
            ("qps", qps > 0, "at least 1", qps as f64),
            ("keys", self.keys > 0, "at least 1", self.keys as f64),
            ("skew", (0.0..2.0).contains(&self.skew), "0 to less than 2", self.skew),
            ("writes", (0.0..=1.0).contains(&self.writes), "0 to 1", self.writes),
            (
                "write_skew",
                (0.0..2.0).contains(&self.write_skew),
                "0 to less than 2",
                self.write_skew,
            ),
        ];
        match holds.into_iter().find(|(_, holds, ..)| !holds) {
            None => Ok(()),
            Some((what, _, expected, got)) => {
                Err(Error::Config { what, expected: expected.to_owned(), got: got.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: u64 = 200_000;

    fn qps(rack: &Rack) -> f64 {
        let found = rack.throughput(QUERIES, 1, |_| true).expect("a rack");
        found.expect("not ended").0 as f64
    }

    fn share_of_uniform(skew: f64, cached: u64) -> f64 {
        let rack = Rack { skew, cached, ..Rack::default() };
        qps(&rack) / (f64::from(rack.servers) * rack.server_qps as f64)
    }

    #[test]
    fn without_a_cache_the_hottest_server_decides() {
        // NetCache states 22.5 % and 15.6 % of the throughput of uniform keys.
        for (skew, expected) in [(0.95, 0.225), (0.99, 0.156)] {
            let share = share_of_uniform(skew, 0);
            assert!((share / expected - 1.0).abs() < 0.05, "skew {skew}: {share}");
        }
    }

    #[test]
    fn ten_thousand_items_balance_a_hundred_servers() {
        // NetCache states 3.6, 6.5 and 10 times the throughput without a cache.
        for (skew, times) in [(0.9, 3.6), (0.95, 6.5), (0.99, 10.0)] {
            let gain = share_of_uniform(skew, 10_000) / share_of_uniform(skew, 0);
            assert!(gain > times * 0.95, "skew {skew}: {gain}");
        }
    }

    #[test]
    fn everything_is_accounted_for_and_repeats() {
        let rack = Rack { writes: 0.2, write_skew: 0.99, ..Rack::default() };
        let metrics = rack.run(900_000_000, QUERIES, 3).expect("a rack");
        assert_eq!(metrics.asked, metrics.answers() + metrics.dropped);
        assert!(metrics.dropped > 0 && metrics.invalidated > 0);
        assert_eq!(metrics, rack.run(900_000_000, QUERIES, 3).expect("a rack"));
    }

    #[test]
    fn writes_to_hot_items_take_the_gain_away() {
        let gain = |writes| {
            let rack = Rack { writes, write_skew: 0.99, ..Rack::default() };
            qps(&rack)
        };
        assert!(gain(0.0) > 2.0 * gain(0.5));
    }

    #[test]
    fn a_rack_of_nothing_is_refused() {
        let error = Rack { servers: 0, ..Rack::default() }.run(1, 1, 1).expect_err("refused");
        assert_eq!(error.to_string(), "configuration: servers: expected 1 to 65536, got 0");
    }
}
