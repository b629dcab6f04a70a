//! What a placer counts, for its admin endpoint.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Instant,
};

use endpoint::{Exposition, Latency, Report};
use serde_json::json;
use telemetry::Latencies;

/// Counters that other threads read.
pub(super) struct Counted {
    /// Durations of the moves that succeeded, and of those that did not.
    pub(super) moved: Latencies,
    pub(super) not_moved: Latencies,
    /// It holds the lease.
    pub(super) leads: AtomicBool,
    start: Instant,
}

impl Counted {
    pub(super) fn new() -> Self {
        Self {
            moved: Latencies::default(),
            not_moved: Latencies::default(),
            leads: AtomicBool::new(false),
            start: Instant::now(),
        }
    }

    pub(super) fn report(&self) -> Report {
        let mut text = Exposition::new("enroute_state_placer");
        let uptime = self.start.elapsed().as_secs_f64();
        let leads = self.leads.load(Relaxed);
        let [moved, not_moved] = [&self.moved, &self.not_moved].map(|of| Latency(of.spread()));
        text.gauge("uptime_seconds", "Time since the placer started.").value(uptime);
        text.gauge("leads", "1 if the placer holds the lease; others wait.")
            .value(u64::from(leads));
        let help = "From the begin of a slot move until it ended; moves that a restart resumes are not counted.";
        let mut durations = text.histogram("move_duration_seconds", help);
        for (outcome, duration) in [("moved", &moved), ("not_moved", &not_moved)] {
            durations.labelled(&[("outcome", outcome)], duration);
        }
        let statistics = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": uptime,
            "placer": {
                "leads": leads,
                "move_duration": { "moved": moved, "not_moved": not_moved },
            },
        });
        Report { statistics, exposition: text }
    }
}
