//! The feed against a scripted origin: each test writes the origin's replies.

use std::{sync::Arc, time::Duration};

use wire::mongo::{
    bson::{Document, Writer},
    frame::{self, Limits},
    message,
    request::Request,
};

use super::Feed;
use crate::{
    feed::Config,
    filter::mongo::{Settings, UniqueField},
    key::{Key, Namespace},
    lease::Lease,
    principal::{Finding, Principal, Proof, Standing},
    storage::{self, Answer, Given, Grant, MemoryStorage, Question, Storage},
};

mod confirmation;
mod events;
mod login;
mod losses;
mod simulation;
mod stream;

const START: Duration = Duration::from_secs(1);
const SILENCE_MAX: Duration = Duration::from_secs(5);

struct World {
    settings: Arc<Settings>,
    storage: MemoryStorage,
    feed: Feed,
    now: Duration,
    /// Requests of the feed without a reply so far: request ID, command name, body.
    asked: Vec<(i32, String, Vec<u8>)>,
    /// The `processId` that the origin reports.
    process: i32,
}

impl World {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let unique_fields =
            vec![UniqueField { namespace: "shop.users".to_owned(), field: "email".to_owned() }];
        let settings = Arc::new(Settings { unique_fields, ..Settings::default() });
        let mut storage = MemoryStorage::new(storage::Config::default(), 0);
        let feed = Feed::new(Arc::clone(&settings), config, &mut storage);
        Self { settings, storage, feed, now: START, asked: Vec::new(), process: 1 }
    }

    /// An established feed; the origin and its change stream are at time 10.
    fn standing() -> Self {
        let mut world = Self::new();
        world.connect();
        world.greet();
        world.opened(0x0A);
        world.caught_up(10);
        assert!(world.feed.is_open());
        world
    }

    fn connect(&mut self) {
        self.feed.connected(7, self.now);
        self.listen();
    }

    fn lose(&mut self) {
        self.feed.lost(&mut self.storage);
        self.asked.clear();
    }

    /// Decodes the requests that the feed has written.
    fn listen(&mut self) {
        let output = self.feed.output();
        let mut bytes = output.bytes();
        while let Some((frame, length)) = frame::decode(bytes, &Limits::default()).unwrap() {
            let request = Request::parse(&frame).unwrap().unwrap();
            let body = request.body.bytes().to_vec();
            self.asked.push((request.header.request_id, request.name.to_owned(), body));
            bytes = &bytes[length..];
        }
        let written = output.len();
        output.advance(written);
    }

    /// Answers the oldest request, which must be `name`; returns its body.
    fn answer(&mut self, name: &str, fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let (asked, answered) = self.try_answer(name, fill);
        answered.unwrap();
        asked
    }

    /// As `answer`, for a reply that the feed rejects; returns the error's text.
    fn refuse(&mut self, name: &str, fill: impl FnOnce(&mut Writer<'_>)) -> String {
        let (_, answered) = self.try_answer(name, fill);
        let error = answered.unwrap_err();
        self.lose();
        error
    }

    fn try_answer(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Writer<'_>),
    ) -> (Vec<u8>, Result<(), String>) {
        let (id, asked, body) = self.asked.remove(0);
        assert_eq!(asked, name);
        let mut reply = Vec::new();
        Writer::write(&mut reply, fill);
        let mut bytes = Vec::new();
        message::write(&mut bytes, 1_000 + id, id, &reply);
        // In two pieces, as TCP may deliver it.
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.feed.receive(first, &mut self.storage, self.now).unwrap();
        let received = self.feed.receive(rest, &mut self.storage, self.now);
        self.listen();
        (body, received.map_err(|error| error.to_string()))
    }

    fn greet(&mut self) {
        let process = self.process;
        self.answer("hello", |hello| greeting(hello, process, 10));
    }

    /// The stream is opened at `time`; returns the command that opened it.
    fn opened(&mut self, time: u64) -> Vec<u8> {
        self.answer("aggregate", |reply| batch(reply, "firstBatch", &[], &token(time)))
    }

    /// The stream is opened at `time` without a resume token, and the stored answer for user 1 is
    /// dropped.
    fn begins_anew(&mut self, time: u64) {
        let opened = String::from_utf8_lossy(&self.opened(time)).into_owned();
        assert!(!opened.contains("resumeAfter"), "{opened}");
        self.caught_up(time);
        assert!(self.feed.is_open() && !self.serves("users", 1));
    }

    /// Advances the origin and its stream to `time`.
    fn caught_up(&mut self, time: u64) {
        self.position(time);
        self.batch(&[], &token(time));
    }

    /// Advances the origin to `time`.
    fn position(&mut self, time: u64) {
        let process = self.process;
        self.answer("hello", |hello| greeting(hello, process, time));
    }

    fn batch(&mut self, events: &[Vec<u8>], token: &[u8]) {
        self.answer("getMore", |reply| batch(reply, "nextBatch", events, token));
    }

    fn namespace(&self, collection: &str) -> Namespace {
        Namespace::new(0, &self.settings.origin, b"shop", collection.as_bytes())
    }

    fn read(&mut self, namespace: Namespace, key: i32) -> Answer {
        let bytes = canonical(key);
        let principal = principal();
        let key = Key::new(namespace, &bytes);
        let question = Question { key, variant: b"", principal: Some(&principal) };
        self.storage.read(question, None, self.now, |_| ())
    }

    fn lease(&mut self, namespace: Namespace, key: i32) -> Option<Lease> {
        match self.read(namespace, key) {
            Answer::Miss(Ok(Grant { lease, .. })) => Some(lease),
            _ => None,
        }
    }

    fn fill(&mut self, lease: Lease, namespace: Namespace, key: i32) -> bool {
        let bytes = canonical(key);
        let given = Given {
            key: Key::new(namespace, &bytes),
            variant: b"",
            principal: &principal(),
            answer: b"v",
            asked_at: self.now,
            expires_at: None,
        };
        self.storage.fill(lease, given, self.now).is_ok()
    }

    /// Stores key `key` of `collection`.
    fn store(&mut self, collection: &str, key: i32) {
        let namespace = self.namespace(collection);
        self.store_in(namespace, key);
    }

    fn store_in(&mut self, namespace: Namespace, key: i32) {
        let lease = self.lease(namespace, key).expect("open, and not stored");
        assert!(self.fill(lease, namespace, key));
        assert_eq!(self.read(namespace, key), Answer::Hit);
    }

    /// Is the key of the collection served?
    fn serves(&mut self, collection: &str, key: i32) -> bool {
        let namespace = self.namespace(collection);
        self.serves_in(namespace, key)
    }

    fn serves_in(&mut self, namespace: Namespace, key: i32) -> bool {
        match self.read(namespace, key) {
            Answer::Hit => true,
            Answer::Miss(Ok(grant)) => {
                self.storage.release(grant.lease);
                false
            }
            _ => false,
        }
    }
}

