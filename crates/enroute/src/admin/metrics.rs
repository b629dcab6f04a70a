//! The statistics as Prometheus reads them: text exposition format 0.0.4.

use std::fmt::{Display, Write};

use super::{Statistics, statistics::Listener};

/// Everything in `statistics` as metrics.
#[must_use]
pub fn exposition(statistics: &Statistics) -> String {
    let Statistics { reads, fills, writes, storage, listeners, process, .. } = statistics;
    let mut text = Text::default();
    text.gauge("build_info", "Always 1; the version is its label.");
    text.labelled(&[("version", statistics.version)], 1);
    text.gauge("uptime_seconds", "Time since the cache started serving.");
    text.plain(statistics.uptime_seconds);

    text.counter("hits_total", "Reads answered from storage.");
    text.plain(reads.hits);
    text.counter("misses_total", "Reads not answered from storage, by reason.");
    text.each("reason", &reads.why_not.0);
    text.counter("coalesced_total", "Reads that waited for another client's fill.");
    text.plain(reads.coalesced);
    text.counter("fills_total", "Replies of missed reads that were stored.");
    text.plain(fills.filled);
    text.counter("not_filled_total", "Replies of missed reads that were not stored, by reason.");
    text.each("reason", &fills.not_filled.0);
    text.counter("writes_total", "Writes, by the scope that they can affect.");
    text.each(
        "scope",
        &[
            ("key", writes.key),
            ("collection", writes.collection),
            ("database", writes.database),
            ("everything", writes.everything),
        ],
    );
    text.counter(
        "writes_refused_total",
        "Writes that the origin refused: nothing was invalidated.",
    );
    text.plain(writes.refused);
    text.counter("writes_lost_total", "Writes whose reply was lost.");
    text.plain(writes.lost);
    text.counter("refused_frames_total", "Frames that break the protocol or a limit.");
    text.plain(statistics.refused_frames);
    text.counter(
        "refused_logins_total",
        "Requests of connections that are not logged in; they touched nothing.",
    );
    text.plain(statistics.refused_logins);

    text.gauge("items", "Items held.");
    text.plain(storage.items);
    text.gauge("items_limit", "Maximum number of items; +Inf if only memory limits it.");
    match storage.items_max {
        Some(limit) => text.plain(limit),
        None => text.plain("+Inf"),
    }
    text.gauge("memory_accounted_bytes", "Memory accounted against the limit.");
    text.plain(storage.accounted_bytes);
    text.gauge("memory_live_bytes", "Memory of live items.");
    text.plain(storage.live_bytes);
    text.gauge("memory_index_bytes", "Memory of the index.");
    text.plain(storage.index_bytes);
    text.gauge("memory_policy_bytes", "Memory of the replacement policy.");
    text.plain(storage.policy_bytes);
    text.gauge("memory_limit_bytes", "Memory limit.");
    text.plain(storage.bytes_max);
    text.counter("evictions_total", "Items that were evicted.");
    text.plain(storage.evictions);
    text.counter("expirations_total", "Items that expired.");
    text.plain(storage.expirations);
    text.counter("removals_total", "Items dropped by a write or a flush.");
    text.plain(storage.removals);

    text.gauge("connections", "Connected clients.");
    text.each_listener(listeners, |listener| listener.connections as u64);
    text.gauge("connections_limit", "Maximum number of connected clients.");
    text.each_listener(listeners, |listener| listener.connections_max as u64);
    text.counter("origin_connect_failures_total", "Failed connections to the origin.");
    text.each_listener(listeners, |listener| listener.origin_connect_failures);
    if let Some(bytes) = process.resident_bytes {
        text.gauge("resident_memory_bytes", "Resident memory of the process.");
        text.plain(bytes);
    }
    text.0
}

/// Metrics being written; every sample belongs to the metric begun last.
#[derive(Default)]
struct Text(String, &'static str);

impl Text {
    fn counter(&mut self, name: &'static str, help: &str) {
        self.begin(name, help, "counter");
    }

    fn gauge(&mut self, name: &'static str, help: &str) {
        self.begin(name, help, "gauge");
    }

    fn begin(&mut self, name: &'static str, help: &str, kind: &str) {
        self.1 = name;
        self.line(format_args!("# HELP enroute_{name} {help}"));
        self.line(format_args!("# TYPE enroute_{name} {kind}"));
    }

    fn plain(&mut self, value: impl Display) {
        let name = self.1;
        self.line(format_args!("enroute_{name} {value}"));
    }

    fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let escape =
            |value: &str| value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let (name, labels) = (self.1, labels.join(","));
        self.line(format_args!("enroute_{name}{{{labels}}} {value}"));
    }

    fn each(&mut self, label: &str, counts: &[(&'static str, u64)]) {
        for (name, count) in counts {
            self.labelled(&[(label, name)], count);
        }
    }

    fn each_listener(&mut self, listeners: &[Listener], value: impl Fn(&Listener) -> u64) {
        for listener in listeners {
            let labels = [
                ("listener", listener.listen.as_str()),
                ("protocol", listener.protocol),
                ("origin", listener.origin.as_str()),
            ];
            self.labelled(&labels, value(listener));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}
