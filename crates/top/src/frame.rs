//! One frame: what a service did in an interval, as lines of text.

use serde_json::Value;

use crate::change::Change;

/// Number of reasons and keys in a line.
const NAMES_MAX: usize = 5;

/// The lines for the service at `address`; `None` if these are not the statistics of a service.
pub(super) fn lines(address: &str, change: &Change<'_>) -> Option<Vec<String>> {
    let has = |name: &str| change.now.get(name).is_some();
    let (service, rows) = match () {
        () if has("reads") => ("cache", cache(change)),
        () if has("commands") => ("db", database(change)),
        () if has("edge") => ("edge", edge(change)),
        () if has("operations") => ("keyserver", keyserver(change)),
        () if has("agent") => ("agent", agent(change)),
        () if has("placer") => ("placer", placer(change)),
        () => return None,
    };
    let version = change.now["version"].as_str()?;
    let when = if change.is_first() { "since the start" } else { "last interval" };
    let mut lines = vec![format!("{service} {address}, version {version}, {when}")];
    lines.extend(rows.into_iter().map(|(name, text)| format!("  {name:<10}{text}")));
    Some(lines)
}

type Rows = Vec<(&'static str, String)>;

fn cache(change: &Change<'_>) -> Rows {
    let (hits, misses) = ("/reads/hits", "/reads/misses");
    let ratio = |of: &dyn Fn(&str) -> f64| percent(of(hits) / (of(hits) + of(misses)));
    let latency =
        |path: &str, reads: f64| format!("{:>10}/s   {}", count(reads), percentiles(change, path));
    let writes = ["key", "collection", "database", "everything"]
        .map(|scope| change.rate(&format!("/writes/{scope}")));
    let mut rows = vec![
        (
            "reads",
            format!(
                "{:>10}/s   hit ratio {} (since the start {})",
                count(change.rate(hits) + change.rate(misses)),
                ratio(&|path| change.gain(path)),
                ratio(&|path| change.value(path)),
            ),
        ),
        ("hits", latency("/reads/hit_latency", change.rate(hits))),
        ("misses", latency("/reads/miss_latency", change.rate(misses))),
        ("writes", format!("{:>10}/s", count(writes.iter().sum()))),
        ("why not", listed(change.shares("/reads/why_not").into_iter())),
        ("hot keys", listed(hot_keys(change.now))),
        (
            "memory",
            format!(
                "{} of {}, {} items, {} evictions/s",
                bytes(change.value("/storage/accounted_bytes")),
                bytes(change.value("/storage/bytes_max")),
                count(change.value("/storage/items")),
                count(change.rate("/storage/evictions")),
            ),
        ),
    ];
    rows.extend(forecast(change.now).map(|forecast| ("forecast", forecast)));
    let listeners = change.now["listeners"].as_array();
    rows.extend(listeners.into_iter().flatten().map(|listener| {
        let text = |name: &str| listener[name].as_str().unwrap_or_default().to_owned();
        let listener = format!(
            "{}, {}://{} -> {}, {} connections",
            seconds(listener["staleness_bound_seconds"].as_f64()),
            text("protocol"),
            text("listen"),
            text("origin"),
            listener["connections"],
        );
        ("bound", listener)
    }));
    rows.extend(listeners.into_iter().flatten().filter_map(|listener| {
        let share = listener.get("share")?;
        let size = |name: &str| bytes(share[name].as_f64().unwrap_or(f64::NAN));
        let rate = |name: &str| share[name].as_f64().unwrap_or(f64::NAN);
        let text = format!(
            "{} ({} to {}), {}/s hits, a MiB more +{:.2}/s, less -{:.2}/s: {}, {}",
            size("bytes"),
            size("floor_bytes"),
            size("ceiling_bytes"),
            count(rate("hits_per_second")),
            rate("gain_per_mebibyte"),
            rate("loss_per_mebibyte"),
            share["why"].as_str()?,
            listener["listen"].as_str()?,
        );
        Some(("share", text))
    }));
    rows
}

/// What caching would have answered since the start, if the cache only observes.
fn forecast(stats: &Value) -> Option<String> {
    let sizes = stats.pointer("/forecast/sizes")?.as_array()?;
    // The size of the configuration is in the middle.
    let around = sizes.iter().skip((sizes.len() / 2).saturating_sub(1)).take(3);
    let ratio = |size: &Value| {
        let [memory, ratio] = ["memory_bytes", "hit_ratio"].map(|name| size[name].as_f64());
        Some(format!("{} with {}", percent(ratio?), bytes(memory?)))
    };
    Some(format!("hit ratio {}", around.filter_map(ratio).collect::<Vec<_>>().join(", ")))
}

fn hot_keys(stats: &Value) -> impl Iterator<Item = (&str, f64)> {
    let keys = stats.pointer("/reads/hot_keys").and_then(Value::as_array);
    keys.into_iter()
        .flatten()
        .filter_map(|key| Some((key["key"].as_str()?, key["share"].as_f64()?)))
}

fn percentiles(change: &Change<'_>, path: &str) -> String {
    let [p50, p99] = [0.5, 0.99].map(|share| seconds(change.latency(path, share)));
    format!("p50 {p50:>8}   p99 {p99:>8}")
}

/// The number of requests per second in the latency at `path`, and its percentiles.
fn timed(change: &Change<'_>, path: &str) -> String {
    let rate = change.rate(&format!("{path}/count"));
    format!("{:>10}/s   {}", count(rate), percentiles(change, path))
}

fn keyserver(change: &Change<'_>) -> Rows {
    let operation = |method: &str| timed(change, &format!("/operations/{method}"));
    vec![
        ("TLS 1.3", operation("CertificateVerify")),
        ("TLS 1.2", operation("ECDHE")),
        ("decrypted", operation("RSA")),
        ("refused", operation("refused")),
        (
            "keys",
            format!(
                "{} in memory, {} fetched/s",
                count(change.value("/keys/parsed")),
                count(change.rate("/keys/misses")),
            ),
        ),
    ]
}

fn agent(change: &Change<'_>) -> Rows {
    vec![
        ("copies", timed(change, "/agent/command_latency/copy")),
        ("nodes", timed(change, "/agent/command_latency/node")),
        ("clients", count(change.value("/agent/clients"))),
    ]
}

fn placer(change: &Change<'_>) -> Rows {
    let leads = change.now.pointer("/placer/leads").and_then(Value::as_bool);
    vec![
        ("leads", if leads == Some(true) { "yes" } else { "no" }.to_owned()),
        ("moved", timed(change, "/placer/move_duration/moved")),
        ("not moved", timed(change, "/placer/move_duration/not_moved")),
    ]
}

fn database(change: &Change<'_>) -> Rows {
    let (commands, waits) = ("/commands", "/disk_waits");
    let in_memory = |of: &dyn Fn(&str) -> f64| percent(1.0 - of(waits) / of(commands));
    vec![
        (
            "commands",
            format!(
                "{:>10}/s   without waiting for the disk {} (since the start {})",
                count(change.rate(commands)),
                in_memory(&|path| change.gain(path)),
                in_memory(&|path| change.value(path)),
            ),
        ),
        ("prompt", timed(change, "/command_latency/nothing")),
        ("disk", timed(change, "/command_latency/disk")),
        (
            "entries",
            format!(
                "{}, {} of them in memory",
                count(change.value("/entries")),
                percent(change.value("/entries_in_memory") / change.value("/entries")),
            ),
        ),
        (
            "memory",
            format!(
                "{} of {}, files {}, {} clients",
                bytes(change.value("/resident_bytes")),
                bytes(change.value("/memory_bytes")),
                bytes(change.value("/file_bytes")),
                count(change.value("/clients")),
            ),
        ),
    ]
}

fn edge(change: &Change<'_>) -> Rows {
    let hits = |of: &dyn Fn(&str) -> f64| {
        percent((of("/edge/hits") + of("/edge/hits_stale")) / of("/edge/requests"))
    };
    let rates = |names: &[&str]| -> String {
        let rate = |name: &&str| {
            format!("{} {}/s", name.replace('_', " "), count(change.rate(&format!("/edge/{name}"))))
        };
        names.iter().map(rate).collect::<Vec<_>>().join(", ")
    };
    vec![
        (
            "requests",
            format!(
                "{:>10}/s   hit ratio {} (since the start {})",
                count(change.rate("/edge/requests")),
                hits(&|path| change.gain(path)),
                hits(&|path| change.value(path)),
            ),
        ),
        ("hits", timed(change, "/edge/hit_latency")),
        ("origins", timed(change, "/edge/origin_latency")),
        ("keys", timed(change, "/edge/key_server_latency")),
        ("why not", rates(&["misses", "revalidations", "passed", "coalesced", "origin_failures"])),
        ("TLS", rates(&["handshakes_full", "handshakes_resumed", "handshakes_failed"])),
        (
            "memory",
            format!(
                "{} of {}, {} items, {} connections",
                bytes(change.value("/content/accounted_bytes")),
                bytes(change.value("/content/bytes_max")),
                count(change.value("/content/items")),
                count(change.value("/edge/connections")),
            ),
        ),
    ]
}

fn listed<'a>(shares: impl Iterator<Item = (&'a str, f64)>) -> String {
    let shares: Vec<_> =
        shares.take(NAMES_MAX).map(|(name, share)| format!("{name} {}", percent(share))).collect();
    if shares.is_empty() { "-".to_owned() } else { shares.join(", ") }
}

fn count(number: f64) -> String {
    if number.is_finite() { format!("{number:.0}") } else { "-".to_owned() }
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "-".to_owned() }
}

fn seconds(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(time) if time < 1e-3 => format!("{:.1} µs", time * 1e6),
        Some(time) if time < 1.0 => format!("{:.2} ms", time * 1e3),
        Some(time) => format!("{time:.1} s"),
    }
}

fn bytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}
