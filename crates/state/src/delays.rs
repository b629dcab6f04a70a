//! Infrastructure monitor (AnnaBellaDB §II): duration of an access from a host to a node.
//!
//! The measured value is the round trip of a request, so it includes the load of a node as well as
//! the network. Each direction is separate. The prototype averages old and new and starts at zero;
//! here a pair has the percentile of a sliding window in which older measurements weigh less, and
//! no value at all before it was measured or once nothing recent is known.

use std::{collections::VecDeque, time::Duration};

use crate::{Host, Node};

/// Settings of the estimation.
#[derive(Debug, Clone)]
pub struct Config {
    /// Measurements older than this are dropped.
    pub window: Duration,
    /// Maximum number of measurements per pair; the oldest are dropped first.
    pub samples_max: usize,
    /// Half-life of the weight of a measurement.
    pub half_life: Duration,
    /// Share of the weight at or below the estimate, above 0 and at most 1.
    pub percentile: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            samples_max: 64,
            half_life: Duration::from_secs(5),
            percentile: 0.5,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    round_trip: Duration,
}

/// Round trips between all hosts and all nodes.
#[derive(Debug)]
pub struct Delays {
    config: Config,
    nodes: usize,
    /// By host, then node.
    pairs: Vec<Vec<VecDeque<Sample>>>,
}

impl Delays {
    /// Creates the monitor of `hosts` × `nodes` pairs without measurements.
    #[must_use]
    pub fn new(config: Config, hosts: usize, nodes: usize) -> Self {
        let mut delays = Self { config, nodes, pairs: Vec::new() };
        delays.resize(hosts, nodes);
        delays
    }

    /// Sets the number of hosts and nodes. Measurements of those that remain are kept.
    pub fn resize(&mut self, hosts: usize, nodes: usize) {
        self.nodes = nodes;
        self.pairs.resize_with(hosts, Vec::new);
        self.pairs.iter_mut().for_each(|host| host.resize_with(nodes, VecDeque::new));
    }

    /// Drops all measurements of a host.
    pub fn forget(&mut self, host: Host) {
        self.pairs
            .get_mut(host.index())
            .into_iter()
            .flatten()
            .for_each(|pair| *pair = VecDeque::new());
    }

    /// Records that a request of `host` to `node` was answered after `round_trip`. Pairs that do
    /// not exist are ignored.
    pub fn record(&mut self, host: Host, node: Node, round_trip: Duration, now: Duration) {
        let Config { window, samples_max, .. } = self.config;
        let pairs = self.pairs.get_mut(host.index());
        let Some(pair) = pairs.and_then(|pairs| pairs.get_mut(node.index())) else { return };
        while pair.len() >= samples_max.max(1)
            || pair.front().is_some_and(|sample| sample.at + window < now)
        {
            pair.pop_front();
        }
        pair.push_back(Sample { at: now, round_trip });
    }

    /// Current duration of an access of `host` to `node`, if known.
    #[must_use]
    pub fn estimate(&self, host: Host, node: Node, now: Duration) -> Option<Duration> {
        let pair = self.pairs.get(host.index())?.get(node.index())?;
        let fresh = pair.iter().filter(|sample| sample.at + self.config.window >= now);
        let mut weighed: Vec<(Duration, f64)> = fresh
            .map(|sample| (sample.round_trip, self.weight(now.saturating_sub(sample.at))))
            .collect();
        weighed.sort_by_key(|&(round_trip, _)| round_trip);
        let due = weighed.iter().map(|(_, weight)| weight).sum::<f64>() * self.config.percentile;
        let mut below = 0.0;
        let reaches = |&&(_, weight): &&(Duration, f64)| {
            below += weight;
            below >= due
        };
        weighed.iter().find(reaches).or(weighed.last()).map(|&(round_trip, _)| round_trip)
    }

    /// All estimates, in the form that placement uses.
    #[must_use]
    pub fn matrix(&self, now: Duration) -> Matrix {
        let hosts = self.pairs.len();
        let mut matrix = Matrix::unknown(hosts, self.nodes);
        for host in (0..hosts).map(|host| Host(host as u16)) {
            for node in (0..self.nodes).map(|node| Node(node as u16)) {
                if let Some(delay) = self.estimate(host, node, now) {
                    matrix.set(host, node, delay);
                }
            }
        }
        matrix
    }

