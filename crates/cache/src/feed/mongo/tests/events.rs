//! Which entries each kind of event drops.

use super::{World, change, event, event_token, failure, token};

#[test]
fn a_change_drops_its_key_and_what_was_found_by_another_field() {
    for operation in ["insert", "update", "replace", "delete"] {
        let mut world = World::standing();
        let by_email = world.namespace("users").by_field(b"email");
        for key in [1, 2] {
            world.store("users", key);
        }
        world.store_in(by_email, 1);
        world.store("orders", 1);
        world.batch(&[change(operation, 1, (20, 1))], &event_token(20, 1));
        assert!(!world.serves("users", 1), "{operation}");
        assert!(!world.serves_in(by_email, 1), "{operation}");
        assert!(world.serves("users", 2) && world.serves("orders", 1), "{operation}");
    }
}

#[test]
fn a_reply_that_was_read_before_a_change_is_not_stored_after_it() {
    let mut world = World::standing();
    let users = world.namespace("users");
    let late = world.lease(users, 1).expect("open");
    let other = world.lease(users, 2).expect("open");
    world.batch(&[change("delete", 1, (20, 1))], &event_token(20, 1));
    assert!(!world.fill(late, users, 1));
    assert!(world.fill(other, users, 2));
}

#[test]
fn a_number_is_the_same_key_in_each_of_its_types() {
    let mut world = World::standing();
    world.store("users", 1);
    let double = event("update", "users", (20, 1), |event| {
        event.nested("documentKey", |key| key.f64("_id", 1.0));
    });
    world.batch(&[double], &event_token(20, 1));
    assert!(!world.serves("users", 1));
}

#[test]
fn what_concerns_a_collection_drops_all_of_it() {
    for operation in ["drop", "create", "modify", "dropIndexes"] {
        let mut world = World::standing();
        let by_email = world.namespace("users").by_field(b"email");
        world.store("users", 1);
        world.store_in(by_email, 1);
        world.store("orders", 1);
        world.batch(&[event(operation, "users", (20, 1), |_| {})], &token(20));
        assert!(!world.serves("users", 1) && !world.serves_in(by_email, 1), "{operation}");
        assert!(world.serves("orders", 1), "{operation}");
    }
}

#[test]
fn a_rename_drops_both_names() {
    let mut world = World::standing();
    for collection in ["users", "people", "orders"] {
        world.store(collection, 1);
    }
    let rename = event("rename", "users", (20, 1), |event| {
        event.nested("to", |to| {
            to.str("db", "shop");
            to.str("coll", "people");
        });
    });
    world.batch(&[rename], &event_token(20, 1));
    assert!(!world.serves("users", 1) && !world.serves("people", 1));
    assert!(world.serves("orders", 1));
}

#[test]
fn a_database_and_what_is_not_known_drop_all_of_theirs() {
    for operation in ["dropDatabase", "frobnicate"] {
        let mut world = World::standing();
        world.store("users", 1);
        let other = crate::key::Namespace::new(0, "", b"bank", b"accounts");
        world.store_in(other, 1);
        world.batch(&[event(operation, "users", (20, 1), |_| {})], &event_token(20, 1));
        assert!(!world.serves("users", 1), "{operation}");
        assert_eq!(world.serves_in(other, 1), operation == "dropDatabase");
        assert!(world.feed.is_open(), "{operation}");
    }
}

#[test]
fn an_invalidated_stream_begins_anew_and_drops_all() {
    let mut world = World::standing();
    world.store("users", 1);
    let error = world.refuse("getMore", |reply| {
        super::batch(
            reply,
            "nextBatch",
            &[event("invalidate", "users", (20, 1), |_| {})],
            &token(20),
        );
    });
    assert!(error.contains("invalidate"), "{error}");
    world.connect();
    world.greet();
    world.begins_anew(30);
}

#[test]
fn events_before_a_cut_in_the_middle_of_a_batch_count_and_the_rest_is_reported_again() {
    let mut world = World::standing();
    for key in 1..=3 {
        world.store("users", key);
    }
    let events = [change("update", 1, (20, 1)), change("update", 2, (20, 2))];
    let mut reply = Vec::new();
    let body =
        super::document(|reply| super::batch(reply, "nextBatch", &events, &event_token(20, 2)));
    let (id, ..) = world.asked[0];
    let id = if world.asked[0].1 == "getMore" { id } else { world.asked[1].0 };
    wire::mongo::message::write(&mut reply, 1, id, &body);
    let cut = reply.len() - 10;
    world.feed.receive(&reply[..cut], &mut world.storage, world.now).unwrap();
    world.lose();
    assert!((1..=3).all(|key| !world.serves("users", key)));
    world.connect();
    world.greet();
    let opened = String::from_utf8_lossy(&world.opened(10)).into_owned();
    assert!(opened.contains("resumeAfter") && opened.contains("82000000000000000A"), "{opened}");
    world.position(20);
    world.batch(&events, &event_token(20, 2));
    world.batch(&[], &event_token(20, 2));
    assert!(world.feed.is_open());
    assert!(!world.serves("users", 1) && !world.serves("users", 2) && world.serves("users", 3));
}

#[test]
fn a_malformed_event_drops_all() {
    let mut world = World::standing();
    world.store("users", 1);
    let mut wrong = change("update", 1, (20, 1));
    let at = wrong.len() - 3;
    // The type of the last element of documentKey becomes one that BSON does not have.
    let place = wrong.windows(4).rposition(|window| window == b"\x10_id").unwrap_or(at);
    wrong[place] = 0x77;
    let error = world.refuse("getMore", |reply| {
        super::batch(reply, "nextBatch", &[wrong], &token(20));
    });
    assert!(error.contains("mongodb"), "{error}");
    world.connect();
    world.greet();
    world.opened(30);
    world.caught_up(30);
    assert!(!world.serves("users", 1));
}

#[test]
fn a_lost_history_drops_all() {
    let mut world = World::standing();
    world.store("users", 1);
    let error = world.refuse("getMore", |reply| failure(reply, 286, "resume point is gone"));
    assert!(error.contains("286") && error.contains("resume point is gone"), "{error}");
    world.connect();
    world.greet();
    world.begins_anew(30);
}
