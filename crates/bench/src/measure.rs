//! The measurements. Each gives one figure or more; their names and goals are fixed.

use crate::{figure::Figure, run::Run};

pub(crate) mod compare;
mod database;
mod dynamodb;
mod echo;
mod edge;
mod fabric;
mod keyserver;
mod memcached;
mod memory;
mod mongo;
mod noise;
mod redis;
mod scenario;
mod staleness;
mod state;
mod switch;
mod tls;
mod v2p;

pub(crate) use state::Scenario;

/// One measurement.
pub(crate) struct Measurement {
    /// Names of the figures it gives.
    pub(crate) names: &'static [&'static str],
    /// Estimated seconds besides its rounds.
    pub(crate) seconds: f64,
    /// Seconds each round of both sides takes, in rounds of [`Run::round`].
    pub(crate) rounds: f64,
    pub(crate) run: fn(&Run) -> anyhow::Result<Vec<Figure>>,
}

/// Measurements of the key server, in the order in which they are run.
pub(crate) const KEYSERVER: &[Measurement] = &[
    Measurement {
        names: &["ecdsa-per-core", "rsa2048-per-core", "premaster-padding"],
        seconds: 4.0,
        rounds: 4.0,
        run: keyserver::per_core,
    },
    Measurement {
        names: &["ecdsa-two-cores", "ecdsa-two-cores-vs-ceiling"],
        seconds: 5.0,
        rounds: 3.0,
        run: keyserver::two_cores,
    },
    Measurement {
        names: &["ecdsa-p99-at-70", "ecdsa-p99-beside-rsa"],
        seconds: 5.0,
        rounds: 5.0,
        run: keyserver::latency,
    },
    Measurement { names: &["edge-handshakes"], seconds: 5.0, rounds: 2.0, run: edge::handshakes },
];

/// Measurements of the cache, in the order in which they are run.
pub(crate) const CACHE: &[Measurement] = &[
    Measurement {
        names: &["mongo-hit-p50", "mongo-miss-p50"],
        seconds: 15.0,
        rounds: 3.0,
        run: mongo::hit_and_miss,
    },
    Measurement { names: &["redis-get-64B-p1"], seconds: 2.0, rounds: 2.0, run: redis::get_64_p1 },
    Measurement { names: &["redis-get-4KiB-p1"], seconds: 2.0, rounds: 2.0, run: redis::get_4k_p1 },
    Measurement {
        names: &["redis-get-64B-p16"],
        seconds: 2.0,
        rounds: 2.0,
        run: redis::get_64_p16,
    },
    Measurement {
        names: &["redis-get-4KiB-p16"],
        seconds: 2.0,
        rounds: 2.0,
        run: redis::get_4k_p16,
    },
    Measurement {
        names: &["redis-get-vs-nutcracker"],
        seconds: 6.0,
        rounds: 6.0,
        run: redis::nutcracker,
    },
    Measurement { names: &["redis-miss-p50"], seconds: 3.0, rounds: 0.7, run: redis::miss },
    Measurement {
        names: &["memcached-hits"],
        seconds: 2.0,
        rounds: 2.0,
        run: memcached::get_64_p1,
    },
    Measurement {
        names: &["memcached-hits-p16"],
        seconds: 2.0,
        rounds: 2.0,
        run: memcached::get_64_p16,
    },
    Measurement { names: &["dynamodb-hit-p50"], seconds: 30.0, rounds: 0.0, run: dynamodb::hit },
    Measurement {
        names: &["dynamodb-hits-per-core"],
        seconds: 10.0,
        rounds: 1.0,
        run: dynamodb::hits_per_core,
    },
    Measurement { names: &["two-workers"], seconds: 2.0, rounds: 2.0, run: redis::two_workers },
    Measurement { names: &["hit-p50-vs-echo"], seconds: 2.0, rounds: 1.0, run: echo::hit },
    Measurement { names: &["tls-hit-cpu"], seconds: 4.0, rounds: 4.0, run: tls::hit },
    Measurement { names: &["tls-handshakes"], seconds: 3.0, rounds: 2.0, run: tls::handshakes },
    Measurement {
        names: &["scenario-b-10", "scenario-b-30", "scenario-b-70", "scenario-b-100"],
        seconds: 230.0,
        rounds: 0.0,
        run: scenario::run,
    },
    Measurement {
        names: &["staleness-redis", "staleness-redis-loaded", "staleness-mongodb"],
        seconds: 60.0,
        rounds: 0.0,
        run: staleness::run,
    },
    Measurement { names: &["item-bytes-64B"], seconds: 12.0, rounds: 0.0, run: memory::item },
    Measurement {
        names: &["hits-10M-over-10k", "hits-10M-over-10k-p16"],
        seconds: 90.0,
        rounds: 4.0,
        run: memory::ten_millions,
    },
    Measurement {
        names: &["idle-connection-bytes"],
        seconds: 10.0,
        rounds: 0.0,
        run: memory::idle_connections,
    },
];

