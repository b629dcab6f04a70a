//! Nanoseconds that the data plane takes for one packet of a kind, by `BPF_PROG_TEST_RUN`; prints
//! one number. `make bench-compare` builds this file against an earlier commit, too: it uses little
//! of the crate.
#![allow(clippy::print_stdout, reason = "it is what it is run for")]

use std::{error::Error, net::SocketAddr, sync::atomic::Ordering::Relaxed};

use switch::{
    frame::Frame,
    install::{Key, Room, Value},
    layout::Protocol,
    measure::{Measure, Program, Request},
    name,
    plane::{Config, DataPlane},
};
use wire::{
    memcache::{frame::Frame as Datagram, item::Item},
    netcache::{self, Message, Op},
};

/// Cached keys of NetCache.
const KEYS: u32 = 1024;
/// Place of the cached key of memcached.
const PLACE: u32 = KEYS;
/// Packets of one reading, and readings, of which the median is printed.
const PACKETS: u32 = 50_000;
const READINGS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let client: SocketAddr = ([10, 0, 0, 1], 40_000).into();
    let servers = [SocketAddr::from(([10, 0, 0, 2], 50_000)), ([10, 0, 0, 2], 11_211).into()];
    let netcache = |op| Message { value: &[], ..Message::new(op, 1, name_of(0)) }.bytes();
    let memcached = |text: &[u8]| Datagram::whole(1, text).bytes();
    let (payload, server, keys, first) = match kind.as_str() {
        "hit" => (netcache(Op::Get), servers[0], KEYS, 0),
        "miss" => (netcache(Op::Get), servers[0], KEYS, 1 << 24),
        "put" => (netcache(Op::Put), servers[0], KEYS, 0),
        "memcached-get" => (memcached(b"get a\r\n"), servers[1], 0, 0),
        "datagram-write" => (memcached(b"set b 0 0 1\r\nx\r\n"), servers[1], 0, 0),
        _ => return Err("expected hit, miss, put, memcached-get or datagram-write".into()),
    };
    let plane = DataPlane::load(Config { entries: 2 * KEYS, ..Config::default() })?;
    fill(&plane, servers);
    let frame = Frame::udp(client, server).bytes(&payload);
    let request = Request { frame: &frame, keys, first, version: 0 };
    let mut measure = Measure::load(1)?;
    let mut readings = Vec::new();
    for _ in 0..READINGS {
        let nothing = measure.ns(&Program::Nothing, request, PACKETS)? as f64;
        readings.push(measure.ns(&Program::Switch(&plane), request, PACKETS)? as f64 - nothing);
    }
    readings.sort_by(f64::total_cmp);
    println!("{}", readings[READINGS / 2]);
    Ok(())
}

fn name_of(number: u32) -> netcache::Key {
    let mut name = *b"key:\0\0\0\0........";
    name[4..8].copy_from_slice(&number.to_be_bytes());
    name
}

/// Values of 128 bytes, and one of a memcached.
fn fill(plane: &DataPlane, servers: [SocketAddr; 2]) {
    plane.leases[0].store(u64::MAX, Relaxed);
    let admit = |number, key: &Key, value: &Value| {
        plane.admit(number, key, Room { place: number, bitmap: 0 }, 1);
        plane.fill(number, 1, value);
    };
    let value = |bytes| Value { bytes, expires_ns: u64::MAX, ..Value::default() };
    let key = |name, bytes: &[u8], server, protocol| Key {
        name,
        bytes: bytes.to_vec(),
        server,
        protocol,
        lease: 0,
    };
    for number in 0..KEYS {
        let key = key(name_of(number), b"", servers[0], Protocol::NetCache);
        admit(number, &key, &value(vec![7; 128]));
    }
    let name = name::memcache(b"a", servers[1], false, plane.config().seed);
    let item = Item { flags: 0, lives_s: None, value: vec![b'7'; 64] };
    let epoch = plane.shared().epoch.load(Relaxed);
    let value = Value { epoch, ..value(item.get_text(b"a")) };
    admit(PLACE, &key(name, b"a", servers[1], Protocol::Memcache), &value);
}
