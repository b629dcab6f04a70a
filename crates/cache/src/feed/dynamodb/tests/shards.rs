//! Shards that end, split, and are found late.

use super::*;

#[test]
fn the_shards_that_continue_another_are_read_from_their_beginning() {
    for children in [1, 2] {
        let mut world = World::standing();
        (1..=6).for_each(|item| world.store(item));
        world.origin.write("items", 1);
        world.origin.split("items", children, false);
        // Before the feed knows the next shards.
        world.origin.write("items", 2);
        world.origin.write("items", 3);
        world.origin.asked.clear();
        world.run(SECOND);
        assert!(world.feed.is_open());
        assert!(!world.serves(1) && !world.serves(2) && !world.serves(3) && world.serves(4));
        let begun = |asked: &[String]| {
            let all = asked.iter().filter(|asked| asked.starts_with("GetShardIterator"));
            assert!(all.clone().all(|asked| asked.ends_with("TRIM_HORIZON")), "{asked:?}");
            all.count()
        };
        assert_eq!(begun(&world.origin.asked), children);
        world.origin.write("items", 4);
        world.origin.write("items", 5);
        world.run(SECOND);
        assert!(!world.serves(4) && !world.serves(5) && world.serves(6));
        // Again, long after.
        world.run(REFRESH);
        world.origin.split("items", 2, false);
        world.origin.write("items", 6);
        world.run(SECOND);
        assert!(!world.serves(6) && world.feed.is_open());
    }
}

#[test]
fn nothing_is_confirmed_until_the_shards_that_continue_one_are_found() {
    let mut world = World::standing();
    world.store(1);
    world.origin.split("items", 1, true);
    world.origin.write("items", 1);
    world.run(SILENCE_MAX - SECOND);
    assert!(world.serves(1), "the write is not older than the bound");
    world.run(2 * SECOND);
    assert!(!world.serves(1) && !world.feed.is_open(), "it is suspended");
    world.origin.stream("items").shards[1].hidden = false;
    world.run(SECOND);
    assert!(world.feed.is_open() && !world.serves(1));
}

/// Then records may be lost.
#[test]
fn a_shard_that_nothing_continues_drops_the_table() {
    let mut world = World::standing();
    world.store(1);
    world.store(2);
    world.origin.split("items", 1, true);
    world.origin.write("items", 1);
    world.run(2 * SILENCE_MAX);
    // It began anew, without any open shard.
    assert!(!world.feed.is_open() && !world.serves(1) && !world.serves(2));
    world.origin.stream("items").shards[1].hidden = false;
    world.run(2 * SILENCE_MAX);
    assert!(world.feed.is_open() && !world.serves(1) && !world.serves(2), "all was dropped");
}

/// One of them may be the continuation of a shard that ended at that moment.
#[test]
fn a_shard_that_is_found_later_is_read_from_its_beginning() {
    let mut world = World::new();
    world.origin.page = 1;
    world.origin.split("items", 2, false);
    world.origin.split("items", 1, true);
    world.connect();
    world.run(2 * SECOND);
    assert!(!world.feed.is_open(), "the end of the first child is not continued");
    world.origin.stream("items").shards[3].hidden = false;
    world.run(3 * SECOND);
    assert!(world.feed.is_open());
    let begun = world.origin.asked.iter().filter(|asked| asked.starts_with("GetShardIterator"));
    let begun: Vec<&str> = begun.map(String::as_str).collect();
    assert_eq!(begun, ["GetShardIterator LATEST", "GetShardIterator TRIM_HORIZON"]);
}

#[test]
fn a_table_is_confirmed_only_by_replies_that_reach_the_end() {
    let mut world = World::standing();
    world.store(1);
    // A reply is full.
    world.origin.records = 1_000;
    (0..5_000).for_each(|_| world.origin.write("items", 7));
    world.origin.write("items", 1);
    let before = world.now;
    world.run(SECOND);
    assert!(world.serves(1), "it is the last of 5,001 records");
    world.run(5 * PAUSE_MIN);
    assert!(!world.serves(1) && world.now < before + SILENCE_MAX);
    let reads = world.origin.asked.iter().filter(|asked| *asked == "GetRecords").count();
    world.run(10 * SECOND);
    let after = world.origin.asked.iter().filter(|asked| *asked == "GetRecords").count();
    assert!((9..=11).contains(&(after - reads)), "one read each second: {}", after - reads);
    // More than can be read.
    let mut world = World::standing();
    world.store(1);
    for _ in 0..40 {
        (0..2_000).for_each(|_| world.origin.write("items", 7));
        world.run(PAUSE_MIN);
    }
    assert!(!world.serves(1) && !world.feed.is_open(), "it is late");
}

#[test]
fn a_table_with_too_many_shards_is_not_read() {
    let mut world = World::standing();
    world.store(1);
    (0..1_024).for_each(|_| world.origin.split("items", 1, false));
    world.run(REFRESH);
    assert!(!world.is_followed("items") && !world.serves(1));
}

#[test]
fn a_table_is_opened_after_each_of_its_shards_was_read() {
    let mut world = World::new();
    world.origin.split("items", 2, false);
    world.connect();
    while !world.feed.is_open() {
        world.step();
    }
    let count = |operation| world.origin.asked.iter().filter(|asked| *asked == operation).count();
    assert_eq!((count("GetShardIterator LATEST"), count("GetRecords")), (2, 2));
}
