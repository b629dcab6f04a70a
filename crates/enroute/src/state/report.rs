//! Reports of agents to the placer. They are stored in the cluster itself, under a fixed hash tag,
//! where every agent and placer finds them without knowing the others
//! (`docs/formats/state-reports.md`).

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};
use state::{accesses::Counts, agent, slot::Slot};

/// What keys of ours begin with. They share one slot, which never moves.
pub(super) const TAG: &str = "{enroute}";
/// A hash: an agent's name, its latest report.
pub(super) const REPORTS: &str = "{enroute}:reports";
/// What the placer last saw and did.
pub(super) const STATUS: &str = "{enroute}:status";

/// The slots agents keep copies of, by their numbers, commas between them.
pub(super) const COPIES: &str = "{enroute}:copies";

/// Reads what is kept under [`COPIES`]. What is no slot is left out.
pub(super) fn slots_of(text: &str) -> Vec<Slot> {
    text.split(',').filter_map(|slot| Slot::new(slot.parse().ok()?)).collect()
}

/// A report as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Grows with every report of this agent; one that stays the same is old.
    pub(super) sequence: u64,
    /// Milliseconds it is about.
    pub(super) period_ms: u64,
    /// Slot, reads, writes, bytes, reads answered from copies.
    pub(super) slots: Vec<(u16, u64, u64, u64, u64)>,
    /// Microseconds a round trip to each node took.
    pub(super) round_trips_us: BTreeMap<SocketAddr, Vec<u64>>,
    /// Keys used most, with an estimate of their accesses in the period.
    pub(super) hot: Vec<(String, u64)>,
}

impl Report {
    pub(super) fn new(sequence: u64, report: &agent::Report) -> Self {
        let microseconds =
            |times: &Vec<Duration>| times.iter().map(|time| time.as_micros() as u64).collect();
        Self {
            sequence,
            period_ms: report.period.as_millis() as u64,
            slots: report
                .slots
                .iter()
                .map(|(slot, counts)| {
                    let &Counts { reads, writes, bytes, copied } = counts;
                    (slot.number() as u16, reads, writes, bytes, copied)
                })
                .collect(),
            round_trips_us: report
                .round_trips
                .iter()
                .map(|(node, times)| (*node, microseconds(times)))
                .collect(),
            hot: report
                .hot
                .iter()
                .map(|(key, times)| (String::from_utf8_lossy(key).into_owned(), *times))
                .collect(),
        }
    }

    /// What was done with each slot. Slots that do not exist are left out.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Slot, Counts)> {
        self.slots.iter().filter_map(|&(slot, reads, writes, bytes, copied)| {
            Some((Slot::new(slot.into())?, Counts { reads, writes, bytes, copied }))
        })
    }
}

/// The name an agent has unless it is given one: of the machine, and where it listens.
pub(crate) fn default_name(listens: SocketAddr) -> String {
    format!("{}:{}", machine(), listens.port())
}

/// The same of a placer.
pub(crate) fn default_placer() -> String {
    format!("{}-{}", machine(), std::process::id())
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let counts = Counts { reads: 1, writes: 2, bytes: 3, copied: 4 };
        let slot = Slot::new(16_383).expect("a slot");
        let seen = agent::Report {
            period: Duration::from_millis(500),
            slots: vec![(slot, counts)],
            round_trips: [(SocketAddr::from(([127, 0, 0, 1], 7)), vec![Duration::from_micros(90)])]
                .into(),
            hot: vec![(b"a\xff".to_vec(), 9)],
        };
        let report = Report::new(4, &seen);
        let text = serde_json::to_string(&report).expect("JSON");
        let read: Report = serde_json::from_str(&text).expect("a report");
        assert_eq!(read, report);
        assert_eq!(read.counts().collect::<Vec<_>>(), [(slot, counts)]);
    }
}
