//! Names of memcached's keys in the lookup table: two hashes, as `bpf/text.h` computes them.

use std::net::SocketAddr;

use policy::hotkey::hash;

use crate::layout::{Name, address_bytes};

/// The name of a key at a server. `meta` names what answers `mg <key> v` instead of `get <key>`.
/// Keys of equal name are told apart by their bytes.
pub fn memcache(key: &[u8], server: SocketAddr, meta: bool, seed: u64) -> Name {
    let port = u64::from(server.port().to_be());
    let address = address_bytes(server.ip());
    // Both start from seed and length; the server's address has 16 bytes.
    let mix = hash(&address, seed.wrapping_add(port) ^ address.len() as u64);
    let second = hash(key, mix) & !1 | u64::from(meta);
    let mut name = [0; 16];
    name[..8].copy_from_slice(&hash(key, seed).to_le_bytes());
    name[8..].copy_from_slice(&second.to_le_bytes());
    name
}

/// Whether a name is that of a meta get.
pub fn is_meta(name: &Name) -> bool {
    name[8] & 1 == 1
}
