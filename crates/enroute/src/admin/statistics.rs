//! All statistics of the endpoint, as one value. Its JSON has a stable schema, described in
//! `docs/guide/admin.md`.

use cache::{
    key::Shown,
    stats::{self, NotFilled, WhyNot, busiest::most_read},
    storage::{observe::Forecast, shards},
};
use endpoint::{Latency, losses::Cause};
use platform::memory::resident_bytes;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};
use telemetry::{Counter, Latencies, Spread};

use crate::runtime::{Shards, Shared, StorageLimits};

/// Counters since the start, and current sizes. All sizes are bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// The program's version.
    pub version: &'static str,
    /// Seconds since the cache began to serve.
    pub uptime_seconds: f64,
    /// Reads, summed over all listeners.
    pub reads: Reads,
    /// Replies of missed reads.
    pub fills: Fills,
    /// Writes that passed.
    pub writes: Writes,
    /// Frames refused because they break the protocol or a limit.
    pub refused_frames: u64,
    /// Requests of connections that are not logged in, which the origin refused.
    pub refused_logins: u64,
    /// Statistics of the storage.
    pub storage: Storage,
    /// Every listener, in the order of the configuration.
    pub listeners: Vec<Listener>,
    /// What caching would have answered; absent unless reads are only observed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "forecast")]
    pub forecast: Option<Forecast>,
    /// The process.
    pub process: Process,
}

/// Reads, summed over all listeners.
#[derive(Debug, Clone, Serialize)]
pub struct Reads {
    /// Answered from storage.
    pub hits: u64,
    /// Reads not answered from storage: the sum of `why_not`.
    pub misses: u64,
    /// Waited for another client's fill instead of going to the origin.
    pub coalesced: u64,
    /// Hits that were asked at the origin too and compared; their reason is `verified`.
    pub verified: u64,
    /// The number of these that differed.
    pub differed: u64,
    /// Misses by reason.
    pub why_not: ByReason,
    /// Time from reading a request until its answer from storage was written.
    pub hit_latency: Latency,
    /// Time from forwarding a read by key until its reply has arrived.
    pub miss_latency: Latency,
    /// The keys that are read most, at most ten, most first.
    pub hot_keys: Vec<HotKey>,
}

/// A key that is read often.
#[derive(Debug, Clone, Serialize)]
pub struct HotKey {
    /// Its name, escaped; before it the collection, if the protocol has collections.
    pub key: String,
    /// Share of the reads of the last seconds, at least; from a sample.
    pub share: f64,
}

/// Replies of missed reads.
#[derive(Debug, Clone, Serialize)]
pub struct Fills {
    /// Stored.
    pub filled: u64,
    /// Replies not stored, by reason.
    pub not_filled: ByReason,
}

/// Counts by a reason's name, every reason always present.
#[derive(Debug, Clone)]
pub struct ByReason(pub Vec<(&'static str, u64)>);

impl Serialize for ByReason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, count) in &self.0 {
            map.serialize_entry(name, count)?;
        }
        map.end()
    }
}

/// Writes by the scope that they can affect.
#[derive(Debug, Clone, Serialize)]
pub struct Writes {
    /// Number of writes to one key.
    pub key: u64,
    /// A collection.
    pub collection: u64,
    /// A database.
    pub database: u64,
    /// Everything of an origin.
    pub everything: u64,
    /// The number of these that the origin refused: nothing was invalidated.
    pub refused: u64,
    /// The number of these whose reply was lost.
    pub lost: u64,
    /// Keys, or wider scopes, that feeds have reported as written.
    pub reported: u64,
}

/// Statistics of the storage.
#[derive(Debug, Clone, Serialize)]
pub struct Storage {
    /// Items held.
    pub items: usize,
    /// Maximum number of items; absent (`null`) if memory is the only limit.
    pub items_max: Option<usize>,
    /// Bytes accounted against `bytes_max`: items, index, policy, unused space.
    pub accounted_bytes: usize,
    /// The part of them that is live items.
    pub live_bytes: usize,
    /// The part of them that is the index.
    pub index_bytes: usize,
    /// The part of them that is the replacement policy's.
    pub policy_bytes: usize,
    /// Memory limit, in bytes.
    pub bytes_max: usize,
    /// Items evicted.
    pub evictions: u64,
    /// Items expired.
    pub expirations: u64,
    /// Items invalidated by a write or a flush.
    pub removals: u64,
}

