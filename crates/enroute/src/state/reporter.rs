//! Leaves an agent's reports in the cluster, and finds there which slots are to be copied: as one
//! more client of the agent, so that reports use the same path as other commands.

use std::{net::SocketAddr, time::Duration};

use state::agent::Agent;
use tracing::warn;
use wire::resp::{Limits, Pipeline, Reply};

use super::report::{COPIES, REPORTS, Report, slots_of};

/// Commands of one report.
const OUTSTANDING_MAX: usize = 2;

pub(super) struct Reporter {
    /// Its place among the agent's clients.
    client: usize,
    name: String,
    period: Duration,
    due: Duration,
    sequence: u64,
    warned: bool,
    pipeline: Pipeline,
    /// Last known list of slots to copy.
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
        // A restart must not look like an unchanged report.
        let sequence = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let (name, chosen) = (name.to_owned(), String::new());
        let never = period.is_zero();
        if never {
            agent.blind();
        }
        let due = if never { Duration::MAX } else { period };
        let pipeline = Pipeline::new(OUTSTANDING_MAX, &Limits::default());
        Self { client, name, period, due, sequence, warned: false, pipeline, chosen }
    }

    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Reads the reply to the last report, and sends the next when it is due.
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
        let queued = self
            .pipeline
            .command(&["HSET", REPORTS, &self.name, &text])
            .and_then(|()| self.pipeline.command(&["GET", COPIES]));
        if queued.is_ok() {
            let _ = agent.receive(self.client, &self.pipeline.take_output(), now);
        }
    }

    fn hear(&mut self, agent: &mut Agent, now: Duration) {
        let Some(output) = agent.output(self.client) else { return };
        self.pipeline.room(output.bytes().len()).extend_from_slice(output.bytes());
        output.advance(output.bytes().len());
        let _ = agent.heard(self.client, now);
        while let Ok(Some(reply)) = self.pipeline.reply() {
            if self.pipeline.outstanding() > 0 {
                self.reported(&reply);
            } else {
                self.choose(agent, reply);
            }
        }
    }

    fn reported(&mut self, reply: &Reply) {
        let refused = matches!(reply, Reply::Error(_));
        if let Reply::Error(error) = reply
            && !self.warned
        {
            warn!("report to the placer rejected by its node: {error}");
        }
        self.warned = refused;
    }

    /// What to keep copies of.
    fn choose(&mut self, agent: &mut Agent, reply: Reply) {
        let chosen = match reply {
            Reply::Error(_) => return,
            // Nothing there: no placer has chosen any.
            reply => reply.text().unwrap_or_default(),
        };
        if chosen != self.chosen {
            agent.copy(&slots_of(&chosen));
            self.chosen = chosen;
        }
    }
}
