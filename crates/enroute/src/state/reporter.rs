//! Leaves an agent's reports in the cluster, and finds there which slots are to be copied: as one more
//! client of the agent, so that they take the way everything takes.

use std::{net::SocketAddr, time::Duration};

use state::agent::Agent;
use tracing::warn;
use wire::resp::{Limits, frame, request};

use super::report::{COPIES, REPORTS, Report, slots_of};

pub(super) struct Reporter {
    /// Its place among the agent's clients.
    client: usize,
    name: String,
    period: Duration,
    due: Duration,
    sequence: u64,
    warned: bool,
    /// What was to be copied when that was heard last.
    chosen: String,
}

impl Reporter {
    pub(super) fn new(
        agent: &mut Agent,
        address: SocketAddr,
        name: &str,
        period: Duration,
    ) -> Self {
        let client = agent.open(address);
        // Starting again must not look like nothing new.
        let sequence = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let (name, chosen) = (name.to_owned(), String::new());
        let never = period.is_zero();
        if never {
            agent.blind();
        }
        let due = if never { Duration::MAX } else { period };
        Self { client, name, period, due, sequence, warned: false, chosen }
    }

    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Hears what became of the last report, and reports again when that is due.
    pub(super) fn advance(&mut self, agent: &mut Agent, now: Duration) {
        if now < self.due {
            return;
        }
        self.due = now + self.period;
        self.hear(agent, now);
        if !agent.is_idle(self.client) {
            // The last one is still on its way: this period will be part of the next.
            return;
        }
        let report = agent.report(now);
        self.sequence += 1;
        let Ok(text) = serde_json::to_string(&Report::new(self.sequence, &report)) else { return };
        let mut command = Vec::new();
        request::write_command(&mut command, &["HSET", REPORTS, &self.name, &text]);
        request::write_command(&mut command, &["GET", COPIES]);
        let _ = agent.receive(self.client, &command, now);
    }

    fn hear(&mut self, agent: &mut Agent, now: Duration) {
        let Some(output) = agent.output(self.client) else { return };
        let heard = output.bytes().to_vec();
        output.advance(heard.len());
        let _ = agent.heard(self.client, now);
        let next = |bytes| frame::decode(bytes, &Limits::default()).ok().flatten();
        let Some((reported, taken)) = next(&heard) else { return };
        let refused = reported.error();
        if let Some(error) = refused.filter(|_| !self.warned) {
            warn!("report to the placer rejected by its node: {}", String::from_utf8_lossy(error));
        }
        self.warned = refused.is_some();
        let copies = heard.get(taken..).and_then(next);
        if let Some((copies, _)) = copies.filter(|(copies, _)| copies.error().is_none()) {
            // Nothing there: no placer has chosen any.
            let chosen = String::from_utf8_lossy(copies.payload().unwrap_or_default()).into_owned();
            if chosen != self.chosen {
                agent.copy(&slots_of(&chosen));
                self.chosen = chosen;
            }
        }
    }
}
