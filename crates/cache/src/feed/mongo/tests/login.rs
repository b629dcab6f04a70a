//! The login of the feed, with the example exchange of RFC 7677.

use wire::mongo::bson::{Document, Writer};

use super::World;
use crate::feed::Config;

fn binary<'a>(body: &'a Document<'a>) -> &'a str {
    let (_, bytes) = body.element("payload").unwrap().unwrap().binary().unwrap();
    std::str::from_utf8(bytes).unwrap()
}

fn step(reply: &mut Writer<'_>, payload: &str, done: bool) {
    reply.i32("conversationId", 5);
    reply.bool("done", done);
    reply.binary("payload", payload.as_bytes());
    reply.f64("ok", 1.0);
}

fn world() -> World {
    let login = Some((Some("user".to_owned()), "pencil".to_owned()));
    let mut world = World::with(Config { login, ..Config::default() });
    world.connect();
    world.greet();
    world
}

/// The origin's reply to the first message.
fn challenge(first: &str) -> String {
    let nonce = first.split("r=").nth(1).unwrap();
    format!("r={nonce}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
}

#[test]
fn an_origin_with_the_password_opens_the_stream() {
    // With the last, empty exchange or without it.
    for done in [true, false] {
        let mut world = world();
        let (_, _, start) = world.asked[0].clone();
        let first = binary(&Document::parse(&start).unwrap()).to_owned();
        world.answer("saslStart", |reply| step(reply, &challenge(&first), false));
        world.answer("saslContinue", |reply| {
            step(reply, "v=I+eNnjrA4cHt+UX2rgu23NESUEojT00QvqKc6YtDxpI=", done);
        });
        if !done {
            world.answer("saslContinue", |reply| step(reply, "", true));
        }
        world.opened(10);
        world.caught_up(10);
        assert!(world.feed.is_open());
    }
}

#[test]
fn an_origin_without_the_password_gets_no_further() {
    let mut world = world();
    let (_, _, start) = world.asked[0].clone();
    let start = Document::parse(&start).unwrap();
    assert_eq!(start.element("mechanism").unwrap().unwrap().str(), Some("SCRAM-SHA-256"));
    let first = binary(&start).to_owned();
    assert!(first.starts_with("n,,n=user,r=0000"), "{first}");
    world.answer("saslStart", |reply| step(reply, &challenge(&first), false));
    let (_, _, proof) = world.asked[0].clone();
    assert!(binary(&Document::parse(&proof).unwrap()).contains(",p="));
    let error = world.refuse("saslContinue", |reply| step(reply, "v=AAAA", true));
    assert!(error.contains("proves to know the password"), "{error}");

    // The same if the origin claims that the exchange is complete.
    world.connect();
    world.greet();
    world.answer("saslStart", |reply| step(reply, &challenge(&first), false));
    let error = world.refuse("saslContinue", |reply| step(reply, "", true));
    assert!(error.contains("proves to know the password"), "{error}");
}

#[test]
fn a_login_that_is_refused_says_so_and_shows_no_password() {
    let mut world = world();
    let error =
        world.refuse("saslStart", |reply| super::failure(reply, 18, "Authentication failed."));
    assert!(error.contains("log in") && error.contains("Authentication failed."), "{error}");
    assert!(!format!("{:?}", world.feed.login).contains("pencil"));
}