/// The reply to `hello` of a primary whose last write is at `time`.
fn greeting(hello: &mut Writer<'_>, process: i32, time: u64) {
    hello.str("setName", "rs");
    hello.i32("maxWireVersion", 21);
    hello.nested("topologyVersion", |version| version.i32("processId", process));
    hello.nested("lastWrite", |last| last.nested("opTime", |time_| time_.timestamp("ts", time)));
    hello.f64("ok", 1.0);
}

fn batch(reply: &mut Writer<'_>, name: &str, events: &[Vec<u8>], token: &[u8]) {
    reply.nested("cursor", |cursor| {
        cursor.i64("id", 99);
        cursor.str("ns", "admin.$cmd.aggregate");
        cursor.array(name, |batch| {
            events.iter().for_each(|event| batch.document(Document::parse(event).unwrap()));
        });
        cursor.document("postBatchResumeToken", Document::parse(token).unwrap());
    });
    reply.f64("ok", 1.0);
}

fn failure(reply: &mut Writer<'_>, code: i32, text: &str) {
    reply.f64("ok", 0.0);
    reply.str("errmsg", text);
    reply.i32("code", code);
}

fn document(fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::write(&mut bytes, fill);
    bytes
}

/// The resume token of a stream that has no event up to `time`.
fn token(time: u64) -> Vec<u8> {
    document(|token| token.str("_data", &format!("82{time:016X}2B0429296E04")))
}

/// The resume token of event `number` at `time`.
fn event_token(time: u64, number: u32) -> Vec<u8> {
    document(|token| token.str("_data", &format!("82{time:016X}2B042C0100296E5A{number:08X}04")))
}

/// Event `operation` of `shop.collection`, number `number` at `time`.
fn event(
    operation: &str,
    collection: &str,
    (time, number): (u64, u32),
    more: impl FnOnce(&mut Writer<'_>),
) -> Vec<u8> {
    document(|event| {
        event.document("_id", Document::parse(&event_token(time, number)).unwrap());
        event.str("operationType", operation);
        event.nested("ns", |ns| {
            ns.str("db", "shop");
            ns.str("coll", collection);
        });
        more(event);
    })
}

/// A change of key `key` of `shop.users`.
fn change(operation: &str, key: i32, at: (u64, u32)) -> Vec<u8> {
    event(operation, "users", at, |event| {
        event.nested("documentKey", |document| document.i32("_id", key));
    })
}

fn canonical(key: i32) -> Vec<u8> {
    let bytes = document(|document| document.i32("_id", key));
    let id = Document::parse(&bytes).unwrap().element("_id").unwrap().unwrap();
    let mut canonical = Vec::new();
    wire::mongo::key::append(&id, &mut canonical).unwrap();
    canonical
}

fn principal() -> Principal {
    let mut standing = Standing::new(START);
    standing.settle(Finding::Proven(Proof::Unrestricted), START);
    standing.receiver().expect("proven").clone()
}
