//! Reports of agents to the placer. They are stored in the cluster itself, under a fixed hash tag,
//! where every agent and placer finds them without knowing the others
//! (`docs/formats/state-reports.md`).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use wire::resp::Reply;

use crate::{
    accesses::Counts,
    agent,
    query::{Query, Why, done, unexpected, words},
    slot::Slot,
};

/// Prefix of the keys of the state layer. They share one slot, which never moves.
pub const TAG: &str = "{enroute}";
/// A hash: an agent's name, its latest report.
pub const REPORTS: &str = "{enroute}:reports";
/// The last status of the placer.
pub const STATUS: &str = "{enroute}:status";

/// The slots agents keep copies of, by their numbers, commas between them.
pub const COPIES: &str = "{enroute}:copies";

/// The text of a key; `None` if the key does not exist.
pub(crate) fn kept(reply: Reply) -> Result<Option<String>, Why> {
    match reply {
        Reply::Error(_) => Err(unexpected("a text or nothing", &reply)),
        reply => Ok(reply.text()),
    }
}

/// The latest reports, with the names of their agents.
#[must_use]
pub fn all() -> Query<'static, Vec<(String, serde_json::Result<Report>)>> {
    Query::new(words!["HGETALL", REPORTS], |reply| {
        if let Reply::Error(_) = reply {
            return Err(unexpected("names and reports", &reply));
        }
        let pair = |pair: &[Reply]| {
            let (name, text) = (pair.first()?.text()?, pair.get(1)?.text()?);
            Some((name, serde_json::from_str(&text)))
        };
        Ok(reply.list().chunks_exact(2).filter_map(pair).collect())
    })
}

/// Deletes the report of an agent.
#[must_use]
pub fn delete(agent: &str) -> Query<'_, ()> {
    Query::new(words!["HDEL", REPORTS, agent], done)
}

/// The slots that agents keep copies of.
#[must_use]
pub fn copied() -> Query<'static, BTreeSet<Slot>> {
    Query::new(words!["GET", COPIES], |reply| {
        Ok(slots_of(&kept(reply)?.unwrap_or_default()).into_iter().collect())
    })
}

/// Has agents keep copies of these slots only.
#[must_use]
pub fn copy(slots: &BTreeSet<Slot>) -> Query<'static, ()> {
    let numbers: Vec<String> = slots.iter().map(|slot| slot.number().to_string()).collect();
    Query::new(words!["SET", COPIES, numbers.join(",")], done)
}

/// Parses the value of [`COPIES`]; invalid slots are skipped.
pub fn slots_of(text: &str) -> Vec<Slot> {
    text.split(',').filter_map(|slot| Slot::new(slot.parse().ok()?)).collect()
}

/// A report in its stored form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Incremented with every report of this agent; a report with an unchanged number is old.
    pub sequence: u64,
    /// Length of the reported period, in milliseconds.
    pub period_ms: u64,
    /// Slot, reads, writes, bytes, reads answered from copies.
    pub slots: Vec<(u16, u64, u64, u64, u64)>,
    /// Round-trip times to each node, in microseconds.
    pub round_trips_us: BTreeMap<SocketAddr, Vec<u64>>,
    /// Keys used most, with an estimate of their accesses in the period.
    pub hot: Vec<(String, u64)>,
}

impl Report {
    /// Converts the observations of an agent to its report number `sequence`.
    #[must_use]
    pub fn new(sequence: u64, report: &agent::Report) -> Self {
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

    /// Accesses to each slot. Slots that do not exist are skipped.
    pub fn counts(&self) -> impl Iterator<Item = (Slot, Counts)> {
        self.slots.iter().filter_map(|&(slot, reads, writes, bytes, copied)| {
            Some((Slot::new(slot.into())?, Counts { reads, writes, bytes, copied }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_report_is_read_and_a_refusal_is_no_empty_list() {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let told = [bytes("a"), bytes("{}"), bytes("b"), bytes(r#"{"sequence":1}"#)];
        let read = all().read(Reply::List(told.to_vec())).expect("reports");
        assert_eq!(read.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(read.iter().all(|(_, report)| report.is_err()));
        assert!(all().read(Reply::Error("NOPERM".into())).is_err());
        assert!(copied().read(Reply::Error("NOPERM".into())).is_err());
        assert!(copied().read(Reply::Null).expect("none chosen").is_empty());
        let slots = [3, 16_383].map(|slot| Slot::new(slot).expect("a slot"));
        assert_eq!(copied().read(bytes("3,16384,x,16383")), Ok(slots.into()));
        assert_eq!(copy(&slots.into()).words()[2].as_ref(), b"3,16383");
    }

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