/// Measurements of `enroute db`.
pub(crate) const DATABASE: &[Measurement] = &[
    Measurement { names: &["get-p1"], seconds: 2.0, rounds: 2.0, run: database::get_p1 },
    Measurement { names: &["get-p16"], seconds: 2.0, rounds: 2.0, run: database::get_p16 },
    Measurement {
        names: &["set-p1", "set-p1-everysec"],
        seconds: 4.0,
        rounds: 4.0,
        run: database::set_p1,
    },
    Measurement {
        names: &["set-p16", "set-p16-everysec"],
        seconds: 4.0,
        rounds: 4.0,
        run: database::set_p16,
    },
    Measurement {
        names: &["get-p16-1M", "set-p16-1M", "set-p16-1M-everysec"],
        seconds: 25.0,
        rounds: 6.0,
        run: database::many_keys,
    },
    Measurement { names: &["two-threads"], seconds: 2.0, rounds: 2.0, run: database::two_threads },
    Measurement {
        names: &["table-5"],
        seconds: 30.0,
        rounds: 0.0,
        run: database::table_5::table_5,
    },
    Measurement {
        names: &["cold-over-wire-vs-pread"],
        seconds: 20.0,
        rounds: 2.0,
        run: database::cold::cold,
    },
    Measurement {
        names: &["three-times-memory"],
        seconds: 60.0,
        rounds: 2.0,
        run: database::larger::three_times_memory,
    },
    Measurement {
        names: &["three-times-memory-rocksdb"],
        seconds: 40.0,
        rounds: 4.0,
        run: database::larger::rocksdb,
    },
    Measurement {
        names: &["in-process-lookups", "cold-vs-pread"],
        seconds: 60.0,
        rounds: 0.0,
        run: database::process::lookups,
    },
    Measurement {
        names: &["files-over-live"],
        seconds: 60.0,
        rounds: 0.0,
        run: database::files::overwrite,
    },
    Measurement {
        names: &[
            "zipf-1M-quarter-ops",
            "zipf-1M-quarter-max-ms",
            "zipf-1M-rescaling-max-ms",
            "zipf-1M-compacting-max-ms",
        ],
        seconds: 180.0,
        rounds: 0.0,
        run: database::zipf::quarter,
    },
];

