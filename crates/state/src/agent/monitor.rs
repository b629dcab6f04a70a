//! Measurements of one agent: accesses of its clients by slot, hot keys, and round-trip times to
//! nodes. [`Report`] is sent to the placer.

use std::{collections::BTreeMap, mem::take, net::SocketAddr, time::Duration};

use policy::hotkey::{CountMin, Sampler, hash};

use crate::{
    accesses::Counts,
    slot::{SLOTS, Slot},
};

/// Maximum number of slots in one report; the busiest are included.
const REPORTED_SLOTS_MAX: usize = 4_096;
/// Maximum number of keys in one report.
const HOT_KEYS_MAX: usize = 32;
/// Maximum number of round trips kept per node between two reports.
const ROUND_TRIPS_MAX: usize = 64;
/// Sampling of hot keys: one access in this number.
const SAMPLED_OF: u32 = 16;
/// Number of sampled accesses that make a key a candidate.
const CANDIDATE_FROM: u16 = 4;
const KEY_BYTES_MAX: usize = 256;

/// The observations of an agent in one period.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The length of the period.
    pub period: Duration,
    /// The accesses to each slot that was used.
    pub slots: Vec<(Slot, Counts)>,
    /// Round trips to each node, as they were measured.
    pub round_trips: BTreeMap<SocketAddr, Vec<Duration>>,
    /// The keys used most, with an estimate of their accesses.
    pub hot: Vec<(Vec<u8>, u64)>,
}

/// What clients asked of one slot. Every command touches one of these at random: half of
/// [`Counts`], so that all slots fit into the second cache of most processors beside the rest.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    bytes: u64,
    reads: u32,
    writes: u32,
}

#[derive(Debug)]
pub(super) struct Monitor {
    /// Nothing is counted or measured.
    pub(super) blind: bool,
    seed: u64,
    since: Duration,
    asked: Box<[Asked]>,
    /// Reads of each slot that copies answered.
    copied: Box<[u32]>,
    round_trips: BTreeMap<SocketAddr, Vec<Duration>>,
    sampler: Sampler,
    sketch: CountMin,
    hot: Vec<(Vec<u8>, u64, u16)>,
}

impl Monitor {
    pub(super) fn new(seed: u64, now: Duration) -> Self {
        Self {
            blind: false,
            seed,
            since: now,
            asked: vec![Asked::default(); SLOTS].into(),
            copied: vec![0; SLOTS].into(),
            round_trips: BTreeMap::new(),
            sampler: Sampler::new(65_536 / SAMPLED_OF, seed),
            sketch: CountMin::new(4, 12).unwrap_or_else(|_| unreachable!("4 rows of 4,096 exist")),
            hot: Vec::new(),
        }
    }

    pub(super) fn asked(&mut self, slot: Slot, key: Option<&[u8]>, write: bool, bytes: usize) {
        if self.blind {
            return;
        }
        if let Some(asked) = self.asked.get_mut(slot.number()) {
            asked.reads = asked.reads.saturating_add(u32::from(!write));
            asked.writes = asked.writes.saturating_add(u32::from(write));
            asked.bytes += bytes as u64;
        }
        // If the first argument is not a key, its slot is unlikely to be that of the key.
        if let Some(key) = key
            && self.sampler.sample()
            && Slot::of(key) == slot
        {
            self.sample(key);
        }
    }

    /// A read was answered from a copy, without a request to a node.
    pub(super) fn copied(&mut self, slot: Slot) {
        if let Some(copied) = self.copied.get_mut(slot.number()) {
            *copied = copied.saturating_add(1);
        }
    }

    pub(super) fn answered(&mut self, slot: Slot, bytes: usize) {
        if self.blind {
            return;
        }
        if let Some(asked) = self.asked.get_mut(slot.number()) {
            asked.bytes += bytes as u64;
        }
    }

    pub(super) fn round_trip(&mut self, node: SocketAddr, time: Duration) {
        let times = self.round_trips.entry(node).or_default();
        if times.len() < ROUND_TRIPS_MAX {
            times.push(time);
        }
    }

    fn sample(&mut self, key: &[u8]) {
        let hash = hash(key, self.seed);
        let estimate = self.sketch.add(hash);
        if estimate < CANDIDATE_FROM || key.len() > KEY_BYTES_MAX {
            return;
        }
        if let Some(known) = self.hot.iter_mut().find(|(_, known, _)| *known == hash) {
            known.2 = estimate;
            return;
        }
        if self.hot.len() < HOT_KEYS_MAX {
            self.hot.push((key.to_vec(), hash, estimate));
        } else if let Some(least) = self.hot.iter_mut().min_by_key(|(.., times)| *times)
            && least.2 < estimate
        {
            *least = (key.to_vec(), hash, estimate);
        }
    }

