//! 10,000 idle clients cost no origin connection and little memory, and an active client among them
//! is served.

use std::fs;

use crate::support::enroute::Cache;
use crate::support::origins::{Redis, absent};
use crate::support::raw::Raw;
use rustix::process::{Resource, getrlimit};

const CLIENTS: usize = 10_000;

#[test]
fn ten_thousand_idle_clients_are_kept() {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if limit < CLIENTS as u64 + 1_000 {
        let _: Option<()> = absent(&format!("a process may open only {limit} files"));
        return;
    }
    crate::support::process::raise_open_files();
    let Some(redis) = Redis::start() else { return };
    let cache = Cache::start("redis", redis.address(), "");
    let before = resident_kilobytes(cache.process().id());
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(cache.address())).collect();
    cache.statistics_once(|statistics| statistics["connections"] == CLIENTS as f64);
    let grown = resident_kilobytes(cache.process().id()).saturating_sub(before);
    eprintln!("{} bytes for each of them", grown * 1024 / CLIENTS);
    for number in [0, CLIENTS / 2, CLIENTS - 1] {
        clients[number].ask("PING", "+PONG\r\n");
    }
    let mut direct = Raw::connect(redis.address());
    direct.command("INFO clients");
    let served = loop {
        let line = direct.hear_line();
        if let Some(count) = line.strip_prefix("connected_clients:") {
            break count.trim().parse::<usize>().expect("a number");
        }
    };
    assert!(served < 10, "{served} connections to the origin");
    drop(clients);
    cache.statistics_once(|statistics| statistics["connections"] == 0.0);
}

fn resident_kilobytes(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the cache runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
