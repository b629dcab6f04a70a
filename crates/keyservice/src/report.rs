//! What the key server counts, as metrics and as JSON.

use std::time::Instant;

use endpoint::{Exposition, Latency, Report};
use serde_json::{Map, Value, json};
use telemetry::{Latencies, SharedCounter};
use wire::ski::Method;

use super::service::Service;

/// Latencies of requests: from their last byte until the answer is made and its line is in the
/// audit log.
#[derive(Debug, Default)]
pub(super) struct Times {
    done: [Latencies<SharedCounter>; Method::ALL.len()],
    refused: Latencies<SharedCounter>,
}

impl Times {
    /// Counts a request: its method, if the operation was done.
    pub(super) fn note(&self, done: Option<Method>, began: Instant) {
        let of = |method: &Method| Method::ALL.iter().position(|one| one == method);
        let done = done.as_ref().and_then(of).and_then(|place| self.done.get(place));
        done.unwrap_or(&self.refused).record(began.elapsed(), 1);
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, Latency)> {
        let done = Method::ALL.iter().zip(&self.done);
        let done = done.map(|(method, latencies)| (method.name(), latencies));
        let all = done.chain([("refused", &self.refused)]);
        all.map(|(name, latencies)| (name, Latency(latencies.spread())))
    }
}

impl Service {
    /// What it has counted since its start.
    pub fn report(&self) -> Report {
        let mut text = Exposition::new("enroute_keyserver");
        let uptime = self.uptime().as_secs_f64();
        text.gauge("uptime_seconds", "Time since the key server started serving.").value(uptime);
        let help = "From the last byte of a request until its answer is made and its line is in the \
                    audit log, by method of the operation; refusals of any method are `refused`.";
        let mut latencies = text.histogram("operation_latency_seconds", help);
        let mut operations = Map::new();
        for (method, latency) in self.times().all() {
            latencies.labelled(&[("method", method)], &latency);
            operations.insert(method.to_owned(), json!(latency));
        }
        let (keys, parsed) = self.cache_stats();
        let lines = self.log().chain().count;
        text.counter("key_hits", "Requests whose key was in memory.").value(keys.hits);
        text.counter("key_misses", "Requests whose key was fetched.").value(keys.misses);
        text.counter("key_evictions", "Keys dropped for others.").value(keys.evictions);
        text.gauge("keys", "Keys in memory.").value(parsed);
        text.gauge("audit_lines", "Lines of the audit log, those of earlier runs included.")
            .value(lines);
        let statistics = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": uptime,
            "operations": Value::Object(operations),
            "keys": {
                "parsed": parsed,
                "hits": keys.hits,
                "misses": keys.misses,
                "evictions": keys.evictions,
            },
            "audit_lines": lines,
        });
        Report { statistics, exposition: text }
    }
}
