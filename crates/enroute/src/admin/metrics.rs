//! The statistics of the cache as metrics.

use cache::key::Shown;
use cache::storage::observe::{Forecast, Group};
use endpoint::{Exposition, Samples, Value};

use super::{
    Statistics,
    statistics::{Fills, Listener, Reads, Share, Storage, Writes},
};

/// Everything in `statistics` as metrics.
#[must_use]
pub fn exposition(statistics: &Statistics) -> Exposition {
    let mut text = Exposition::new("enroute");
    text.gauge("build_info", "Always 1; the version is its label.")
        .labelled(&[("version", statistics.version)], 1_u64);
    text.gauge("uptime_seconds", "Time since the cache started serving.")
        .value(statistics.uptime_seconds);
    reads(&mut text, &statistics.reads, &statistics.fills);
    writes(&mut text, &statistics.writes);
    text.counter("refused_frames", "Frames that break the protocol or a limit.")
        .value(statistics.refused_frames);
    let help = "Requests of connections that are not logged in; they touched nothing.";
    text.counter("refused_logins", help).value(statistics.refused_logins);
    storage(&mut text, &statistics.storage);
    listeners(&mut text, &statistics.listeners);
    if let Some(of) = &statistics.forecast {
        forecast(&mut text, of);
    }
    if let Some(bytes) = statistics.process.resident_bytes {
        text.gauge("resident_memory_bytes", "Resident memory of the process.").value(bytes);
    }
    text
}

fn reads(text: &mut Exposition, reads: &Reads, fills: &Fills) {
    text.counter("hits", "Reads answered from storage.").value(reads.hits);
    text.counter("misses", "Reads not answered from storage, by reason.")
        .each("reason", &reads.why_not.0);
    text.counter("coalesced", "Reads that waited for another client's fill.")
        .value(reads.coalesced);
    text.counter("verified", "Hits that were compared with a reply of the origin.")
        .value(reads.verified);
    text.counter("differed", "Compared hits that differed from the reply of the origin.")
        .value(reads.differed);
    for (name, help, latency) in [
        (
            "hit_latency_seconds",
            "From reading a request until its answer from storage was written.",
            &reads.hit_latency,
        ),
        (
            "miss_latency_seconds",
            "From forwarding a read by key until its reply has arrived.",
            &reads.miss_latency,
        ),
    ] {
        text.histogram(name, help).value(latency);
    }
    text.counter("fills", "Replies of missed reads that were stored.").value(fills.filled);
    text.counter("not_filled", "Replies of missed reads that were not stored, by reason.")
        .each("reason", &fills.not_filled.0);
}

fn writes(text: &mut Exposition, writes: &Writes) {
    let by_scope = [
        ("key", writes.key),
        ("collection", writes.collection),
        ("database", writes.database),
        ("everything", writes.everything),
    ];
    text.counter("writes", "Writes, by the scope that they can affect.").each("scope", &by_scope);
    let help = "Writes that the origin refused: nothing was invalidated.";
    text.counter("writes_refused", help).value(writes.refused);
    text.counter("writes_lost", "Writes whose reply was lost.").value(writes.lost);
    let help = "Keys, or wider scopes, that feeds have reported as written.";
    text.counter("writes_reported", help).value(writes.reported);
}

fn storage(text: &mut Exposition, storage: &Storage) {
    text.gauge("items", "Items held.").value(storage.items);
    let limit =
        text.gauge("items_limit", "Maximum number of items; +Inf if only memory limits it.");
    match storage.items_max {
        Some(items) => limit.value(items),
        None => limit.value(f64::INFINITY),
    }
    text.gauge("memory_accounted_bytes", "Memory accounted against the limit.")
        .value(storage.accounted_bytes);
    text.gauge("memory_live_bytes", "Memory of live items.").value(storage.live_bytes);
    text.gauge("memory_index_bytes", "Memory of the index.").value(storage.index_bytes);
    text.gauge("memory_policy_bytes", "Memory of the replacement policy.")
        .value(storage.policy_bytes);
    text.gauge("memory_limit_bytes", "Memory limit.").value(storage.bytes_max);
    text.counter("evictions", "Items that were evicted.").value(storage.evictions);
    text.counter("expirations", "Items that expired.").value(storage.expirations);
    text.counter("removals", "Items dropped by a write or a flush.").value(storage.removals);
}

fn listeners(text: &mut Exposition, listeners: &[Listener]) {
    let each = |mut samples: Samples<'_>, value: fn(&Listener) -> Value| {
        for listener in listeners {
            samples.labelled(&labels(listener), value(listener));
        }
    };
    each(text.gauge("connections", "Connected clients."), |listener| listener.connections.into());
    let limit = text.gauge("connections_limit", "Maximum number of connected clients.");
    each(limit, |listener| listener.connections_max.into());
    let failures = text.counter("origin_connect_failures", "Failed connections to the origin.");
    each(failures, |listener| listener.origin_connect_failures.into());
    let help = "Longest time for which a write that bypasses the cache can stay unseen.";
    each(text.gauge("staleness_bound_seconds", help), |listener| {
        listener.staleness_bound_seconds.into()
    });
    for (name, help, value) in [
        (
            "share_bytes",
            "Memory of its origin.",
            (|share| share.bytes.into()) as fn(&Share) -> Value,
        ),
        ("share_floor_bytes", "The smallest share.", |share| share.floor_bytes.into()),
        ("share_ceiling_bytes", "The largest share.", |share| share.ceiling_bytes.into()),
        ("share_accounted_bytes", "What the origin holds.", |share| share.accounted_bytes.into()),
        ("share_gain", "Hits per second that each MiB more would bring.", |share| {
            share.gain_per_mebibyte.into()
        }),
    ] {
        let mut samples = text.gauge(name, help);
        for listener in listeners {
            if let Some(share) = &listener.share {
                samples.labelled(&labels(listener), value(share));
            }
        }
    }
}

fn labels(listener: &Listener) -> [(&'static str, &str); 3] {
    [("listener", &listener.listen), ("protocol", listener.protocol), ("origin", &listener.origin)]
}

fn forecast(text: &mut Exposition, forecast: &Forecast) {
    let help = "Share of all reads that storage of this size would have answered.";
    let mut ratios = text.gauge("forecast_hit_ratio", help);
    for size in &forecast.sizes {
        let memory = size.memory_bytes.to_string();
        ratios.labelled(&[("memory_bytes", &memory)], size.hit_ratio);
    }
    for (name, help, value) in [
        ("forecast_reads", "Observed reads by key.", (|of| of.reads) as fn(&Group) -> f64),
        ("forecast_hits", "Those that storage would have answered.", |of| of.hits),
        ("forecast_hit_bytes", "Bytes of these answers.", |of| of.bytes),
    ] {
        let mut samples = text.gauge(name, help);
        for group in &forecast.groups {
            let prefix = Shown(&group.prefix).to_string();
            samples.labelled(&[("command", group.command), ("prefix", &prefix)], value(group));
        }
    }
}
