//! A MongoDB that requires a login refuses requests of unauthenticated clients, and none of these –
//! a `deleteMany`, an unacknowledged one, a frame of an unknown opcode – drops a stored answer. The
//! origin is simulated, because no server of these tests requires a login.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use crate::support::enroute::Cache;
use crate::support::message::{Client, Message};
use crate::support::process::{PATIENCE, serve_each};
use crate::support::raw::Raw;
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};

/// Number of frames that were no message.
static ODD: AtomicUsize = AtomicUsize::new(0);

/// Serves connections until the test ends.
fn origin() -> SocketAddr {
    serve_each(serve)
}

/// Closes the connection after an invalid message, as servers do; every other time it does not
/// reply instead.
fn serve(mut stream: TcpStream) {
    let mut known = false;
    loop {
        let request = match Message::read(&mut stream) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(_) => {
                if ODD.fetch_add(1, SeqCst).is_multiple_of(2) {
                    return;
                }
                loop {
                    thread::park();
                }
            }
        };
        let body = answer(&request, &mut known);
        if request.more_to_come {
            continue;
        }
        let reply = Message { response_to: request.request_id, ..Message::new(1, body) };
        if reply.write(&mut stream).is_err() {
            return;
        }
    }
}

fn answer(request: &Message, known: &mut bool) -> Document {
    let cursor = |batch: Vec<Document>| {
        doc! { "cursor": { "id": 0_i64, "ns": "shop.users", "firstBatch": batch }, "ok": 1.0 }
    };
    match request.command() {
        "hello" => doc! { "isWritablePrimary": true, "maxWireVersion": 21, "ok": 1.0 },
        "saslStart" => {
            *known = true;
            doc! { "conversationId": 1, "done": true, "ok": 1.0 }
        }
        "connectionStatus" if *known => {
            let users = vec![doc! { "user": "alice", "db": "shop" }];
            doc! { "authInfo": { "authenticatedUsers": users }, "ok": 1.0 }
        }
        _ if !*known => doc! { "ok": 0.0, "errmsg": "requires authentication", "code": 13 },
        "listCollections" => cursor(vec![doc! { "name": "users", "type": "collection" }]),
        "find" => cursor(vec![doc! { "_id": "42", "name": "Ada" }]),
        _ => doc! { "n": 0, "ok": 1.0 },
    }
}

#[test]
fn strangers_touch_nothing_in_the_mongodb_cache() {
    let cache = Cache::start("mongodb", origin(), "[storage]\nauthorization_lease = \"60min\"\n");
    let mut known = Client::connect(cache.address());
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: b"\0alice\0secret".to_vec() };
    let login = doc! {
        "saslStart": 1, "mechanism": "PLAIN", "payload": payload, "$db": "shop",
    };
    assert_eq!(known.command(login).get_bool("done").ok(), Some(true));
    let find = doc! { "find": "users", "filter": { "_id": "42" }, "$db": "shop" };
    while cache.hits() < 1.0 {
        known.command(find.clone());
    }
    let delete = doc! {
        "delete": "users", "deletes": [{ "q": {}, "limit": 0 }], "$db": "shop",
    };
    let mut is_hit = |after: &str| {
        let hits = cache.hits();
        known.command(find.clone());
        assert!(cache.hits() > hits, "{after} dropped the entry");
    };
    for round in 0..3 {
        let mut stranger = Client::connect(cache.address());
        let refused = stranger.command(delete.clone());
        assert_eq!(refused.get_i32("code").ok(), Some(13), "{refused}");
        is_hit("deleteMany");
        let unanswered = Message { more_to_come: true, ..Message::new(7, delete.clone()) };
        stranger.send(unanswered);
        assert_eq!(stranger.command(find.clone()).get_i32("code").ok(), Some(13));
        is_hit("a write without acknowledgement");
        let commit = doc! {
            "commitTransaction": 1, "lsid": { "id": round as i64 }, "txnNumber": 1_i64,
            "autocommit": false, "$db": "admin",
        };
        assert_eq!(stranger.command(commit).get_i32("code").ok(), Some(13));
        is_hit("commitTransaction");

        let mut odd = Raw::connect(cache.address());
        let frame = [16_i32, 1, 0, 4_242].map(i32::to_le_bytes).concat();
        odd.say(frame);
        let started = Instant::now();
        while ODD.load(SeqCst) <= round {
            assert!(started.elapsed() < PATIENCE, "the frame never reaches the origin");
            thread::yield_now();
        }
        is_hit("opcode 4242");
    }
}
