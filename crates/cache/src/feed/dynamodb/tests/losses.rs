//! Lost connections, iterators and records.

use super::*;

#[test]
fn after_a_lost_connection_nothing_is_missed_and_nothing_is_served_before() {
    let mut world = World::standing();
    world.store(1);
    world.store(2);
    world.lose();
    assert!(!world.serves(1) && !world.serves(2) && !world.feed.is_open());
    assert!(world.lease(3).is_none(), "nothing is stored");
    world.origin.write("items", 1);
    world.run(60 * SECOND);
    world.origin.asked.clear();
    world.connect();
    assert!(!world.serves(2), "not before the stream was read");
    world.run(Duration::ZERO);
    assert!(!world.serves(1) && world.serves(2) && world.feed.is_open());
    let begun = |asked: &&String| asked.starts_with("GetShardIterator");
    assert_eq!(world.origin.asked.iter().filter(begun).count(), 0, "it is read on");
}

#[test]
fn a_request_without_a_reply_is_silence() {
    let mut world = World::standing();
    let due = world.feed.poll_timeout();
    world.feed.handle_timeout(&mut world.storage, due).unwrap();
    assert!(world.asked().is_some());
    assert!(!world.feed.is_idle(), "the origin must not close now");
    world.now = due + SILENCE_MAX;
    let late = world.feed.handle_timeout(&mut world.storage, world.now);
    assert!(late.unwrap_err().contains("no reply"));
    assert!(!world.serves(1) && !world.feed.is_open());
    world.lose();
    assert!(world.feed.is_idle());
}

#[test]
fn an_expired_iterator_is_replaced_after_the_last_record() {
    let mut world = World::standing();
    world.store(1);
    world.store(2);
    world.origin.write("items", 3);
    world.run(SECOND);
    world.lose();
    world.origin.write("items", 1);
    world.origin.expire();
    world.origin.asked.clear();
    world.connect();
    world.run(SECOND);
    assert!(world.feed.is_open() && !world.serves(1) && world.serves(2));
    let begun = "GetShardIterator AFTER_SEQUENCE_NUMBER".to_owned();
    assert!(world.origin.asked.contains(&begun), "{:?}", world.origin.asked);
    // Without a record there is no such place.
    let mut world = World::standing();
    world.store(1);
    world.store(2);
    world.lose();
    world.origin.write("items", 1);
    world.origin.expire();
    world.connect();
    world.run(SECOND);
    assert!(world.feed.is_open() && !world.serves(1) && !world.serves(2));
}

/// Found by the simulation: a shard that was read from its beginning, of which no record was read.
#[test]
fn records_that_are_lost_before_the_first_is_read_drop_the_table() {
    let mut world = World::standing();
    world.origin.split("items", 1, false);
    world.run(SECOND);
    world.store(1);
    world.origin.expire();
    world.origin.write("items", 1);
    world.origin.trim("items");
    world.run(2 * SECOND);
    assert!(world.feed.is_open() && !world.serves(1));
}

#[test]
fn lost_records_drop_the_table_after_the_next_ones_are_read() {
    let mut world = World::standing();
    world.store(1);
    world.origin.write("items", 1);
    world.origin.trim("items");
    while world.feed.is_open() {
        world.step();
    }
    assert!(!world.serves(1));
    world.origin.asked.clear();
    while !world.feed.is_open() {
        // What is read between the loss and the end of the new start is not stored.
        assert!(world.lease(2).is_none());
        world.step();
    }
    let expected = ["DescribeStream", "GetShardIterator LATEST", "GetRecords"];
    assert_eq!(world.origin.asked, expected);
    assert!(!world.serves(1) && world.is_settling(1));
    world.run(3 * SECOND);
    world.store(2);
    world.origin.write("items", 2);
    world.run(SECOND);
    assert!(!world.serves(2), "it is read on from there");
}

#[test]
fn errors_that_pass_suspend_and_lose_nothing() {
    for (operation, status, error) in [
        ("GetRecords", 400, "LimitExceededException"),
        ("GetRecords", 500, "InternalServerError"),
        ("GetRecords", 503, "Unknown"),
    ] {
        let mut world = World::standing();
        world.store(1);
        world.store(2);
        world.origin.error = Some((operation, status, error));
        world.origin.write("items", 1);
        world.run(3 * SECOND);
        assert!(world.serves(2) && world.feed.is_open(), "for less than the bound");
        world.run(3 * SECOND);
        assert!(!world.serves(1) && !world.serves(2) && !world.feed.is_open());
        world.origin.error = None;
        world.run(SECOND);
        assert!(!world.serves(1) && world.serves(2) && world.feed.is_open());
    }
    // While its shards are read, a table may have another stream, or none.
    for operation in ["ListStreams", "DescribeStream"] {
        let mut world = World::standing();
        world.store(1);
        world.origin.error = Some((operation, 400, "ThrottlingException"));
        world.run(REFRESH);
        assert!(world.serves(1) && world.feed.is_open(), "for less than the bound");
        world.run(SILENCE_MAX);
        assert!(!world.serves(1) && !world.feed.is_open(), "{operation}");
        world.origin.error = None;
        world.run(SECOND);
        assert!(world.serves(1) && world.feed.is_open(), "{operation}");
    }
    // Others end the reading of the table; the others are read.
    let mut world = World::standing();
    world.origin.create("beside");
    world.run(REFRESH);
    world.store(1);
    world.origin.error = Some(("DescribeStream", 400, "AccessDeniedException"));
    world.run(REFRESH);
    assert!(!world.is_followed("items") && !world.serves(1));
    world.origin.error = None;
    world.run(REFRESH);
    assert!(world.is_followed("items") && world.feed.is_open());
    assert!(!world.serves(1), "it was not read in between");
}

#[test]
fn records_that_are_not_understood_drop_the_table() {
    let mut world = World::standing();
    world.store(1);
    let due = world.feed.poll_timeout();
    world.now = due;
    world.feed.handle_timeout(&mut world.storage, world.now).unwrap();
    let (operation, _) = world.asked().expect("a request");
    assert_eq!(operation, "GetRecords");
    world.hear(200, r#"{"Records":[{"eventName":"INSERT"}],"NextShardIterator":"x"}"#).unwrap();
    world.run(SECOND);
    assert!(world.feed.is_open() && !world.serves(1));
}
