//! The published status of the placer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    query::{Query, done, words},
    report::{STATUS, kept},
    slot::Slot,
};

/// Number of moves in the status, the latest.
const LATEST_MAX: usize = 16;

/// Status that the placer stores in the cluster for `enroute state status` and `why`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Status {
    pub(super) placer: String,
    pub(super) dry_run: bool,
    pub(super) agents: Vec<String>,
    pub(super) slots_in_use: usize,
    /// Number of slots of which agents keep copies.
    pub(super) copied: usize,
    /// Load of the nodes, with the goal `load`.
    #[serde(default)]
    pub(super) load: String,
    /// Waiting time of all accesses per second, in microseconds.
    pub(super) waits_us: f64,
    /// Since this placer leads.
    pub(super) moves: u64,
    pub(super) moves_failed: u64,
    pub(super) latest: Vec<String>,
    /// By slot.
    pub(super) why: BTreeMap<u16, String>,
}

/// The status that the leading placer has published last, if there is one.
#[must_use]
pub fn published() -> Query<'static, Option<serde_json::Result<Status>>> {
    Query::new(words!["GET", STATUS], |reply| {
        Ok(kept(reply)?.map(|text| serde_json::from_str(&text)))
    })
}

impl Status {
    /// Publishes it.
    ///
    /// # Errors
    /// A number in it has no form in JSON.
    pub fn publish(&self) -> serde_json::Result<Query<'static, ()>> {
        Ok(Query::new(words!["SET", STATUS, serde_json::to_string(self)?], done))
    }

    /// Adds an event; the latest comes first.
    pub(super) fn tell(&mut self, line: String) {
        self.latest.insert(0, line);
        self.latest.truncate(LATEST_MAX);
    }

    /// Reason for the place of a slot.
    #[must_use]
    pub fn why(&self, slot: Slot) -> &str {
        let known = self.why.get(&(slot.number() as u16));
        known.map_or("stays: it is not used, or many other slots are used more", String::as_str)
    }

    /// The status as text, one line per item.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let (used, copied) = (self.slots_in_use, self.copied);
        let mut lines = vec![
            format!("agents: {}", self.agents.join(", ")),
            format!("slots in use: {used}; slots that agents keep copies of: {copied}"),
            format!("accesses wait {:.1} ms per second", self.waits_us / 1e3),
            format!("moves: {}, failed: {}", self.moves, self.moves_failed),
        ];
        lines.extend(Some(self.load.clone()).filter(|load| !load.is_empty()));
        lines.extend(self.latest.iter().map(|line| format!("  {line}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use wire::resp::Reply;

    use super::*;

    #[test]
    fn a_status_is_read_as_it_was_published() {
        let mut status = Status { moves: 3, ..Status::default() };
        (0..LATEST_MAX + 1).for_each(|line| status.tell(line.to_string()));
        status.why.insert(7, "stays: pinned".to_owned());
        let publish = status.publish().expect("JSON");
        let text = Reply::Bytes(publish.words()[2].as_ref().to_vec());
        let read = published().read(text).expect("an answer").expect("a status").expect("JSON");
        let lines = read.lines();
        assert_eq!(lines[3..5], ["moves: 3, failed: 0", "  16"]);
        assert_eq!(lines.len(), 4 + LATEST_MAX);
        let slot = |number| Slot::new(number).expect("a slot");
        assert_eq!(read.why(slot(7)), "stays: pinned");
        assert!(read.why(slot(8)).starts_with("stays: it is not used"));
        assert!(published().read(Reply::Null).expect("an answer").is_none());
    }
}
