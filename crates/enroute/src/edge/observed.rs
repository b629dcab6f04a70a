//! Statistics and settings of the edge at the admin endpoint.

use endpoint::{Exposition, Latency};
use platform::certificate::Life;
use serde_json::{Map, Value, json};

use super::Shared;
use crate::admin::{Observed, Room};

impl Shared {
    /// Name, meaning and value of each latency.
    fn latencies(&self) -> [(&'static str, &'static str, Latency); 3] {
        let Self { stats, key_latency, .. } = self;
        [
            (
                "hit_latency",
                "From receiving the head of a request until its answer was found in storage.",
                &stats.hit_latency,
            ),
            (
                "origin_latency",
                "From asking an origin, its queue included, until the head of its answer or a failure.",
                &stats.origin_latency,
            ),
            (
                "key_server_latency",
                "From asking a key server for an operation until its answer or a failure.",
                key_latency,
            ),
        ]
        .map(|(name, help, latencies)| (name, help, Latency(latencies.spread())))
    }
}

impl Observed for Shared {
    fn page(&self) -> &'static str {
        "<!doctype html><title>enroute edge</title><h1>enroute edge</h1>\
         <p><a href=stats>statistics</a>, <a href=metrics>metrics</a>\n"
    }

    fn is_draining(&self) -> bool {
        self.is_ending()
    }

    fn statistics(&self) -> Value {
        let sizes = self.content.memory().sizes();
        let mut counters: Map<String, Value> = self
            .stats
            .all()
            .into_iter()
            .map(|(name, _, count)| (name.into(), count.into()))
            .collect();
        for (name, _, latency) in self.latencies() {
            counters.insert(name.into(), json!(latency));
        }
        counters.insert("connections".into(), self.connections().into());
        counters.insert("ended_for_room".into(), self.room.ended().into());
        counters.insert("on_its_way_bytes".into(), self.room.clients().bytes().into());
        let lives = self.certificates.lives().into_iter();
        let certificates: Map<String, Value> = lives
            .map(|life| (life.name.clone(), json!({ "days_left": life.days_left() })))
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "edge": counters,
            "certificates": certificates,
            "content": {
                "items": sizes.items,
                "accounted_bytes": sizes.bytes,
                "bytes_max": sizes.bytes_max,
                "evictions": sizes.evictions,
            },
        })
    }

    fn exposition(&self) -> Exposition {
        let sizes = self.content.memory().sizes();
        let mut text = Exposition::new("enroute_edge");
        for (name, help, value) in self.stats.all() {
            text.counter(name, help).value(value);
        }
        for (name, help, latency) in self.latencies() {
            text.histogram(&format!("{name}_seconds"), help).value(&latency);
        }
        text.gauge("connections", "Clients being served.").value(self.connections());
        let help = "Connections closed because they had the most data in transit.";
        text.counter("ended_for_room", help).value(self.room.ended());
        text.gauge("on_its_way_bytes", "Memory of requests and responses in transit.")
            .value(self.room.clients().bytes());
        text.gauge("content_items", "Records of content held in memory.").value(sizes.items);
        text.gauge("content_bytes", "Memory accounted to content.").value(sizes.bytes);
        text.gauge("content_limit_bytes", "Memory limit of content.").value(sizes.bytes_max);
        text.counter("content_evictions", "Records that were evicted.").value(sizes.evictions);
        // As in other exporters, the remaining time is this value minus `time()`.
        let help = "End of the validity of a certificate, in seconds since 1970.";
        let mut ends = text.gauge("certificate_not_after_seconds", help);
        for Life { name, ends: at, .. } in self.certificates.lives() {
            ends.labelled(&[("certificate", &name)], at.as_secs());
        }
        text
    }

    fn flush(&self) -> bool {
        self.content.memory().clear(super::now());
        self.flights.revoke_all();
        true
    }

    fn resize(&self, wanted: Room) -> Result<Room, String> {
        if let Some(bytes_max) = wanted.memory_alone()? {
            self.content.memory().resize(bytes_max);
        }
        Ok(Room { items_max: None, bytes_max: Some(self.content.memory().sizes().bytes_max) })
    }
}
