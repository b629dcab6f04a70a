//! The edge as the admin endpoint shows it.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::Shared;
use crate::{
    admin::{Observed, Room},
    certificate::Life,
};

impl Observed for Shared {
    fn page(&self) -> &'static str {
        "<!doctype html><title>enroute edge</title><h1>enroute edge</h1>\
         <p><a href=stats>statistics</a>, <a href=metrics>metrics</a>\n"
    }

    fn is_draining(&self) -> bool {
        self.is_ending()
    }

    fn statistics(&self) -> Value {
        let sizes = self.content.sizes();
        let mut counters: Map<String, Value> = self
            .stats
            .all()
            .into_iter()
            .map(|(name, _, count)| (name.into(), count.into()))
            .collect();
        counters.insert("connections".into(), self.connections().into());
        counters.insert("ended_for_room".into(), self.room.ended.value().into());
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

    fn exposition(&self) -> String {
        let sizes = self.content.sizes();
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP enroute_edge_{name} {help}");
            let _ = writeln!(text, "# TYPE enroute_edge_{name} {kind}");
            let _ = writeln!(text, "enroute_edge_{name} {value}");
        };
        for (name, help, value) in self.stats.all() {
            metric(&format!("{name}_total"), "counter", help, value);
        }
        metric("connections", "gauge", "Clients being served.", self.connections() as u64);
        metric(
            "ended_for_room_total",
            "counter",
            "Connections closed because they had the most data in transit.",
            self.room.ended.value(),
        );
        let on_its_way = self.room.clients().bytes() as u64;
        metric(
            "on_its_way_bytes",
            "gauge",
            "Memory of requests and responses in transit.",
            on_its_way,
        );
        metric("content_items", "gauge", "Records of content held in memory.", sizes.items as u64);
        metric("content_bytes", "gauge", "Memory accounted to content.", sizes.bytes as u64);
        metric("content_limit_bytes", "gauge", "Memory limit of content.", sizes.bytes_max as u64);
        metric("content_evictions_total", "counter", "Records that were evicted.", sizes.evictions);
        // As other exporters have it: what is left is this less `time()`.
        let name = "enroute_edge_certificate_not_after_seconds";
        let _ = writeln!(text, "# HELP {name} Until when a certificate is good, since 1970.");
        let _ = writeln!(text, "# TYPE {name} gauge");
        for Life { name: of, ends, .. } in self.certificates.lives() {
            let _ = writeln!(text, "{name}{{certificate=\"{of}\"}} {}", ends.as_secs());
        }
        text
    }

    fn flush(&self) -> bool {
        self.content.clear();
        true
    }

    fn resize(&self, wanted: Room) -> Room {
        if let Some(bytes_max) = wanted.bytes_max {
            self.content.resize(bytes_max);
        }
        Room { items_max: None, bytes_max: Some(self.content.sizes().bytes_max) }
    }
}
