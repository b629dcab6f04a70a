//! External processes that tests need: real origins, a scripted one, the real binary.
//!
//! Each folder of tests is one binary, whose `main.rs` has `mod support`. Read `origins` first.
//! Everything listens on loopback, on a free port; tests wait for conditions, not for time; every
//! process ends with its handle.
//!
//! ```ignore
//! let Some(redis) = crate::support::origins::Redis::start() else { return };
//! let config = format!("[[listen]]\naddress = \"{address}\"\norigin = \"{}\"", redis.address());
//! let mut enroute = crate::support::enroute::Enroute::start_with_config(&["run"], &config);
//! enroute.accepting(&[address]);
//! // … speak to `address` …
//! let ended = enroute.terminate();
//! assert!(ended.status.success(), "{}", ended.stderr);
//! ```
// Each folder compiles its own copy and uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod attacks;
pub mod cached_cluster;
pub mod cgroup;
pub mod clients;
pub mod clock;
pub mod cluster;
pub mod cluster_history;
pub mod database;
pub mod directory;
pub mod dns;
pub mod dynamodb_history;
pub mod dynamodb_streams;
pub mod edge;
pub mod enroute;
pub mod faults;
pub mod frames;
pub mod greedy;
pub mod handover;
pub mod history;
pub mod keyserver;
pub mod memcached_history;
pub mod message;
pub mod metrics;
pub mod mongodb_history;
pub mod moving;
pub mod namespace;
pub mod origins;
pub mod placers;
pub mod process;
pub mod raw;
pub mod redis_history;
pub mod replica;
pub mod replica_set;
pub mod routed;
pub mod script;
pub mod scripted;
pub mod secured;
pub mod seeds;
pub mod sentinels;
pub mod state;
pub mod tls;
pub mod troubled;
pub mod workshop;
