//! Every `hello` reply of a replica set lists its members. Through the cache a driver sees the
//! cache's address instead, connects to no other, and continues when the members change.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::support::enroute::Cache;
use crate::support::message;
use crate::support::scripted::ScriptedOrigin;
use bson::{Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::ClientOptions;
use mongodb::sync::Client;

const SCRIPT: &str = r#"
always hello|isMaster|ismaster
reply {"ok": 1, "helloOk": true, "ismaster": true, "isWritablePrimary": true, "secondary": false,
    "setName": "rs", "setVersion": 1, "me": "$address", "primary": "$address",
    "hosts": ["$address", "127.0.0.1:1", "127.0.0.2:27017"], "passives": ["127.0.0.3:27017"],
    "arbiters": ["127.0.0.4:27017"], "minWireVersion": 0, "maxWireVersion": 21,
    "maxBsonObjectSize": 16777216, "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000,
    "logicalSessionTimeoutMinutes": 30}
always endSessions
reply {"ok": 1}
always listCollections
reply {"ok": 1, "cursor": {"id": {"$numberLong": "0"}, "ns": "shop.$cmd.listCollections",
    "firstBatch": [{"name": "users", "type": "collection", "options": {}}]}}
expect find {"filter": {"_id": "42"}}
reply {"ok": 1, "cursor": {"id": {"$numberLong": "0"}, "ns": "shop.users",
    "firstBatch": [{"_id": "42", "name": "Ada"}]}}
expect insert
reply {"ok": 1, "n": 1}
"#;

#[test]
fn drivers_learn_no_other_way_to_a_replica_set() {
    let origin = ScriptedOrigin::start(SCRIPT);
    let cache = Cache::start("mongodb", origin.address(), "");
    let opened = Arc::new(Mutex::new(BTreeSet::new()));
    let url = format!("mongodb://{}/?replicaSet=rs", cache.address());
    let mut options = ClientOptions::parse(url).run().expect("a URL");
    let seen = Arc::clone(&opened);
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        if let SdamEvent::ServerOpening(server) = event {
            seen.lock().unwrap().insert(server.address.to_string());
        }
    }));
    let client = Client::with_options(options).expect("good options");
    let users = client.database("shop").collection::<Document>("users");
    for _ in 0..5 {
        let found = users.find_one(doc! { "_id": "42" }).run().expect("answered");
        assert_eq!(found, Some(doc! { "_id": "42", "name": "Ada" }));
        cache.statistics_once(|statistics| statistics["items"] == 1.0);
    }
    users.insert_one(doc! { "_id": "43" }).run().expect("inserted");
    assert!(cache.hits() >= 4.0, "{:?}", cache.statistics());
    let only = BTreeSet::from([cache.address().to_string()]);
    assert_eq!(*opened.lock().unwrap(), only);

    let mut raw = message::Client::connect(cache.address());
    let greeting = raw.command(doc! { "hello": 1, "$db": "admin" });
    let address = cache.address().to_string();
    for field in ["me", "primary"] {
        assert_eq!(greeting.get_str(field).ok(), Some(address.as_str()), "{greeting}");
    }
    for field in ["hosts", "passives", "arbiters"] {
        let members = greeting.get_array(field).expect("members");
        assert!(members.iter().all(|member| member.as_str() == Some(&address)), "{greeting}");
    }
    origin.finish();
}

#[test]
fn compressed_commands_are_answered_from_storage_too() {
    use message::{Compressor, Message};
    let origin = ScriptedOrigin::start(
        r#"
always hello
reply {"ok": 1, "isWritablePrimary": true, "maxWireVersion": 21,
    "compression": ["zstd", "snappy", "zlib"]}
always listCollections
reply {"ok": 1, "cursor": {"id": {"$numberLong": "0"}, "ns": "shop.$cmd.listCollections",
    "firstBatch": []}}
expect find via zstd {"filter": {"_id": "42"}}
reply via zstd {"ok": 1, "cursor": {"id": {"$numberLong": "0"}, "ns": "shop.users",
    "firstBatch": [{"_id": "42", "n": 1}]}}
expect update via snappy
reply via snappy {"ok": 1, "n": 1, "nModified": 1}
expect find via zlib {"filter": {"_id": "42"}}
reply via zlib {"ok": 1, "cursor": {"id": {"$numberLong": "0"}, "ns": "shop.users",
    "firstBatch": [{"_id": "42", "n": 2}]}}
"#,
    );
    let cache = Cache::start("mongodb", origin.address(), "");
    let mut client = message::Client::connect(cache.address());
    let offer = doc! { "hello": 1, "compression": ["zstd", "snappy", "zlib"], "$db": "admin" };
    let greeting = client.command(offer);
    assert_eq!(greeting.get_array("compression").map(Vec::len).ok(), Some(3), "{greeting}");
    let mut ask = |compressor, body: Document| {
        let id = client.send(Message { compressor: Some(compressor), ..Message::new(0, body) });
        let reply = client.receive().expect("a reply");
        assert_eq!(reply.response_to, id);
        reply.body
    };
    let find = || doc! { "find": "users", "filter": { "_id": "42" }, "$db": "shop" };
    let number = |reply: &Document| -> i32 {
        let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        batch.expect("a batch")[0].as_document().expect("a document").get_i32("n").expect("n")
    };
    // The properties of a collection must be known before its records are stored.
    let stored = || cache.statistics_once(|statistics| statistics["items"] == 1.0);
    assert_eq!(number(&ask(Compressor::Zstd, find())), 1);
    stored();
    for compressor in [Compressor::Zstd, Compressor::Snappy, Compressor::Zlib, Compressor::Noop] {
        assert_eq!(number(&ask(compressor, find())), 1);
    }
    let change = doc! { "q": { "_id": "42" }, "u": { "$set": { "n": 2 } } };
    ask(Compressor::Snappy, doc! { "update": "users", "updates": [change], "$db": "shop" });
    assert_eq!(number(&ask(Compressor::Zlib, find())), 2);
    stored();
    for compressor in [Compressor::Zstd, Compressor::Snappy] {
        assert_eq!(number(&ask(compressor, find())), 2);
    }
    assert!(cache.hits() >= 6.0, "{:?}", cache.statistics());
    origin.finish();
}