/// Measurements of `enroute fabric`. Their rounds are complete runs.
pub(crate) const FABRIC: &[Measurement] = &[
    Measurement {
        names: &["packets-per-cpu-s-direct", "packets-per-cpu-s-switchv2p"],
        seconds: 120.0,
        rounds: 0.0,
        run: fabric::packets,
    },
    Measurement { names: &["vs-ns3-dumbbell"], seconds: 60.0, rounds: 0.0, run: fabric::dumbbell },
    Measurement { names: &["vs-ns3-fat-tree"], seconds: 150.0, rounds: 0.0, run: fabric::fat_tree },
    Measurement { names: &["sweep-two-cores"], seconds: 90.0, rounds: 0.0, run: fabric::two_cores },
    Measurement {
        names: &["run-two-threads-ft8-10k", "run-two-threads-ft16-400k"],
        seconds: 90.0,
        rounds: 0.0,
        run: fabric::two_threads,
    },
    Measurement { names: &["ft16-peak-gib"], seconds: 60.0, rounds: 0.0, run: fabric::ft16 },
    Measurement {
        names: &["hop-cost-12800-over-128"],
        seconds: 60.0,
        rounds: 0.0,
        run: fabric::hop_cost,
    },
    Measurement {
        names: &["billion-packet-hops-s"],
        seconds: 240.0,
        rounds: 0.0,
        run: fabric::billion,
    },
    Measurement {
        names: &["hadoop-all-schemes-s"],
        seconds: 300.0,
        rounds: 0.0,
        run: fabric::all_schemes,
    },
];

/// Measurements of `enroute state`; the moving function needs root.
pub(crate) const STATE: &[Measurement] = &[
    Measurement { names: &["agent-throughput"], seconds: 5.0, rounds: 2.0, run: state::throughput },
    Measurement { names: &["agent-monitors"], seconds: 5.0, rounds: 2.0, run: state::monitors },
    Measurement {
        names: &["agent-local-p50", "agent-local-p50-beside-node"],
        seconds: 10.0,
        rounds: 1.0,
        run: state::local,
    },
    Measurement {
        names: &["plan-16384x1000-ms"],
        seconds: 10.0,
        rounds: 0.0,
        run: state::plans::plan,
    },
    Measurement {
        names: &["delay-over-optimum"],
        seconds: 120.0,
        rounds: 0.0,
        run: state::plans::over_optimum,
    },
    Measurement {
        names: &["moving-function-mean", "local-after-move-s"],
        seconds: 500.0,
        rounds: 0.0,
        run: state::moving,
    },
    Measurement {
        names: &["fig4-end-throughput"],
        seconds: 170.0,
        rounds: 0.0,
        run: state::throughput_of_many,
    },
    Measurement { names: &["intradc-mean"], seconds: 0.0, rounds: 25.0, run: state::mean_within },
];

/// Measurements of `enroute switch v2p`; they need root.
pub(crate) const V2P: &[Measurement] = &[Measurement {
    names: &[
        "v2p-hit-core-ns-over-floor",
        "v2p-hit-gateway-spine-ns-over-floor",
        "v2p-hit-spine-ns-over-floor",
        "v2p-hit-tor-ns-over-floor",
        "v2p-miss-tor-ns-over-forwarding",
        "v2p-learn-ns",
        "v2p-invalidation-ns",
    ],
    seconds: 30.0,
    rounds: 0.0,
    run: v2p::packets,
}];

/// Measurements of `enroute switch`; they need root.
pub(crate) const SWITCH: &[Measurement] = &[
    Measurement {
        names: &[
            "hit-ns-over-floor",
            "miss-ns-added",
            "hit-ns-1024B-over-16B",
            "hit-ns-1M-over-1k",
            "hit-ns-registers-over-slots",
            "hit-ns-registers-over-slots-1M",
            "put-ns-added",
        ],
        seconds: 60.0,
        rounds: 0.0,
        run: switch::packets,
    },
    Measurement {
        names: &["veth-gets-vs-memcached-udp", "veth-gets-per-cpu-s-vs-memcached-udp"],
        seconds: 30.0,
        rounds: 0.0,
        run: switch::veth,
    },
    Measurement {
        names: &["veth-misses-vs-direct"],
        seconds: 20.0,
        rounds: 0.0,
        run: switch::misses,
    },
    Measurement { names: &["link-300us-p50"], seconds: 20.0, rounds: 0.0, run: switch::link },
    Measurement {
        names: &["rack-zipf-0.9", "rack-zipf-0.95", "rack-zipf-0.99"],
        seconds: 80.0,
        rounds: 0.0,
        run: switch::racks,
    },
    Measurement { names: &["hot-in-recovery-s"], seconds: 60.0, rounds: 0.0, run: switch::hot_in },
];
