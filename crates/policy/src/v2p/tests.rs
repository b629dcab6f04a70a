use alloc::sync::Arc;

use super::*;

const PUBLISHED: Rules = Rules::full(1.0, 12_000, Quirks::all(true));
const PAPER: Rules = Rules::full(1.0, 12_000, Quirks::all(false));

const GATEWAY: u32 = 9000;

fn switch(role: Role, entries: u32, rules: Rules) -> Switch {
    Switch::new(7, role, entries, 100..200, Arc::new(rules))
}

fn packet(source: (u32, u32), destination: (u32, u32)) -> Header {
    Header {
        source_vip: source.0,
        source_pip: source.1,
        source_hash: vip_hash(source.0),
        destination_vip: destination.0,
        destination_pip: destination.1,
        destination_hash: vip_hash(destination.0),
        resolved: destination.1 != GATEWAY,
        ..Header::default()
    }
}

fn never() -> f64 {
    panic!("no draw is due here")
}

#[test]
fn lines_are_where_the_reference_puts_them() {
    let cache = Cache::new(64);
    for (vip, line) in [(1, 55), (5202, 15), (10279, 29)] {
        assert_eq!(vip_hash(vip) % 64, line, "vip {vip}");
    }
    drop(cache);
    for (vip, seed) in [(1, 2), (5202, 0xdead_beef), (0, 77)] {
        assert_eq!(vip_hash(vip) ^ reseed(seed), hash::seeded(vip, seed));
    }
}

#[test]
fn a_remainder_without_division_is_the_remainder() {
    for entries in [1, 2, 3, 12, 64, 160, 1280, 192_000] {
        let mut cache = Cache::new(entries);
        for vip in 1..200 {
            let hash = vip_hash(vip);
            cache.put(Mapping { vip, pip: 5 }, hash);
            // The only address of the same line that could displace it is one of equal remainder.
            let twin = hash % entries;
            assert!(cache.holds(vip, hash));
            cache.put(Mapping { vip: 1_000_000, pip: 6 }, twin);
            assert!(!cache.holds(vip, hash), "{entries} entries, vip {vip}");
        }
    }
}

#[test]
fn a_miss_clears_the_access_bit_whoever_owns_the_line() {
    let mut cache = Cache::new(1);
    cache.put(Mapping { vip: 1, pip: 10 }, 0);
    assert_eq!(cache.get(1, 0), Some(10));
    assert!(cache.accessed(0));
    assert_eq!(cache.get(2, 0), None);
    assert!(!cache.accessed(0));
    assert_eq!(cache.get(1, 0), Some(10));
    cache.put(Mapping { vip: 1, pip: 10 }, 0);
    assert!(!cache.accessed(0), "a refresh clears it too");
}

#[test]
fn a_cache_without_lines_holds_nothing() {
    let mut cache = Cache::new(0);
    assert_eq!(cache.put(Mapping { vip: 1, pip: 10 }, 0), Mapping::NONE);
    assert_eq!(cache.get(1, 0), None);
}

#[test]
fn address_zero_is_served_but_never_reported_as_evicted() {
    let mut cache = Cache::new(1);
    cache.put(Mapping { vip: 0, pip: 10 }, 0);
    assert_eq!(cache.get(0, 0), Some(10));
    assert_eq!(cache.put(Mapping { vip: 1, pip: 11 }, 0), Mapping::NONE);
}

#[test]
fn a_gateway_tor_learns_spills_and_announces() {
    let mut tor = switch(Role::GatewayTor, 1, PUBLISHED);
    let mut first = packet((1, 101), (2, 102));
    let outcome = tor.process(&mut first, || 0.5, 0);
    assert_eq!(outcome.emit, Some(Emit::Learning(Mapping { vip: 2, pip: 102 })));
    let mut second = packet((1, 101), (3, 103));
    tor.process(&mut second, || 0.5, 0);
    assert_eq!(second.tag, Mapping { vip: 2, pip: 102 }, "the evicted entry travels on");
    let mut third = packet((1, 101), (3, GATEWAY));
    assert!(tor.process(&mut third, never, 0).hit);
    assert_eq!((third.destination_pip, third.hit, third.resolved), (103, 8, true));
}

