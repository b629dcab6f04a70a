//! The local greedy rule of §3.1: learn every resolved destination, look every other up.

use policy::v2p::{Cache, Header, Mapping};

/// Returns whether the packet was resolved here.
pub(super) fn learn_or_resolve(cache: &mut Cache, header: &mut Header, reseed: u32) -> bool {
    let hash = header.destination_hash ^ reseed;
    if header.resolved {
        cache.put(Mapping { vip: header.destination_vip, pip: header.destination_pip }, hash);
        return false;
    }
    let Some(pip) = cache.get(header.destination_vip, hash) else { return false };
    header.destination_pip = pip;
    header.resolved = true;
    true
}
