//! Nothing is served unless the stream was recently confirmed to be complete.

use std::time::Duration;

use super::{SILENCE_MAX, World, batch, change, event_token, greeting, token};

#[test]
fn nothing_is_stored_until_the_stream_has_reached_the_origin() {
    let mut world = World::new();
    let users = world.namespace("users");
    assert!(world.lease(users, 1).is_none());
    world.connect();
    world.greet();
    world.opened(10);
    assert!(world.lease(users, 1).is_none(), "the position of the stream is not known yet");
    world.position(20);
    world.batch(&[], &token(19));
    assert!(world.lease(users, 1).is_none(), "the stream is behind");
    world.batch(&[], &token(20));
    world.store("users", 1);
}

#[test]
fn a_stream_that_falls_behind_suspends_and_one_that_catches_up_resumes() {
    let mut world = World::standing();
    world.store("users", 1);
    world.store("users", 2);
    world.now += Duration::from_secs(1);
    world.batch(&[], &token(10));
    world.position(30);
    // Without a majority the origin advances, but its stream does not; it still answers.
    for _ in 0..3 {
        world.now += Duration::from_secs(1);
        world.batch(&[], &token(10));
        world.position(30);
        assert!(world.serves("users", 1));
    }
    world.now += Duration::from_secs(1);
    assert_eq!(world.feed.poll_timeout(), super::START + SILENCE_MAX);
    world.feed.handle_timeout(&mut world.storage, world.now).expect("it still answers");
    assert!(!world.feed.is_open() && !world.serves("users", 1));
    // Keys that changed in the meantime are dropped; the other entries stayed valid.
    let last = event_token(30, 1);
    world.batch(&[change("update", 1, (30, 1))], &last);
    assert!(!world.feed.is_open(), "there may be more events of that time");
    world.position(30);
    world.batch(&[], &last);
    assert!(world.feed.is_open());
    assert!(!world.serves("users", 1) && world.serves("users", 2));
}

#[test]
fn a_transaction_is_not_confirmed_by_its_first_events() {
    let mut world = World::standing();
    for key in 1..=3 {
        world.store("users", key);
    }
    world.now += SILENCE_MAX;
    world.feed.handle_timeout(&mut world.storage, world.now).ok();
    world.batch(&[change("update", 1, (20, 1))], &event_token(20, 1));
    world.position(20);
    world.batch(&[change("update", 2, (20, 2))], &event_token(20, 2));
    assert!(!world.feed.is_open());
    world.batch(&[change("update", 3, (20, 3)), change("insert", 9, (21, 4))], &event_token(21, 4));
    assert!(world.feed.is_open(), "the stream has gone past the transaction");
    assert!((1..=3).all(|key| !world.serves("users", key)));
}

#[test]
fn of_several_shards_an_empty_batch_is_no_end_of_a_moment() {
    let mut world = World::new();
    world.connect();
    world.answer("hello", |hello| {
        hello.str("msg", "isdbgrid");
        hello.nested("topologyVersion", |version| version.i32("processId", 1));
        hello.f64("ok", 1.0);
    });
    let position = |hello: &mut wire::mongo::bson::Writer<'_>| {
        hello.nested("topologyVersion", |version| version.i32("processId", 1));
        hello.nested("$clusterTime", |time| time.timestamp("clusterTime", 20));
        hello.f64("ok", 1.0);
    };
    world.opened(10);
    world.answer("hello", position);
    world.batch(&[change("update", 1, (20, 1))], &event_token(20, 1));
    world.batch(&[], &event_token(20, 1));
    assert!(!world.feed.is_open());
    world.batch(&[], &token(20));
    assert!(world.feed.is_open());
    // What mongos knows of a shard's time is up to one poll of the stream old.
    let bound = world.now + SILENCE_MAX - Duration::from_secs(1);
    assert_eq!(world.feed.poll_timeout(), bound);
    world.feed.handle_timeout(&mut world.storage, bound).expect("it still answers");
    assert!(!world.feed.is_open());
}

#[test]
fn silence_ends_it() {
    let mut world = World::standing();
    world.store("users", 1);
    assert!(world.feed.handle_timeout(&mut world.storage, world.now + SILENCE_MAX).is_err());
    assert!(!world.serves("users", 1));
}

#[test]
fn an_origin_that_does_not_state_how_far_it_is_gets_no_feed() {
    let mut world = World::new();
    world.connect();
    world.greet();
    let error = world.refuse("aggregate", |reply| {
        reply.nested("cursor", |cursor| {
            cursor.i64("id", 99);
            cursor.str("ns", "admin.$cmd.aggregate");
            cursor.array("firstBatch", |_| {});
        });
        reply.f64("ok", 1.0);
    });
    assert!(error.contains("postBatchResumeToken"), "{error}");

    world.connect();
    world.greet();
    world.opened(10);
    let error = world.refuse("hello", |hello| {
        hello.nested("topologyVersion", |version| version.i32("processId", 1));
        hello.f64("ok", 1.0);
    });
    assert!(error.contains("lastWrite.opTime"), "{error}");

    world.connect();
    world.greet();
    let strange = super::document(|token| token.str("_data", "00"));
    let error = world.refuse("aggregate", |reply| batch(reply, "firstBatch", &[], &strange));
    assert!(error.contains("resume token"), "{error}");
    assert!(!world.feed.is_open());
}

#[test]
fn questions_are_asked_four_times_a_second_at_most() {
    let mut world = World::standing();
    for number in 1..=20 {
        // The stream is busy: each batch comes at once.
        world.batch(&[change("update", 1, (20, number))], &event_token(20, number));
    }
    assert_eq!(world.asked.len(), 1, "no `hello` in between: {:?}", world.asked);
    world.now += Duration::from_millis(250);
    world.batch(&[change("update", 1, (20, 21))], &event_token(20, 21));
    assert_eq!(world.asked[0].1, "hello");
    let process = world.process;
    world.answer("hello", |hello| greeting(hello, process, 19));
    assert!(world.feed.is_open());
}
