//! Cached keys of a memcached, and which of them a write has dropped.

use std::sync::atomic::Ordering::Relaxed;

use switch::{
    frame::Frame,
    install::{Key, Room, Value},
    layout::Protocol,
    name,
    plane::{DataPlane, TRANSMIT},
};
use wire::memcache::{frame::Frame as Datagram, item::Item};

use super::{at, value};

pub(crate) const SERVER: &str = "10.0.0.2:11211";
pub(crate) const KEYS: [&str; 3] = ["a", "b", "c"];
pub(crate) const STORED: &str = "STORED\r\n";

pub(crate) fn set(key: &str) -> String {
    format!("set {key} 0 0 1\r\nx\r\n")
}

/// Caches all keys again: a value that is read while a write is unanswered may be old.
pub(crate) fn cache(plane: &mut DataPlane) {
    for (number, key) in KEYS.iter().enumerate() {
        let item = Item { flags: 0, lives_s: None, value: b"old".to_vec() };
        let named = named(plane, SERVER, key, false);
        cache_text(plane, number as u32, &named, &item.get_text(key.as_bytes()));
    }
}

/// The cache key of `key` at `server`, for a get or a meta get.
pub(crate) fn named(plane: &DataPlane, server: &str, key: &str, meta: bool) -> Key {
    Key {
        name: name::memcache(key.as_bytes(), at(server), meta, plane.config().seed),
        bytes: key.as_bytes().to_vec(),
        server: at(server),
        protocol: Protocol::Memcache,
        lease: 0,
    }
}

/// Caches the reply `text` in this entry, under version 100.
pub(crate) fn cache_text(plane: &mut DataPlane, place: u32, key: &Key, text: &[u8]) {
    assert!(plane.admit(place, key, Room { place, bitmap: 0 }, 100), "there is room");
    let epoch = plane.shared().epoch.load(Relaxed);
    assert!(plane.fill(place, 100, &Value { epoch, ..value(text) }));
}

/// The keys that are not served.
pub(crate) fn gone(plane: &mut DataPlane) -> String {
    let is_served = |plane: &mut DataPlane, key: &str| {
        let get = Datagram::whole(1, format!("get {key}\r\n").as_bytes()).bytes();
        let frame = Frame::udp(at("10.0.0.9:9"), at(SERVER)).bytes(&get);
        plane.run(&frame, 1).expect("it runs").verdict == TRANSMIT
    };
    KEYS.into_iter().filter(|key| !is_served(plane, key)).collect()
}
