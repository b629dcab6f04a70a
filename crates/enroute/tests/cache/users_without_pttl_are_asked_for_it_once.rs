//! A Redis user may read a key but not execute PTTL. The origin refuses PTTL once, not with every
//! read, on any number of connections; the log names the user once. Whether the user's reads are
//! stored is configurable.

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;

const VALUE: &str = "$1\r\nv\r\n";
const CLIENTS: usize = 4;
const READS: usize = 5;

/// Number of times that the origin has refused PTTL.
fn refusals(admin: &mut Raw) -> usize {
    admin.command("INFO commandstats");
    let length = admin.hear_line();
    let length: usize = length.trim_start_matches('$').trim_end().parse().expect("a bulk string");
    let said = String::from_utf8_lossy(&admin.hear_bytes(length + 2)).into_owned();
    let pttl = said.lines().find(|line| line.starts_with("cmdstat_pttl:"));
    let rejected = pttl.and_then(|line| line.split("rejected_calls=").nth(1));
    rejected.map_or(0, |rest| {
        rest.split(',').next().and_then(|count| count.parse().ok()).expect("a count")
    })
}

/// Reads on `CLIENTS` connections of such a user in turn.
fn read_as_alice(options: &str) -> Option<Cache> {
    let redis = Redis::start()?;
    let cache = Cache::start_all(&[("redis", redis.address(), options)], "");
    let mut admin = Raw::connect(redis.address());
    admin.ask("ACL SETUSER alice on >pw ~* -@all +get +hello", "+OK\r\n");
    admin.ask("SET k v", "+OK\r\n");
    for _ in 0..CLIENTS {
        let mut alice = Raw::connect(cache.address());
        alice.ask("AUTH alice pw", "+OK\r\n");
        for _ in 0..READS {
            alice.ask("GET k", VALUE);
        }
    }
    assert_eq!(refusals(&mut admin), 1, "refused PTTL");
    // For another user the cache sends PTTL, and the user gets hits.
    let mut other = Raw::connect(cache.address());
    let hits = cache.hits();
    let started = std::time::Instant::now();
    while cache.hits() == hits {
        other.ask("GET k", VALUE);
        assert!(started.elapsed() < PATIENCE, "never answered from storage");
    }
    let line = cache.log_line("may not run PTTL");
    assert!(line.contains("alice"), "{line}");
    Some(cache)
}

#[test]
fn users_without_pttl_get_no_hits_unless_configured() {
    let Some(cache) = read_as_alice("") else { return };
    let counted = cache.statistics_once(|statistics| statistics.contains_key("why-not.expiry"));
    assert!(counted["why-not.expiry"] >= (READS - 2) as f64, "{counted:?}");
}

#[test]
fn users_without_pttl_hit_where_configured() {
    let Some(cache) = read_as_alice("unknown_expiry = \"ttl\"") else { return };
    assert!(cache.hits() >= ((CLIENTS - 1) * (READS - 2)) as f64, "{}", cache.hits());
}
