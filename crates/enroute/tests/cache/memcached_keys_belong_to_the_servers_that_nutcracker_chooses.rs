//! 10,000 keys written through nutcracker (twemproxy) are found through the cache, and the other
//! way round: both choose the same one of several memcacheds for each key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::support::enroute::Cache;
use crate::support::origins::{Memcached, Nutcracker};
use crate::support::raw::Raw;

const KEYS: usize = 10_000;
/// Keys of one request.
const BATCH: usize = 100;
/// A memcached at this port has a name without it.
const UNNAMED_PORT: u16 = 11_211;

#[test]
fn fnv1a_64() {
    compare("fnv1a_64", &["1", "1", "1", "1"]);
}

#[test]
fn md5_with_weights_and_names() {
    compare("md5", &["1 alpha", "5", "2 gamma-3", "1"]);
}

#[test]
fn one_at_a_time_with_weights() {
    compare("one_at_a_time", &["7", "1", "3"]);
}

/// `servers`: the weight of each, and perhaps a name.
fn compare(hash: &str, servers: &[&str]) {
    let mut origins = Vec::new();
    // An address of its own for the port that every test has.
    let [.., b, c, d] = std::process::id().to_be_bytes();
    let own = IpAddr::from(Ipv4Addr::new(127, 1 + b % 254, c, d.max(2) ^ hash.len() as u8));
    let Some(unnamed) = Memcached::start_at(SocketAddr::new(own, UNNAMED_PORT)) else { return };
    origins.push(unnamed);
    origins.extend((1..servers.len()).filter_map(|_| Memcached::start()));
    let written = origins.iter().zip(servers);
    let theirs: Vec<_> =
        written.clone().map(|(origin, server)| format!("{}:{server}", origin.address())).collect();
    let ours: Vec<_> = written
        .map(|(origin, server)| {
            let (weight, name) = server.split_once(' ').unwrap_or((server, ""));
            let weight = if weight == "1" { String::new() } else { format!(":{weight}") };
            let name = if name.is_empty() { String::new() } else { format!("={name}") };
            format!("{}{weight}{name}", origin.address())
        })
        .collect();
    let Some(nutcracker) = Nutcracker::start(hash, &theirs) else { return };
    let options = if hash == "fnv1a_64" { String::new() } else { format!("/?hash={hash}") };
    let cache = Cache::start("memcached", ours.join(",") + &options, "");
    let [one, other] = [nutcracker.address(), cache.address()];
    for (prefix, writer, reader) in [("n", one, other), ("e", other, one)] {
        let (mut writer, mut reader) = (Raw::connect(writer), Raw::connect(reader));
        for first in (0..KEYS).step_by(BATCH) {
            let keys: Vec<_> = (first..first + BATCH).map(|number| key(prefix, number)).collect();
            let write = |key: &Vec<u8>| [&b"set "[..], key, b" 0 0 1\r\nx\r\n"].concat();
            writer.say(keys.iter().flat_map(write).collect::<Vec<_>>());
            writer.hear("STORED\r\n".repeat(BATCH));
            let item = |key: &Vec<u8>| [&b"VALUE "[..], key, b" 0 1\r\nx\r\nEND\r\n"].concat();
            let read = |key: &Vec<u8>| [&b"get "[..], key, b"\r\n"].concat();
            reader.say(keys.iter().flat_map(read).collect::<Vec<_>>());
            reader.hear(keys.iter().flat_map(item).collect::<Vec<_>>());
        }
    }
    // Every server has some of them.
    for origin in &origins {
        let mut direct = Raw::connect(origin.address());
        direct.say("stats\r\n");
        let mut line = direct.hear_line();
        while !line.starts_with("STAT curr_items ") {
            line = direct.hear_line();
        }
        eprintln!("{hash} {}: {line}", origin.address());
        assert!(!line.ends_with(" 0\r\n"));
    }
}

/// The `number`th key: of any length, every fourth with bytes beyond ASCII.
fn key(prefix: &str, number: usize) -> Vec<u8> {
    let mut key = format!("{prefix}{number}:{}", "k".repeat(number % 97)).into_bytes();
    if number.is_multiple_of(4) {
        key.extend([0xc3, 0xa9, 0x80 | number as u8, 0xff]);
    }
    key
}