    fn weight(&self, age: Duration) -> f64 {
        (-age.as_secs_f64() / self.config.half_life.as_secs_f64().max(f64::MIN_POSITIVE)).exp2()
    }
}

/// The delay of every host to every node, in microseconds; infinite if unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    nodes: usize,
    delays_us: Vec<f32>,
}

impl Matrix {
    /// Creates a matrix of unknown delays.
    #[must_use]
    pub fn unknown(hosts: usize, nodes: usize) -> Self {
        Self { nodes, delays_us: vec![f32::INFINITY; hosts * nodes] }
    }

    /// Sets one delay. Pairs that do not exist are ignored.
    pub fn set(&mut self, host: Host, node: Node, delay: Duration) {
        let at = host.index() * self.nodes + node.index();
        if node.index() < self.nodes
            && let Some(place) = self.delays_us.get_mut(at)
        {
            *place = (delay.as_secs_f64() * 1e6) as f32;
        }
    }

    /// Delays from `host` to each node, in microseconds; empty for a host that does not exist.
    #[must_use]
    pub fn from(&self, host: Host) -> &[f32] {
        let start = host.index() * self.nodes;
        self.delays_us.get(start..start + self.nodes).unwrap_or_default()
    }

    /// From `host` to `node`, in microseconds.
    #[must_use]
    pub fn between(&self, host: Host, node: Node) -> f32 {
        self.from(host).get(node.index()).copied().unwrap_or(f32::INFINITY)
    }

    /// The number of hosts.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.delays_us.len().checked_div(self.nodes).unwrap_or_default()
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn delays() -> Delays {
        Delays::new(Config::default(), 2, 2)
    }

    #[test]
    fn directions_are_apart_and_nothing_is_known_at_first() {
        let mut delays = delays();
        assert_eq!(delays.estimate(Host(0), Node(1), S), None);
        delays.record(Host(0), Node(1), 5 * MS, S);
        assert_eq!(delays.estimate(Host(0), Node(1), S), Some(5 * MS));
        assert_eq!(delays.estimate(Host(1), Node(0), S), None);
        assert_eq!(delays.matrix(S).between(Host(0), Node(1)), 5_000.0);
        assert_eq!(delays.matrix(S).between(Host(1), Node(1)), f32::INFINITY);
    }

    #[test]
    fn one_slow_answer_does_not_move_the_median() {
        let mut delays = delays();
        for number in 0..9 {
            delays.record(Host(0), Node(0), if number == 4 { 900 * MS } else { MS }, S);
        }
        assert_eq!(delays.estimate(Host(0), Node(0), S), Some(MS));
    }

    #[test]
    fn new_measurements_outweigh_many_old_ones_and_the_window_ends() {
        let mut delays = delays();
        for _ in 0..30 {
            delays.record(Host(0), Node(0), MS, S);
        }
        for _ in 0..2 {
            delays.record(Host(0), Node(0), 9 * MS, 26 * S);
        }
        // 30 samples that are five half-lives old have weight 0.94, two new ones have weight 2.
        assert_eq!(delays.estimate(Host(0), Node(0), 26 * S), Some(9 * MS));
        assert_eq!(delays.estimate(Host(0), Node(0), 60 * S), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut delays = delays();
        for number in 0..1_000 {
            delays.record(Host(0), Node(0), MS * (number + 1), S);
        }
        assert_eq!(delays.pairs[0][0].len(), 64);
        delays.record(Host(7), Node(7), MS, S);
        delays.record(Host(0), Node(2), MS, S);
        assert_eq!(delays.estimate(Host(1), Node(0), S), None);
    }

    #[test]
    fn new_hosts_and_nodes_change_no_known_delay() {
        let mut delays = delays();
        delays.record(Host(0), Node(1), 5 * MS, S);
        delays.record(Host(1), Node(0), 7 * MS, S);
        delays.resize(3, 4);
        assert_eq!(delays.estimate(Host(0), Node(1), S), Some(5 * MS));
        assert_eq!(delays.estimate(Host(1), Node(0), S), Some(7 * MS));
        delays.record(Host(2), Node(3), MS, S);
        assert_eq!(delays.matrix(S).between(Host(2), Node(3)), 1_000.0);
        delays.forget(Host(1));
        assert_eq!(delays.estimate(Host(1), Node(0), S), None);
    }
}