    fn report(&mut self, now: Duration) -> Report {
        let used = |(number, (asked, copied)): (usize, (&mut Asked, &mut u32))| {
            let (Asked { bytes, reads, writes }, copied) = (take(asked), take(copied));
            let (reads, writes, copied) = (reads.into(), writes.into(), copied.into());
            let counts = Counts { reads, writes, bytes, copied };
            (counts != Counts::default()).then(|| Some((Slot::new(number)?, counts)))?
        };
        let each = self.asked.iter_mut().zip(&mut self.copied);
        let mut slots: Vec<(Slot, Counts)> = each.enumerate().filter_map(used).collect();
        if slots.len() > REPORTED_SLOTS_MAX {
            slots.sort_by_key(|(_, counts)| {
                std::cmp::Reverse(counts.reads + counts.writes + counts.copied)
            });
            slots.truncate(REPORTED_SLOTS_MAX);
        }
        let mut hot: Vec<(Vec<u8>, u64)> = self
            .hot
            .drain(..)
            .map(|(key, _, times)| (key, u64::from(times) * u64::from(SAMPLED_OF)))
            .collect();
        hot.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        self.sketch.clear();
        let period = now.saturating_sub(self.since);
        self.since = now;
        Report { period, slots, round_trips: take(&mut self.round_trips), hot }
    }
}

impl super::Agent {
    /// Disables counting and measuring, for clusters without a placer and for measuring their cost.
    pub fn blind(&mut self) {
        self.monitor.blind = true;
    }

    /// Returns the observations since the last report.
    pub fn report(&mut self, now: Duration) -> Report {
        self.monitor.report(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blind_agent_says_nothing_and_asks_no_node() {
        let node = SocketAddr::from(([127, 0, 0, 1], 1));
        let said = |blind: bool| {
            let limits = wire::resp::Limits::default();
            let mut agent = super::super::Agent::new(&[node], None, limits, 7, Duration::ZERO);
            if blind {
                agent.blind();
            }
            let links = agent.wishes();
            for &(link, _) in &links {
                agent.connected(link);
                let slots = b"$55\r\na 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\r\n";
                let output = agent.link_output(link).expect("it is there");
                output.advance(output.bytes().len());
                agent.node_receive(link, slots, Duration::ZERO).expect("slots");
            }
            let now = Duration::from_secs(1);
            agent.handle_timeout(now);
            let client = agent.open(node);
            agent.receive(client, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", now).expect("a request");
            let output = agent.link_output(links[0].0).expect("it is there").bytes().to_vec();
            let pings = output.windows(4).filter(|word| word == b"PING").count();
            (agent.report(now).slots.len(), pings)
        };
        assert_eq!((said(false), said(true)), ((1, 1), (0, 0)));
    }

    #[test]
    fn a_report_says_what_was_done_since_the_last() {
        let mut monitor = Monitor::new(7, Duration::ZERO);
        let (slot, node) = (Slot::of(b"a"), SocketAddr::from(([127, 0, 0, 1], 1)));
        for number in 0..10_000_u32 {
            monitor.asked(slot, Some(b"a"), number % 10 == 0, 30);
            monitor.answered(slot, 5);
            monitor.asked(Slot::of(&number.to_be_bytes()), Some(&number.to_be_bytes()), false, 1);
        }
        monitor.round_trip(node, Duration::from_millis(5));
        let report = monitor.report(Duration::from_secs(2));
        assert_eq!(report.period, Duration::from_secs(2));
        let of_a = report.slots.iter().find(|(found, _)| *found == slot).unwrap().1;
        assert!(of_a.reads >= 9_000 && of_a.writes == 1_000 && of_a.bytes >= 350_000, "{of_a:?}");
        assert_eq!(report.round_trips[&node], [Duration::from_millis(5)]);
        let (key, times) = &report.hot[0];
        assert!(key == b"a" && (8_000..12_000).contains(times), "{key:?} {times}");
        assert!(report.slots.len() <= REPORTED_SLOTS_MAX);
        let next = monitor.report(Duration::from_secs(3));
        assert_eq!((next.slots.len(), next.hot.len(), next.round_trips.len()), (0, 0, 0));
    }
}
