//! What a placer counts, for its admin endpoint.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Instant,
};

use endpoint::{Exposition, Latency, Report};
use serde_json::json;
use telemetry::{Counter, Latencies};

/// Counters that other threads read.
pub(super) struct Counted {
    /// Durations of the moves that succeeded, and of those that did not.
    pub(super) moved: Latencies,
    pub(super) not_moved: Latencies,
    /// Reviews made.
    pub(super) reviews: Counter,
    /// It held the lease in the last review.
    pub(super) leads: AtomicBool,
    start: Instant,
}

impl Counted {
    pub(super) fn new() -> Self {
        Self {
            moved: Latencies::default(),
            not_moved: Latencies::default(),
            reviews: Counter::default(),
            leads: AtomicBool::new(false),
            start: Instant::now(),
        }
    }

    pub(super) fn report(&self) -> Report {
        let mut text = Exposition::new("enroute_state_placer");
        let uptime = self.start.elapsed().as_secs_f64();
        let (leads, reviews) = (self.leads.load(Relaxed), self.reviews.value());
        let [moved, not_moved] = [&self.moved, &self.not_moved].map(|of| Latency(of.spread()));
        text.gauge("uptime_seconds", "Time since the placer started.").value(uptime);
        text.gauge("leads", "1 if the placer holds the lease; others wait.")
            .value(u64::from(leads));
        text.counter("reviews", "Placement reviews, those of a placer that waits included.")
            .value(reviews);
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
                "reviews": reviews,
                "move_duration": { "moved": moved, "not_moved": not_moved },
            },
        });
        Report { statistics, exposition: text }
    }
}
