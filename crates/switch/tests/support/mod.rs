//! A data plane for tests; a test is skipped without one.
#![allow(dead_code, reason = "not every test uses all of it")]

mod loaded;
pub(crate) mod written;

use std::net::SocketAddr;

use loaded::loaded;
use switch::{
    attach::Side,
    frame::Frame,
    install::{Key, Room, Value},
    layout::Protocol,
    object,
    plane::{Config, DataPlane},
};
use wire::netcache::{self, Message, Op};

pub(crate) const CLIENT: &str = "10.0.0.1:40000";
pub(crate) const SERVER: &str = "10.0.0.2:50000";

pub(crate) fn data_plane(config: Config) -> Option<DataPlane> {
    let plane = loaded(object::SWITCH, || DataPlane::load(config))?;
    come_from(&plane, Side::Servers);
    Some(plane)
}

/// Sets the side on which packets come in: without a network, they come in at the loopback
/// interface.
pub(crate) fn come_from(plane: &DataPlane, side: Side) {
    plane.take_side(1, side).expect("there is room");
}

pub(crate) fn small() -> Config {
    Config { entries: 1024, ..Config::default() }
}

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

pub(crate) fn name(number: u32) -> netcache::Key {
    let mut name = *b"key:\0\0\0\0........";
    name[4..8].copy_from_slice(&number.to_be_bytes());
    name
}

pub(crate) fn to_server() -> Frame {
    Frame::udp(at(CLIENT), at(SERVER))
}

pub(crate) fn get(number: u32) -> Vec<u8> {
    to_server().bytes(&Message::new(Op::Get, 7, name(number)).bytes())
}

pub(crate) fn value(bytes: &[u8]) -> Value {
    Value { bytes: bytes.to_vec(), expires_ns: u64::MAX, ..Value::default() }
}

/// Offset of the TCP flags in an IPv4 frame without tags.
pub(crate) const FLAGS: usize = 14 + 20 + 13;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;

/// The server of this connection closes it.
pub(crate) fn end(plane: &mut DataPlane, connection: &Frame) {
    let (source, destination) = (connection.destination, connection.source);
    let mut frame = Frame { source, destination, ..connection.clone() }.bytes(b"");
    frame[FLAGS] = RST;
    plane.leave(&frame).expect("it runs");
}

/// Caches `key:number` in the entry of this number, under version 100.
pub(crate) fn cache(plane: &mut DataPlane, number: u32, bytes: &[u8]) {
    cache_at(plane, number, bytes, SERVER);
}

pub(crate) fn cache_at(plane: &mut DataPlane, number: u32, bytes: &[u8], server: &str) {
    let key = Key {
        name: name(number),
        bytes: Vec::new(),
        server: at(server),
        protocol: Protocol::NetCache,
        lease: 0,
    };
    plane.leases[0].store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let room = Room { place: number, bitmap: 0x7ff };
    assert!(plane.admit(number, &key, room, 100), "there is room");
    assert!(plane.fill(number, 100, &value(bytes)));
}