/// One listener.
#[derive(Debug, Clone, Serialize)]
pub struct Listener {
    /// Protocol: `mongodb`, `redis` or `memcached`.
    pub protocol: &'static str,
    /// Address where clients connect.
    pub listen: String,
    /// The origin database of the listener.
    pub origin: String,
    /// Clients being served.
    pub connections: usize,
    /// Maximum number of simultaneous clients.
    pub connections_max: usize,
    /// Number of failed connections to the origin.
    pub origin_connect_failures: u64,
    /// Longest time for which a write that bypasses the cache can stay unseen.
    pub staleness_bound_seconds: f64,
    /// Lost writes that caused a quarantine.
    pub quarantine_causes: Vec<QuarantineCause>,
    /// The memory of its origin; absent if all memory is for one origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
}

/// The memory of one of several origins, and why it has it.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    /// Its share of the memory.
    pub bytes: u64,
    /// The smallest share.
    pub floor_bytes: u64,
    /// The largest share.
    pub ceiling_bytes: u64,
    /// What it holds.
    pub accounted_bytes: usize,
    /// Items held.
    pub items: usize,
    /// Lookups that were hits, or whose replies were offered to storage.
    pub lookups_per_second: f64,
    /// Those that were hits.
    pub hits_per_second: f64,
    /// Hits per second that each MiB more would bring.
    pub gain_per_mebibyte: f64,
    /// Hits per second that a MiB less would lose.
    pub loss_per_mebibyte: f64,
    /// Why it is neither larger nor smaller.
    pub why: &'static str,
}

/// A client and a command whose answers were lost.
#[derive(Debug, Clone, Serialize)]
pub struct QuarantineCause {
    /// The client's address.
    pub client: String,
    /// The command.
    pub command: &'static str,
    /// Scope that is not cached until the quarantine elapses.
    pub closed: &'static str,
    /// Number of such writes.
    pub writes: u64,
    /// Seconds since the last.
    pub last_seconds_ago: f64,
}

/// The process.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// Resident memory; absent (`null`) if the system does not report it.
    pub resident_bytes: Option<u64>,
}

impl Statistics {
    /// All statistics, now. Each counter is exact; they are read one after another while requests
    /// continue, so sums of several may be inconsistent by the changes during the read.
    pub fn collect(shared: &Shared) -> Self {
        let all = Sum(shared);
        let memory = shared.shards.memory();
        let StorageLimits { items_max, bytes_max } = shared.shards.limits();
        let why_not = WhyNot::ALL
            .map(|reason| (reason.name(), all.of(|stats| &stats.why_not[reason as usize])));
        let not_filled = NotFilled::ALL
            .map(|reason| (reason.name(), all.of(|stats| &stats.not_filled[reason as usize])));
        let wrote = |scope: usize| all.of(|stats| &stats.writes[scope]);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: shared.start.elapsed().as_secs_f64(),
            reads: Reads {
                hits: all.of(|stats| &stats.hits),
                misses: why_not.iter().map(|(_, count)| count).sum(),
                coalesced: all.of(|stats| &stats.coalesced),
                verified: all.of(|stats| &stats.verified),
                differed: all.of(|stats| &stats.differed),
                why_not: ByReason(why_not.into()),
                hit_latency: all.latency(|stats| &stats.hit_latency),
                miss_latency: all.latency(|stats| &stats.miss_latency),
                hot_keys: most_read(shared.stats.iter().map(|stats| &stats.busiest))
                    .into_iter()
                    .map(|(key, share)| HotKey { key, share })
                    .collect(),
            },
            fills: Fills {
                filled: all.of(|stats| &stats.fills),
                not_filled: ByReason(not_filled.into()),
            },
            writes: Writes {
                key: wrote(0),
                collection: wrote(1),
                database: wrote(2),
                everything: wrote(3),
                refused: all.of(|stats| &stats.writes_refused),
                lost: all.of(|stats| &stats.writes_lost),
                reported: all.of(|stats| &stats.fed),
            },
            refused_frames: all.of(|stats| &stats.refused_frames),
            refused_logins: all.of(|stats| &stats.refused_logins),
            storage: Storage {
                items: memory.items,
                items_max: (items_max != usize::MAX).then_some(items_max),
                accounted_bytes: memory.accounted_bytes,
                live_bytes: memory.live_bytes,
                index_bytes: memory.index_bytes,
                policy_bytes: memory.policy_bytes,
                bytes_max,
                evictions: memory.evictions,
                expirations: memory.expirations,
                removals: memory.removals,
            },
            listeners: shared
                .listeners
                .iter()
                .map(|listener| Listener::of(listener, &shared.shards))
                .collect(),
            forecast: shared.forecast(),
            process: Process { resident_bytes: resident_bytes() },
        }
    }
}

