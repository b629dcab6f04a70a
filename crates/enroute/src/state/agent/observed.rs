//! What an agent counts, for its admin endpoint.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use endpoint::{Exposition, Latency, Report};
use serde_json::json;
use state::agent::{Agent, Stats};

/// Counters that other threads read.
pub(super) struct Counted {
    stats: Arc<Stats>,
    /// Connected clients at the last measurement of memory.
    pub(super) clients: AtomicUsize,
    start: Instant,
}

impl Counted {
    pub(super) fn new(agent: &Agent) -> Self {
        let stats = Arc::clone(agent.stats());
        Self { stats, clients: AtomicUsize::new(0), start: Instant::now() }
    }

    pub(super) fn report(&self) -> Report {
        let mut text = Exposition::new("enroute_state_agent");
        let uptime = self.start.elapsed().as_secs_f64();
        let clients = self.clients.load(Relaxed);
        let [copy, node] = [&self.stats.copies, &self.stats.nodes].map(|of| Latency(of.spread()));
        text.gauge("uptime_seconds", "Time since the agent started.").value(uptime);
        text.gauge("clients", "Connected clients.").value(clients);
        let help = "From reading a command until its answer from a copy was written, or until the \
                    nodes have answered it.";
        let mut latencies = text.histogram("command_latency_seconds", help);
        for (by, latency) in [("copy", &copy), ("node", &node)] {
            latencies.labelled(&[("answered_by", by)], latency);
        }
        let statistics = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": uptime,
            "agent": {
                "clients": clients,
                "command_latency": { "copy": copy, "node": node },
            },
        });
        Report { statistics, exposition: text }
    }
}
