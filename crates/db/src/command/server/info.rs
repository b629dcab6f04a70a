//! INFO.

use std::{collections::BTreeSet, fmt::Write, sync::atomic::Ordering::Relaxed};

use super::super::connection::hello::REDIS_VERSION;
use crate::{
    call::Call, failure::Failure, keyspace::DATABASES, outcome::Outcome, parameters::sync_name,
};

/// Writes one section.
type Section = fn(&mut Call<'_, '_>, &mut String);

const SECTIONS: [(&str, Section); 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", |_, text| text.push_str("cluster_enabled:0\r\n")),
    ("Keyspace", keyspace),
];

pub(crate) fn info(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.keys.load_counts()?;
    if let Some(pending) = call.keys.pending() {
        return Ok(pending);
    }
    let wanted: Vec<String> = call.args[1..]
        .iter()
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect();
    let all = wanted.is_empty()
        || wanted.iter().any(|name| matches!(name.as_str(), "all" | "default" | "everything"));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if all || wanted.contains(&name.to_ascii_lowercase()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            write(call, &mut text);
        }
    }
    call.reply.verbatim(&text);
    Ok(Outcome::Done)
}

fn lines(text: &mut String, pairs: &[(&str, String)]) {
    for (name, value) in pairs {
        let _ = write!(text, "{name}:{value}\r\n");
    }
}

fn server(call: &mut Call<'_, '_>, text: &mut String) {
    let server = call.server;
    let uptime = call.now().saturating_sub(server.began).as_secs();
    lines(
        text,
        &[
            ("redis_version", REDIS_VERSION.into()),
            ("server_name", "enroute".into()),
            ("enroute_version", env!("CARGO_PKG_VERSION").into()),
            ("redis_mode", "standalone".into()),
            ("os", "Linux".into()),
            ("arch_bits", usize::BITS.to_string()),
            ("process_id", server.host.process_id().to_string()),
            ("run_id", server.run_id.clone()),
            ("tcp_port", server.host.port().to_string()),
            ("server_time_usec", call.now().as_micros().to_string()),
            ("uptime_in_seconds", uptime.to_string()),
            ("uptime_in_days", (uptime / 86_400).to_string()),
        ],
    );
}

fn clients(call: &mut Call<'_, '_>, text: &mut String) {
    let all = call.server.clients.all();
    let tracking = all.iter().filter(|client| client.tracking.load(Relaxed)).count();
    let waiting = all.iter().filter(|client| !client.is_ready()).count();
    lines(
        text,
        &[
            ("connected_clients", all.len().to_string()),
            ("maxclients", call.server.parameters.clients_max.load(Relaxed).to_string()),
            ("blocked_clients", waiting.to_string()),
            ("tracking_clients", tracking.to_string()),
        ],
    );
}

fn memory(call: &mut Call<'_, '_>, text: &mut String) {
    let resident = call.server.host.resident_bytes();
    let budget = call.server.parameters.memory_bytes.load(Relaxed);
    let human = |bytes: u64| format!("{:.2}M", bytes as f64 / f64::from(1 << 20));
    lines(
        text,
        &[
            ("used_memory", resident.to_string()),
            ("used_memory_human", human(resident)),
            ("used_memory_rss", resident.to_string()),
            ("used_memory_rss_human", human(resident)),
            ("maxmemory", budget.to_string()),
            ("maxmemory_human", human(budget)),
            ("mem_not_counted_for_evict", "0".into()),
            ("lazyfree_pending_objects", "0".into()),
            ("maxmemory_policy", "noeviction".into()),
        ],
    );
}

fn persistence(call: &mut Call<'_, '_>, text: &mut String) {
    let sync = sync_name(call.server.parameters.sync());
    let changes: u64 = call.keys.held().map(|shard| shard.counters.changes).sum();
    lines(
        text,
        &[
            ("loading", "0".into()),
            ("async_loading", "0".into()),
            // There is no such save: changes since the start.
            ("rdb_changes_since_last_save", changes.to_string()),
            ("rdb_bgsave_in_progress", "0".into()),
            ("aof_enabled", "1".into()),
            ("aof_rewrite_in_progress", "0".into()),
            ("aof_fsync", sync.into()),
        ],
    );
}

fn stats(call: &mut Call<'_, '_>, text: &mut String) {
    let (mut hits, mut misses, mut expired, mut tracked, mut pairs) = (0, 0, 0, 0, 0);
    let mut damages = 0;
    let mut prefixes = BTreeSet::new();
    for shard in call.keys.held() {
        hits += shard.counters.hits;
        misses += shard.counters.misses;
        expired += shard.counters.expired;
        tracked += shard.tracking.keys();
        pairs += shard.tracking.pairs();
        damages += shard.store.stats().damages;
        // Every shard knows all of them.
        prefixes.extend(shard.tracking.prefixes().map(<[u8]>::to_vec));
    }
    let stats = &call.server.stats;
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed).to_string();
    lines(
        text,
        &[
            ("total_connections_received", of(&stats.connections)),
            ("total_commands_processed", of(&stats.commands)),
            ("total_net_input_bytes", of(&stats.input_bytes)),
            ("total_net_output_bytes", of(&stats.output_bytes)),
            ("rejected_connections", of(&stats.rejected)),
            ("expired_keys", expired.to_string()),
            ("evicted_keys", "0".into()),
            ("keyspace_hits", hits.to_string()),
            ("keyspace_misses", misses.to_string()),
            ("total_error_replies", of(&stats.errors)),
            ("disk_waits", of(&stats.waits)),
            ("damages", damages.to_string()),
            ("scan_passed_over", of(&stats.passed_over)),
            ("tracking_total_keys", tracked.to_string()),
            ("tracking_total_items", pairs.to_string()),
            ("tracking_total_prefixes", prefixes.len().to_string()),
        ],
    );
}

fn replication(_: &mut Call<'_, '_>, text: &mut String) {
    lines(text, &[("role", "master".into()), ("connected_slaves", "0".into())]);
}

fn keyspace(call: &mut Call<'_, '_>, text: &mut String) {
    for database in 0..DATABASES {
        let keys = call.keys.len(database);
        if keys > 0 {
            let ending: u64 = call.keys.held().map(|shard| shard.ending(database)).sum();
            let _ = write!(text, "db{database}:keys={keys},expires={ending},avg_ttl=0\r\n");
        }
    }
}