impl Listener {
    fn of(listener: &crate::runtime::Listener, shards: &Shards) -> Self {
        Self {
            protocol: listener.protocol.name(),
            listen: listener.place(),
            origin: listener.origin.to_string(),
            connections: listener.connections(),
            connections_max: listener.connections_max(),
            origin_connect_failures: listener.origin.failures(),
            staleness_bound_seconds: listener.staleness_bound().as_secs_f64(),
            quarantine_causes: listener.origin.quarantine_causes().iter().map(Into::into).collect(),
            share: listener.share(shards).map(Into::into),
        }
    }
}

impl From<shards::Share> for Share {
    fn from(share: shards::Share) -> Self {
        Self {
            bytes: share.bytes,
            floor_bytes: share.bounds.floor,
            ceiling_bytes: share.bounds.ceiling,
            accounted_bytes: share.accounted_bytes,
            items: share.items,
            lookups_per_second: share.lookups_per_second,
            hits_per_second: share.hits_per_second,
            gain_per_mebibyte: share.margin.gain_per_mebibyte,
            loss_per_mebibyte: share.margin.loss_per_mebibyte,
            why: share.margin.why.name(),
        }
    }
}

impl From<&Cause> for QuarantineCause {
    fn from(cause: &Cause) -> Self {
        Self {
            client: cause.client.to_string(),
            command: cause.command,
            closed: cause.closed,
            writes: cause.writes,
            last_seconds_ago: cause.at.elapsed().as_secs_f64(),
        }
    }
}

/// The workers' counters, added up.
struct Sum<'a>(&'a Shared);

impl Sum<'_> {
    fn of(&self, counter: impl Fn(&stats::Stats) -> &Counter) -> u64 {
        self.0.stats.iter().map(|stats| counter(stats).value()).sum()
    }

    fn latency(&self, latencies: impl Fn(&stats::Stats) -> &Latencies) -> Latency {
        let mut sum = Spread::default();
        self.0.stats.iter().for_each(|stats| latencies(stats).add_to(&mut sum));
        Latency(sum)
    }
}

fn forecast<S: Serializer>(of: &Option<Forecast>, to: S) -> Result<S::Ok, S::Error> {
    let Some(forecast) = of else { return to.serialize_none() };
    let sizes = forecast.sizes.iter().map(|size| {
        json!({
            "memory_bytes": size.memory_bytes, "items_max": size.items_max,
            "hit_ratio": size.hit_ratio, "held_bytes": size.held_bytes,
            "held_items": size.held_items,
        })
    });
    let groups = forecast.groups.iter().map(|group| {
        let [p50, p99] = group.latency.percentiles();
        json!({
            "command": group.command, "prefix": Shown(&group.prefix).to_string(),
            "reads": group.reads, "hits": group.hits, "bytes": group.bytes, "p50": p50, "p99": p99,
        })
    });
    json!({
        "reads": forecast.reads, "reads_by_key": forecast.reads_by_key,
        "keys_sampled": forecast.keys_sampled, "bytes": forecast.bytes,
        "hit_ratio": forecast.configured().hit_ratio,
        "enough_memory_bytes": forecast.curve().enough_bytes(),
        "latency": Latency(forecast.latency.clone()),
        "sizes": sizes.collect::<Value>(), "groups": groups.collect::<Value>(),
    })
    .serialize(to)
}
