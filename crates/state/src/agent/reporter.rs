//! Stores an agent's reports in the cluster, and reads there which slots are to be copied. It is
//! one more client of the agent, so reports use the same path as other commands.

use std::{net::SocketAddr, time::Duration};

use wire::resp::{Limits, Pipeline, Reply};

use super::Agent;
use crate::report::{COPIES, REPORTS, Report, slots_of};

/// Number of commands of one report.
const OUTSTANDING_MAX: usize = 2;

/// A client of the agent that sends its reports. It acts only when [`advance`] is called, at the
/// time given by [`due`].
///
/// [`advance`]: Self::advance
/// [`due`]: Self::due
#[derive(Debug)]
pub struct Reporter {
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
    /// The reporter of the agent at `address` under this name; it never reports if `period` is
    /// zero. `sequence` is higher than that of any earlier process: a restart must not look like an
    /// unchanged report.
    #[must_use]
    pub fn new(
        agent: &mut Agent,
        address: SocketAddr,
        name: &str,
        period: Duration,
        sequence: u64,
    ) -> Self {
        let client = agent.open(address);
        agent.reports(client);
        let (name, chosen) = (name.to_owned(), String::new());
        let never = period.is_zero();
        if never {
            agent.blind();
        }
        let due = if never { Duration::MAX } else { period };
        let pipeline = Pipeline::new(OUTSTANDING_MAX, &Limits::default());
        Self { client, name, period, due, sequence, warned: false, pipeline, chosen }
    }

    /// When to call [`Reporter::advance`].
    #[must_use]
    pub fn due(&self) -> Duration {
        self.due
    }

    /// Reads the reply to the last report, and sends the next when it is due. Returns the error of
    /// a node that rejects a report, the first time.
    pub fn advance(&mut self, agent: &mut Agent, now: Duration) -> Option<String> {
        if now < self.due {
            return None;
        }
        self.due = now + self.period;
        let rejected = self.hear(agent, now);
        self.report(agent, now);
        rejected
    }

    fn report(&mut self, agent: &mut Agent, now: Duration) {
        if !agent.is_idle(self.client) {
            // The last report is still outstanding: this period will be part of the next report.
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

    fn hear(&mut self, agent: &mut Agent, now: Duration) -> Option<String> {
        let output = agent.output(self.client)?;
        self.pipeline.room(output.bytes().len()).extend_from_slice(output.bytes());
        output.advance(output.bytes().len());
        let _ = agent.heard(self.client, now);
        let mut rejected = None;
        while let Ok(Some(reply)) = self.pipeline.reply() {
            if self.pipeline.outstanding() > 0 {
                rejected = self.reported(reply).or(rejected);
            } else {
                self.choose(agent, reply);
            }
        }
        rejected
    }

    fn reported(&mut self, reply: Reply) -> Option<String> {
        let refusal = if let Reply::Error(error) = reply { Some(error) } else { None };
        let warned = std::mem::replace(&mut self.warned, refusal.is_some());
        refusal.filter(|_| !warned)
    }

    /// Applies the list of slots to copy.
    fn choose(&mut self, agent: &mut Agent, reply: Reply) {
        let chosen = match reply {
            Reply::Error(_) => return,
            // Empty: no placer has selected any slots.
            reply => reply.text().unwrap_or_default(),
        };
        if chosen != self.chosen {
            agent.copy(&slots_of(&chosen));
            self.chosen = chosen;
        }
    }
}
