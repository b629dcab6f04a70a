use super::*;
use crate::config::Replacement;

const NOW: Duration = Duration::ZERO;

fn memory(items_max: usize, replacement: Replacement) -> Memory {
    Memory::new(Config { items_max, replacement, ..Config::default() }, 1)
}

fn put(memory: &mut Memory, key: u64, value: &[u8]) -> Result<Insert, Refused> {
    memory.insert(key, &key.to_le_bytes(), value, None, NOW)
}

fn holds(memory: &Memory, key: u64) -> bool {
    memory.peek(key, &key.to_le_bytes(), NOW).is_some()
}

#[test]
fn finds_what_was_stored_and_nothing_else() {
    let mut memory = memory(10, Replacement::Lru);
    assert_eq!(put(&mut memory, 1, b"one"), Ok(Insert { replaced: false, evicted: 0 }));
    assert_eq!(put(&mut memory, 1, b"uno"), Ok(Insert { replaced: true, evicted: 0 }));
    assert_eq!(memory.lookup(1, &1u64.to_le_bytes(), NOW), Some(&b"uno"[..]));
    assert_eq!(put(&mut memory, 1, &[7; 1000]), Ok(Insert { replaced: true, evicted: 0 }));
    assert_eq!(memory.lookup(1, &1u64.to_le_bytes(), NOW), Some(&[7; 1000][..]));
    // The same hash with another key is another item.
    assert_eq!(memory.lookup(1, b"other", NOW), None);
    assert!(memory.remove(1, &1u64.to_le_bytes()));
    assert!(!memory.remove(1, &1u64.to_le_bytes()));
    assert!(!holds(&memory, 1));
}

#[test]
fn the_least_recently_used_leaves_first() {
    let mut memory = memory(3, Replacement::Lru);
    for key in 1..=3 {
        put(&mut memory, key, b"value").unwrap();
    }
    memory.lookup(1, &1u64.to_le_bytes(), NOW);
    assert_eq!(put(&mut memory, 4, b"value"), Ok(Insert { replaced: false, evicted: 1 }));
    assert_eq!([1, 2, 3, 4].map(|key| holds(&memory, key)), [true, false, true, true]);
}

#[test]
fn a_refused_insert_leaves_no_old_value() {
    let mut memory = Memory::new(Config { value_bytes_max: 8, ..Config::default() }, 1);
    put(&mut memory, 1, b"old").unwrap();
    assert_eq!(put(&mut memory, 1, &[0; 9]), Err(Refused::ValueTooLong { got: 9, limit: 8 }));
    assert!(!holds(&memory, 1));
    memory.resize(0, 1 << 20);
    assert_eq!(put(&mut memory, 1, b"new"), Err(Refused::Off));
    memory.resize(1, 4096);
    assert!(matches!(put(&mut memory, 1, b"new"), Err(Refused::NoRoom { .. })));
}

#[test]
fn upkeep_ends_where_nothing_is_left_to_give_up() {
    let mut memory = memory(usize::MAX, Replacement::Lru);
    for key in 0..10_000 {
        put(&mut memory, key, b"value").unwrap();
    }
    memory.resize(usize::MAX, 0);
    let steps = (0..100_000).take_while(|_| memory.step(32, NOW)).count();
    assert!(steps < 100_000, "more than 100,000 steps");
    assert_eq!(memory.stats().items, 0);
    assert!(memory.accounted_bytes() > 0, "the fixed memory exceeds this limit");
}

#[test]
fn expired_items_are_misses_and_are_swept() {
    let mut memory = memory(usize::MAX, Replacement::Fifo);
    let at = |seconds| Duration::from_secs(seconds);
    for key in 0..10_000u64 {
        memory.insert(key, &key.to_le_bytes(), b"value", Some(at(key % 10 + 1)), NOW).unwrap();
    }
    assert_eq!(memory.lookup(0, &0u64.to_le_bytes(), at(1)), None);
    assert_eq!(memory.stats().items, 9_999);
    while memory.step(100, at(5)) {}
    assert_eq!(memory.stats().items, 5_000);
    assert_eq!(memory.stats().expirations, 5_000);
    assert!(memory.peek(9, &9u64.to_le_bytes(), at(9)).is_some());
    while memory.step(100, at(10)) {}
    assert_eq!((memory.stats().items, memory.stats().live_bytes), (0, 0));
}

#[test]
fn clearing_maps_nothing_where_nothing_was_stored() {
    use crate::mapping::RESERVED;
    let mut memory = memory(usize::MAX, Replacement::S3Fifo);
    let reserved = RESERVED.get();
    memory.clear();
    assert_eq!(RESERVED.get(), reserved, "nothing was ever stored");
    for round in 1..=3 {
        put(&mut memory, round, b"value").unwrap();
        memory.clear();
        let cleared = RESERVED.get();
        assert!(!holds(&memory, round) && cleared > reserved);
        memory.clear();
        assert_eq!(RESERVED.get(), cleared, "nothing was stored since");
        let stats = memory.stats();
        assert_eq!((stats.items, stats.inserts, stats.removals), (0, round, round));
    }
}
