//! While a MongoDB origin is down, drivers continue: stored documents are served on connections
//! that have proven their rights, until their authorization lease elapses; all other requests are
//! refused with a code, and nothing has to be restarted afterwards.

use std::net::SocketAddr;

use crate::support::enroute::Cache;
use crate::support::message;
use crate::support::origins::Mongo;
use crate::support::process::{free_address, start_again};
use bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, ReadConcern};
use mongodb::sync::{Client, Collection};
use testbed::link::{Relay, RelayConfig};

const LONG: &str = "[storage]\nauthorization_lease = \"60min\"\n";
const HOST_UNREACHABLE: i32 = 6;

#[test]
fn with_ferretdb() {
    clients_go_on(Mongo::start_ferretdb);
}

#[test]
fn with_mongo_java() {
    clients_go_on(Mongo::start_java);
}

fn clients_go_on(start: fn() -> Option<Mongo>) {
    let Some(origin) = start() else { return };
    // The relay goes down in place of the origin: connections are lost, the origin's state is not.
    let mut config = RelayConfig::new(origin.address());
    config.listen = free_address();
    let relay = Relay::start(config.clone()).expect("a relay");
    let cache = Cache::start("mongodb", relay.local_addr(), LONG);
    let old = users(cache.address());
    old.insert_one(doc! { "_id": "42", "name": "Ada" }).run().expect("inserted");
    while cache.hits() < 1.0 {
        find(&old, "42").expect("answered");
    }
    relay.stop();

    let hits = cache.hits();
    for _ in 0..3 {
        assert_eq!(find(&old, "42").expect("stored").expect("there")["name"], "Ada".into());
        // The rights of a new client cannot be determined.
        let refused = find(&users(cache.address()), "42").expect_err("not proven");
        assert_eq!(code(&refused), Some(HOST_UNREACHABLE), "{refused}");
        // Each is a new client: it handshakes on new connections and monitors the server on
        // another.
        for users in [&old, &users(cache.address()), &users(cache.address())] {
            let refused = find(users, "missing").expect_err("not stored");
            assert_eq!(code(&refused), Some(HOST_UNREACHABLE), "{refused}");
            let refused = users.insert_one(doc! { "_id": "43" }).run().expect_err("not writable");
            assert_eq!(code(&refused), Some(HOST_UNREACHABLE), "{refused}");
        }
    }
    assert!(cache.hits() >= hits + 3.0);

    let relay = start_again(&config);
    for users in [&old, &users(cache.address())] {
        assert_eq!(find(users, "missing").expect("answered"), None);
        let filter = doc! { "_id": "42" };
        users.update_one(filter, doc! { "$set": { "name": "Eve" } }).run().expect("updated");
        assert_eq!(find(users, "42").expect("answered").expect("there")["name"], "Eve".into());
    }
    relay.stop();
}

#[test]
fn a_greeting_is_repeated_for_as_long_as_answers_are() {
    let Some(origin) = Mongo::start_ferretdb() else { return };
    // On a busy machine a short lease may elapse before any driver sends its next greeting.
    let is_repeated = |ttl: &str| is_repeated_and_ages(&origin, ttl);
    assert!(["400ms", "4s", "30s"].into_iter().any(is_repeated), "the greeting is not repeated");
}

/// Whether a `hello` reply was repeated while the origin was down, until it expired.
fn is_repeated_and_ages(origin: &Mongo, ttl: &str) -> bool {
    let relay = Relay::start(RelayConfig::new(origin.address())).expect("a relay");
    let options = format!("[storage]\nttl = \"{ttl}\"\n");
    let cache = Cache::start("mongodb", relay.local_addr(), &options);
    let hello = doc! { "hello": 1, "$db": "admin" };
    let ask =
        |command: &Document| message::Client::connect(cache.address()).command(command.clone());
    assert_eq!(ask(&hello).get_bool("isWritablePrimary").ok(), Some(true));
    relay.stop();
    let greeting = ask(&hello);
    if refusal(&greeting) == Some(HOST_UNREACHABLE) {
        return false;
    }
    assert_eq!(greeting.get_bool("isWritablePrimary").ok(), Some(true), "{greeting}");
    assert!(!greeting.contains_key("topologyVersion"), "{greeting}");
    // A client that logs in does not get the reply of another client.
    let known = doc! { "hello": 1, "saslSupportedMechs": "admin.user", "$db": "admin" };
    assert_eq!(refusal(&ask(&known)), Some(HOST_UNREACHABLE));
    assert_eq!(refusal(&ask(&doc! { "ping": 1, "$db": "admin" })), Some(HOST_UNREACHABLE));
    let started = std::time::Instant::now();
    while refusal(&ask(&hello)) != Some(HOST_UNREACHABLE) {
        assert!(started.elapsed() < crate::support::process::PATIENCE, "the greeting never ages");
    }
    true
}

fn refusal(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

fn users(address: SocketAddr) -> Collection<Document> {
    let url = format!("mongodb://{address}/?directConnection=true");
    let mut options = ClientOptions::parse(url).run().expect("a URL");
    options.server_selection_timeout = Some(crate::support::process::PATIENCE);
    options.retry_writes = Some(false);
    options.read_concern = Some(ReadConcern::local());
    let client = Client::with_options(options).expect("good options");
    client.database("shop").collection("users")
}

fn find(users: &Collection<Document>, id: &str) -> mongodb::error::Result<Option<Document>> {
    users.find_one(doc! { "_id": id }).run()
}

fn code(error: &mongodb::error::Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}
