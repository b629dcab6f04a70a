//! What happens to stored answers when the feed's connection is lost.

use super::{World, change, event_token, failure, token};

impl World {
    /// Connects again; returns the command that opened the stream.
    fn reconnect(&mut self, time: u64) -> String {
        self.connect();
        self.greet();
        let opened = self.opened(time);
        String::from_utf8_lossy(&opened).into_owned()
    }
}

#[test]
fn a_feed_that_resumes_serves_what_was_not_changed() {
    let mut world = World::standing();
    world.store("users", 1);
    world.store("users", 2);
    world.lose();
    assert!(!world.feed.is_open() && !world.serves("users", 1));
    let opened = world.reconnect(10);
    assert!(opened.contains("resumeAfter"), "{opened}");
    world.position(20);
    world.batch(&[change("update", 1, (15, 1))], &event_token(15, 1));
    assert!(!world.serves("users", 2), "not confirmed yet");
    world.batch(&[], &token(20));
    assert!(!world.serves("users", 1) && world.serves("users", 2));
}

#[test]
fn another_process_or_one_without_a_name_drops_all() {
    for process in [2, 0] {
        let mut world = World::standing();
        world.store("users", 1);
        world.lose();
        world.process = process;
        world.connect();
        world.answer("hello", |hello| {
            hello.str("setName", "rs");
            if process != 0 {
                hello.nested("topologyVersion", |version| version.i32("processId", process));
            }
            hello.f64("ok", 1.0);
        });
        world.begins_anew(10);
    }
}

#[test]
fn an_election_drops_all_and_the_feed_goes_on() {
    let mut world = World::standing();
    world.store("users", 1);
    world.now += std::time::Duration::from_secs(1);
    world.batch(&[], &token(10));
    world.process = 2;
    world.position(10);
    assert!(world.feed.is_open() && !world.serves("users", 1));
}

#[test]
fn a_temporary_error_resumes_and_any_other_begins_anew() {
    for (code, resumes) in [(189, true), (11602, true), (43, true), (280, false), (1, false)] {
        let mut world = World::standing();
        world.store("users", 1);
        world.refuse("getMore", |reply| failure(reply, code, "no"));
        assert!(!world.serves("users", 1));
        let opened = world.reconnect(10);
        assert_eq!(opened.contains("resumeAfter"), resumes, "{code}");
        world.caught_up(10);
        assert_eq!(world.serves("users", 1), resumes, "{code}");
    }
}

#[test]
fn a_token_that_the_origin_refuses_is_not_tried_again() {
    let mut world = World::standing();
    world.store("users", 1);
    world.lose();
    world.connect();
    world.greet();
    world.refuse("aggregate", |reply| failure(reply, 286, "the oplog no longer has it"));
    let opened = world.reconnect(50);
    assert!(!opened.contains("resumeAfter"), "{opened}");
    world.caught_up(50);
    assert!(world.feed.is_open() && !world.serves("users", 1));
}

#[test]
fn a_cursor_that_ends_begins_anew() {
    let mut world = World::standing();
    world.store("users", 1);
    let error = world.refuse("getMore", |reply| {
        reply.nested("cursor", |cursor| {
            cursor.i64("id", 0);
            cursor.str("ns", "admin.$cmd.aggregate");
            cursor.array("nextBatch", |_| {});
            let token = token(10);
            let token = wire::mongo::bson::Document::parse(&token).unwrap();
            cursor.document("postBatchResumeToken", token);
        });
        reply.f64("ok", 1.0);
    });
    assert!(error.contains("goes on"), "{error}");
    assert!(!world.reconnect(10).contains("resumeAfter"));
}

#[test]
fn a_standalone_server_and_missing_rights_are_errors_that_say_so() {
    let mut world = World::new();
    world.connect();
    let error = world.refuse("hello", |hello| {
        hello.i32("maxWireVersion", 21);
        hello.f64("ok", 1.0);
    });
    assert!(error.contains("standalone") && error.contains("`ttl`"), "{error}");

    world.connect();
    world.greet();
    let denied = "not authorized on admin to execute command";
    let error = world.refuse("aggregate", |reply| failure(reply, 13, denied));
    assert!(error.contains(denied) && error.contains("any database"), "{error}");

    world.connect();
    let error = world.refuse("hello", |hello| failure(hello, 59, "no such command: 'hello'"));
    assert!(error.contains("no such command"), "{error}");
}
