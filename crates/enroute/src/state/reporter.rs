//! Leaves an agent's reports in the cluster: as one more client of the agent, so that they take the
//! way everything takes.

use std::{net::SocketAddr, time::Duration};

use state::agent::Agent;
use tracing::warn;
use wire::resp::request;

use super::report::{REPORTS, Report};

pub(super) struct Reporter {
    /// Its place among the agent's clients.
    client: usize,
    name: String,
    period: Duration,
    due: Duration,
    sequence: u64,
    warned: bool,
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
        Self { client, name: name.to_owned(), period, due: period, sequence, warned: false }
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
        let _ = agent.receive(self.client, &command, now);
    }

    fn hear(&mut self, agent: &mut Agent, now: Duration) {
        let Some(output) = agent.output(self.client) else { return };
        let refused = output.bytes().starts_with(b"-");
        if refused && !self.warned {
            warn!("a report was not taken: {}", String::from_utf8_lossy(output.bytes()).trim());
        }
        self.warned = refused;
        output.advance(output.bytes().len());
        let _ = agent.heard(self.client, now);
    }
}
