//! Clients, a cache, TLS, a second cache, a network path that breaks, and redis-server: the history
//! is linearizable. Both sides of the TLS connection are enroute.

use crate::support::{
    enroute::Cache,
    history,
    origins::Redis,
    redis_history::{path_to, record},
    secured::{certificates, origin_tls, tls},
};

const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"2s\"\n";

#[test]
fn redis_history_over_tls_is_linearizable() {
    let Some(workshop) = certificates() else { return };
    history::are_linearizable(500, |seed| {
        history::checker()?;
        let mut origin = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"])?;
        let relay = path_to(&origin, seed);
        let inner = Cache::start_all(&[("redis", relay.local_addr(), &tls(&workshop))], OPTIONS);
        let text = format!(
            "{OPTIONS}[[listener]]\nlisten = \"redis://127.0.0.1:0\"\n\
             origin = \"rediss://{}\"\n{}",
            inner.address(),
            origin_tls(&workshop)
        );
        let outer = crate::support::enroute::Enroute::start_with_config(
            &["cache", "--statistics", "20ms"],
            &text,
        );
        let history = record(outer.listen_address("redis"), &mut origin, &relay, 10_000, seed);
        let statistics = inner.statistics();
        let verdict = history::check(&history)?;
        eprintln!("{}\n{statistics:?}", verdict.text);
        let last = outer.process().stdout();
        let last = last.lines().last().unwrap_or_default();
        let hits = last.split(' ').find_map(|pair| pair.strip_prefix("hits="));
        Some((verdict, hits.and_then(|hits| hits.parse().ok()).unwrap_or(0)))
    });
}