#[test]
fn a_published_spine_serves_no_hit_but_the_core_does_at_once() {
    let mut spine = switch(Role::Spine, 4, PUBLISHED);
    spine.process(&mut packet((1, 101), (2, 302)), never, 0);
    let mut unresolved = packet((1, 101), (2, GATEWAY));
    assert!(!spine.process(&mut unresolved, never, 0).hit);
    assert_eq!(unresolved.tag, Mapping { vip: 2, pip: 302 });
    let mut core = switch(Role::Core, 4, PUBLISHED);
    assert!(core.process(&mut unresolved, never, 0).hit, "learned from the tag, then looked up");
}

#[test]
fn a_spine_of_the_paper_serves_hits_and_promotes_what_is_in_use_and_leaves_the_pod() {
    let mut spine = switch(Role::Spine, 4, PAPER);
    spine.process(&mut packet((1, 101), (2, 302)), never, 0);
    let mut once = packet((1, 101), (2, GATEWAY));
    assert!(spine.process(&mut once, never, 0).hit);
    assert!(!once.promotion, "the access bit was clear");
    let mut twice = packet((1, 101), (2, GATEWAY));
    assert!(spine.process(&mut twice, never, 0).hit);
    assert!(twice.promotion);
    let mut core = switch(Role::Core, 4, PAPER);
    core.process(&mut twice, never, 0);
    assert!(core.cache().holds(2, vip_hash(2)));
    assert!(!twice.tag.is_some());
    core.process(&mut packet((1, 101), (5, 302)), never, 0);
    assert!(!core.cache().holds(5, vip_hash(5)), "cores learn from promotions only");
}

#[test]
fn a_spine_keeps_an_entry_in_use() {
    for rules in [PUBLISHED, PAPER] {
        let mut spine = switch(Role::GatewaySpine, 1, rules);
        spine.process(&mut packet((1, 101), (2, 302)), never, 0);
        assert!(spine.process(&mut packet((1, 101), (2, GATEWAY)), never, 0).hit);
        spine.process(&mut packet((1, 101), (3, 303)), never, 0);
        assert!(spine.cache().holds(2, vip_hash(2)));
    }
}

#[test]
fn a_tor_learns_sources() {
    let mut tor = switch(Role::Tor, 4, PUBLISHED);
    tor.process(&mut packet((1, 101), (2, GATEWAY)), never, 0);
    assert!(!tor.cache().holds(1, vip_hash(1)), "the packet came from its own host");
    let mut from_fabric = Header { hops: 2, ..packet((1, 101), (2, 102)) };
    tor.process(&mut from_fabric, never, 0);
    assert!(tor.cache().holds(1, vip_hash(1)));
    let mut tor = switch(Role::Tor, 4, PAPER);
    tor.process(&mut packet((1, 101), (2, GATEWAY)), never, 0);
    assert!(tor.cache().holds(1, vip_hash(1)));
}

#[test]
fn a_misdelivered_packet_drops_the_stale_entry_and_is_reported_once() {
    let misdelivered =
        || Header { misdelivered_from: 102, hit: 4, ..packet((1, 101), (2, GATEWAY)) };
    let stale = Mapping { vip: 2, pip: 102 };
    for (rules, later) in [(PUBLISHED, None), (PAPER, Some(Emit::Invalidation(stale, 3)))] {
        let mut tor = switch(Role::Tor, 4, rules);
        tor.learn_from_packet(stale);
        let mut first = misdelivered();
        let outcome = tor.process(&mut first, never, 50_000);
        assert_eq!(outcome.emit, Some(Emit::Invalidation(stale, 3)));
        assert!(!tor.cache().holds(2, vip_hash(2)));
        assert_eq!(first.hit, 0);
        assert_eq!(tor.process(&mut misdelivered(), never, 51_000).emit, None, "held back");
        assert_eq!(tor.process(&mut misdelivered(), never, 62_000).emit, later);
        tor.learn_from_packet(Mapping { vip: 2, pip: 150 });
        let mut third = misdelivered();
        assert!(!tor.process(&mut third, never, 62_001).hit);
        assert_eq!(third.destination_pip, 150, "a newer entry may be used");
    }
}

#[test]
fn table_1_is_indexed_by_role() {
    for row in TABLE_1 {
        assert_eq!(row.role.features(), row);
    }
}
