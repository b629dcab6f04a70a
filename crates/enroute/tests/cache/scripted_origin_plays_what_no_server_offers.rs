//! The scripts under `scripts/`, with the official driver or a client that sends exact messages,
//! and without enroute in between.

use crate::support::message::{Client, Compressor, Message};
use crate::support::scripted::ScriptedOrigin;
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};

fn driver(origin: &ScriptedOrigin) -> mongodb::sync::Client {
    let url = format!("mongodb://{}/?replicaSet=rs", origin.address());
    mongodb::sync::Client::with_uri_str(url).expect("a URL")
}

#[test]
fn transaction() {
    let origin = ScriptedOrigin::start(include_str!("../scripts/transaction.txt"));
    let client = driver(&origin);
    let orders = client.database("shop").collection::<Document>("orders");
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().run().expect("started");
    orders.insert_one(doc! { "_id": "7" }).session(&mut session).run().expect("inserted");
    let found = orders.find_one(doc! { "_id": "7" }).session(&mut session).run();
    assert_eq!(found.expect("answered"), Some(doc! { "_id": "7", "n": 1 }));
    session.commit_transaction().run().expect("committed");
    origin.finish();
}

#[test]
fn change_stream_until_its_history_is_lost() {
    let origin = ScriptedOrigin::start(include_str!("../scripts/change_stream.txt"));
    let client = driver(&origin);
    let users = client.database("shop").collection::<Document>("users");
    let mut events = users.watch().run().expect("a change stream");
    let event = events.next().expect("an event").expect("not an error");
    assert_eq!(event.document_key, Some(doc! { "_id": "42" }));
    let lost = events.next().expect("an answer").expect_err("history is lost");
    assert!(lost.to_string().contains("286"), "{lost}");
    origin.finish();
}

#[test]
fn scram() {
    let origin = ScriptedOrigin::start(include_str!("../scripts/scram.txt"));
    let mut client = Client::connect(origin.address());
    let sasl = |command: Document, payload: &str| {
        let bytes = payload.as_bytes().to_vec();
        let mut body = command;
        body.insert("payload", Binary { subtype: BinarySubtype::Generic, bytes });
        body.insert("$db", "admin");
        body
    };
    client.command(doc! { "hello": 1, "saslSupportedMechs": "admin.user", "$db": "admin" });
    let first = sasl(
        doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256" },
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    );
    assert_eq!(client.command(first).get_bool("done").ok(), Some(false));
    let second = sasl(
        doc! { "saslContinue": 1, "conversationId": 1 },
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    );
    assert_eq!(client.command(second).get_bool("done").ok(), Some(true));
    origin.finish();
}

#[test]
fn compression_and_a_stream_of_replies() {
    let origin = ScriptedOrigin::start(include_str!("../scripts/compression.txt"));
    let mut client = Client::connect(origin.address());
    let offer = doc! { "hello": 1, "compression": ["zstd", "snappy", "zlib"], "$db": "admin" };
    client.command(offer);
    let compressors = [Compressor::Zstd, Compressor::Snappy, Compressor::Zlib, Compressor::Noop];
    for (key, compressor) in ["1", "2", "3", "4"].into_iter().zip(compressors) {
        let find = doc! { "find": "users", "filter": { "_id": key }, "$db": "shop" };
        client.send(Message { compressor: Some(compressor), ..Message::new(0, find) });
        let reply = client.receive().expect("a reply");
        assert_eq!(reply.compressor, Some(compressor).filter(|_| key != "4"));
        let cursor = reply.body.get_document("cursor").expect("a cursor");
        assert_eq!(cursor.get_array("firstBatch").expect("a batch")[0], doc! { "_id": key }.into());
    }

    let hello = doc! { "hello": 1, "maxAwaitTimeMS": 10_000, "$db": "admin" };
    let mut before = client.send(Message::new(0, hello));
    for number in 1..=3 {
        let reply = client.receive().expect("a reply");
        assert_eq!((reply.response_to, reply.more_to_come), (before, number < 3));
        assert_eq!(reply.body.get_i32("number").ok(), Some(number));
        before = reply.request_id;
    }
    assert!(client.receive().is_none(), "the script closes");
    origin.finish();
}

#[test]
fn held_reply_leaves_after_a_later_one() {
    let origin = ScriptedOrigin::start(
        "expect find {\"filter\": {\"_id\": \"42\"}}\n\
         hold the old value\n\
         reply {\"ok\": 1, \"value\": \"old\"}\n\
         expect update\n\
         reply {\"ok\": 1}\n",
    );
    let (mut reader, mut writer) =
        (Client::connect(origin.address()), Client::connect(origin.address()));
    reader.send(Message::new(0, doc! { "find": "users", "filter": { "_id": "42" } }));
    origin.reached("the old value");
    writer.command(doc! { "update": "users" });
    origin.release("the old value");
    let reply = reader.receive().expect("the held reply");
    assert_eq!(reply.body.get_str("value").ok(), Some("old"));
    origin.finish();
}

#[test]
fn unacknowledged_write_with_its_documents_apart() {
    let origin = ScriptedOrigin::start(
        "expect insert {\"insert\": \"users\", \"documents\": [{\"_id\": \"42\"}]}\n\
         expect ping\n\
         reply {\"ok\": 1}\n",
    );
    let mut client = Client::connect(origin.address());
    let insert = doc! { "insert": "users", "documents": [{ "_id": "42" }], "$db": "shop" };
    let sequence = Some("documents".to_owned());
    client.send(Message { more_to_come: true, sequence, ..Message::new(0, insert) });
    client.command(doc! { "ping": 1 });
    origin.finish();
}

#[test]
#[should_panic(expected = "line 1: find")]
fn unexpected_request_fails_the_test_and_names_the_line() {
    let origin = ScriptedOrigin::start("expect find {\"filter\": {\"_id\": \"42\"}}\nreply {}");
    let mut client = Client::connect(origin.address());
    let reply = client.command(doc! { "find": "users", "filter": { "_id": "43" } });
    assert_eq!(reply.get_f64("ok").ok(), Some(0.0));
    origin.finish();
}
