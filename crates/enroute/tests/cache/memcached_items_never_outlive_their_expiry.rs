//! An item that memcached has let expire, or has flushed, is served to no client of the cache once
//! memcached itself reports it as absent.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::enroute::Cache;
use crate::support::origins::Memcached;
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;

/// Each request lets the item `KEY` expire, and has this reply. `|` ends a line.
const LIMITED: [(&str, &str); 7] = [
    ("set KEY 0 8 1|x", "STORED|"),
    ("set KEY 0 0 1|x|touch KEY 8", "STORED|TOUCHED|"),
    ("set KEY 0 0 1|x|gat 8 KEY", "STORED|VALUE KEY 0 1|x|END|"),
    ("set KEY 0 0 1|x|mg KEY T8", "STORED|HD|"),
    ("ms KEY 1 T8|x", "HD|"),
    ("set KEY 0 8 1|5|incr KEY 1", "STORED|6|"),
    ("mg KEY N8 v", "VA 0 W||"),
];
/// A cache on a slow machine may find less than two seconds of TTL left every time.
const ATTEMPTS: usize = 5;

#[test]
fn memcached_items_never_outlive_their_expiry() {
    let Some(origin) = Memcached::start() else { return };
    for options in ["", "[storage]\npopulation = \"on-write\"\n"] {
        let hits = (0..ATTEMPTS).any(|_| end_together(&origin, options, &LIMITED));
        assert!(hits, "nothing was served from storage in {ATTEMPTS} attempts");
    }
}

#[test]
fn memcached_items_never_outlive_a_delayed_flush() {
    let Some(origin) = Memcached::start() else { return };
    let flushed = [("set KEY 0 0 1|x|flush_all 8", "STORED|OK|"), ("set KEY 0 0 1|x", "STORED|")];
    for options in ["", "[storage]\npopulation = \"on-write\"\n"] {
        let hits = (0..ATTEMPTS).any(|_| end_together(&origin, options, &flushed));
        assert!(hits, "nothing was served from storage in {ATTEMPTS} attempts");
    }
}

/// Reads until the items are absent in memcached, and then through the cache. Returns whether there
/// were hits.
fn end_together(origin: &Memcached, options: &str, commands: &[(&str, &str)]) -> bool {
    let cache = Cache::start("memcached", origin.address(), options);
    let (mut direct, mut cached) = (Raw::connect(origin.address()), Raw::connect(cache.address()));
    let mut present: Vec<_> = (0..commands.len()).map(|number| format!("key{number}")).collect();
    for (key, (command, reply)) in present.iter().zip(commands) {
        let text = |text: &str| text.replace("KEY", key).replace('|', "\r\n");
        cached.say(text(command) + "\r\n");
        cached.hear(text(reply));
    }
    let started = Instant::now();
    while !present.is_empty() {
        present.retain(|key| {
            let lives = is_present(&mut direct, key);
            let served = is_present(&mut cached, key);
            assert!(lives || !served, "{key} has expired and was served");
            lives
        });
        assert!(started.elapsed() < PATIENCE, "memcached still has {present:?}");
        thread::sleep(Duration::from_millis(5));
    }
    cache.hits() > 0.0
}

fn is_present(client: &mut Raw, key: &str) -> bool {
    client.say(format!("get {key}\r\n"));
    let found = client.hear_line() != "END\r\n";
    if found {
        client.hear_line();
        client.hear("END\r\n");
    }
    found
}
