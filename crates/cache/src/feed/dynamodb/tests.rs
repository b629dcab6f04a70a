//! The feed against a model of DynamoDB ([`origin`]).

use std::{sync::Arc, time::Duration};

use wire::{
    dynamodb::{
        item::GetItem,
        reply::{RequestId, checksum, write},
        request,
        value::write_key,
    },
    http1::Limits,
    sigv4::{Credentials, Verifier},
};

use self::origin::Origin;
use super::{Feed, PAUSE_MIN, REFRESH};
use crate::{
    feed::Config,
    filter::dynamodb::{Settings, Streams, Tables},
    key::Key,
    lease::Lease,
    principal::{Finding, Principal, Proof, Standing},
    storage::{self, Answer, Given, Grant, MemoryStorage, Question, Storage},
};

mod losses;
mod origin;
mod shards;
mod simulation;

const SECOND: Duration = Duration::from_secs(1);
/// More requests than are due at one time.
const ASKED_MAX: usize = 10_000;
const SILENCE_MAX: Duration = Duration::from_secs(5);
const CREDENTIALS: &str =
    "aws_access_key_id = AKID\naws_secret_access_key = secret\naws_session_token = token\n";

struct World {
    settings: Arc<Settings>,
    storage: MemoryStorage,
    feed: Feed,
    origin: Origin,
    now: Duration,
    connected: bool,
}

impl World {
    /// A feed of an origin with a table `items` and its stream, not connected.
    fn new() -> Self {
        let streams = Streams {
            host: "streams.example".to_owned(),
            access_key: "AKID".to_owned(),
            region: "eu-central-1".to_owned(),
            ..Streams::default()
        };
        let settings = Arc::new(Settings {
            credentials: Arc::new(Credentials::parse(CREDENTIALS).unwrap().into()),
            tables: Arc::new(Tables::new(true)),
            streams: Some(streams),
            clock: Duration::from_secs(1_795_858_140),
            ..Settings::default()
        });
        let storage = MemoryStorage::new(storage::Config::default(), 0);
        let feed = Feed::new(Arc::clone(&settings), Config::default());
        let mut origin = Origin::new();
        origin.create("items");
        Self { settings, storage, feed, origin, now: SECOND, connected: false }
    }

    /// The same, established.
    fn standing() -> Self {
        let mut world = Self::new();
        world.connect();
        world.run(3 * SECOND);
        assert!(world.feed.is_open() && world.is_followed("items"));
        world
    }

    fn connect(&mut self) {
        self.feed.connected(self.now);
        self.connected = true;
        self.exchange();
    }

    fn lose(&mut self) {
        self.feed.lost(&mut self.storage);
        self.connected = false;
    }

    /// Lets time pass while requests are answered at once.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.connected && self.feed.poll_timeout() <= end {
            self.now = self.now.max(self.feed.poll_timeout());
            if let Err(why) = self.feed.handle_timeout(&mut self.storage, self.now) {
                panic!("{why}");
            }
            self.exchange();
        }
        self.now = end;
    }

    /// The next request is answered; if there is none, time passes until there is.
    fn step(&mut self) {
        let request = self.asked().or_else(|| {
            self.now = self.now.max(self.feed.poll_timeout());
            self.feed.handle_timeout(&mut self.storage, self.now).unwrap();
            self.asked()
        });
        if let Some((operation, body)) = request {
            let (status, body) = self.origin.answer(&operation, &body);
            self.hear(status, &body).unwrap();
        }
    }

    /// Answers requests until there is none.
    fn exchange(&mut self) {
        let before = self.origin.asked.len();
        while let Some((operation, body)) = self.asked() {
            let count = self.origin.asked.len() - before;
            assert!(count < ASKED_MAX, "{count} requests at {:?}", self.now);
            let (status, body) = self.origin.answer(&operation, &body);
            self.hear(status, &body).unwrap();
        }
    }

    /// The operation and the body of the request that the feed has written.
    fn asked(&mut self) -> Option<(String, String)> {
        let output = self.feed.output();
        let bytes = output.bytes().to_vec();
        output.advance(bytes.len());
        let (message, length) = request::decode(&bytes, &Limits::default()).unwrap()?;
        assert_eq!(length, bytes.len(), "one request at a time");
        let head = &message.request.head;
        let target = std::str::from_utf8(head.one("x-amz-target").unwrap()).unwrap();
        let (known, time) = (self.settings.credentials.current(), self.settings.clock + self.now);
        let mut verifier = Verifier::default();
        let signer =
            verifier.verify(&message.request, &message.body, "dynamodb", &known, time).unwrap();
        assert_eq!((signer.access_key, signer.region), ("AKID", "eu-central-1"));
        assert_eq!(head.one("host"), Some(&b"streams.example"[..]));
        let operation = target.strip_prefix("DynamoDBStreams_20120810.").unwrap().to_owned();
        Some((operation, String::from_utf8(message.body.to_vec()).unwrap()))
    }

    /// A reply arrives, in pieces.
    fn hear(&mut self, status: u16, body: &str) -> Result<(), String> {
        let (mut reply, line) = (Vec::new(), format!("{status} x"));
        write(&line, checksum(body.as_bytes()), body.as_bytes(), RequestId(1), false, &mut reply);
        let mut heard = Ok(());
        for piece in reply.chunks(reply.len() / 2 + 1) {
            heard = self.feed.receive(piece, &mut self.storage, self.now);
        }
        heard.map_err(|error| error.to_string())
    }

    fn is_followed(&self, table: &str) -> bool {
        self.settings.keys.current().allow(table.as_bytes())
    }

    fn read(&mut self, item: u32) -> Answer {
        let bytes = key(item);
        let key = Key::new(self.settings.table(b"items"), &bytes);
        let principal = principal();
        let question = Question { key, variant: b"", principal: Some(&principal) };
        self.storage.read(question, None, self.now, |_| ())
    }

    fn lease(&mut self, item: u32) -> Option<Lease> {
        match self.read(item) {
            Answer::Miss(Ok(Grant { lease, .. })) => Some(lease),
            _ => None,
        }
    }

    /// Stores an item under its lease. Returns whether it was.
    fn fill(&mut self, lease: Lease, item: u32) -> bool {
        let bytes = key(item);
        let given = Given {
            key: Key::new(self.settings.table(b"items"), &bytes),
            variant: b"",
            principal: &principal(),
            answer: b"v",
            asked_at: self.now,
            expires_at: None,
        };
        self.storage.fill(lease, given, self.now).is_ok()
    }

    fn store(&mut self, item: u32) {
        let lease = self.lease(item).expect("it may be stored");
        assert!(self.fill(lease, item));
    }

    fn serves(&mut self, item: u32) -> bool {
        match self.read(item) {
            Answer::Hit => true,
            Answer::Miss(Ok(Grant { lease, .. })) => {
                self.storage.release(lease);
                false
            }
            _ => false,
        }
    }

    /// Whether a reply to an eventually consistent read of an item is not stored now.
    fn is_settling(&self, item: u32) -> bool {
        let bytes = key(item);
        let key = Key::new(self.settings.table(b"items"), &bytes);
        self.settings.tables.are_settling(key, self.now)
    }
}

fn key(item: u32) -> Vec<u8> {
    let text = format!(r#"{{"TableName":"items","Key":{{"id":{{"N":"{item}"}}}}}}"#);
    let (get, mut key) = (GetItem::parse(text.as_bytes()).unwrap(), Vec::new());
    assert!(write_key("items", &get.key, &mut key));
    key
}

fn principal() -> Principal {
    let mut standing = Standing::new(3_600 * SECOND);
    standing.settle(Finding::Proven(Proof::Unrestricted), SECOND);
    standing.receiver().expect("proven").clone()
}

#[test]
fn a_table_is_cached_once_its_stream_is_read_and_a_record_drops_its_item() {
    let mut world = World::new();
    assert!(!world.is_followed("items"), "before the first connection");
    world.connect();
    assert!(!world.feed.is_open() && !world.is_followed("items"));
    world.run(Duration::ZERO);
    assert!(world.feed.is_open() && world.is_followed("items") && !world.is_followed("others"));
    let expected = ["ListStreams", "DescribeStream", "GetShardIterator LATEST", "GetRecords"];
    assert_eq!(world.origin.asked, expected);
    assert!(world.is_settling(1), "a reply may be of the time before");
    world.run(3 * SECOND);
    assert!(!world.is_settling(1));
    world.store(1);
    world.store(2);
    // An answer that was on its way when the item was written.
    let lease = world.lease(3).expect("a lease");
    world.origin.write("items", 1);
    world.origin.write("items", 3);
    assert!(world.serves(1), "it is not reported yet");
    world.run(SECOND);
    assert!(!world.serves(1) && world.serves(2));
    assert!(!world.fill(lease, 3), "the reply may be older than the write");
    assert!(world.is_settling(1) && !world.is_settling(2));
}

#[test]
fn a_change_drops_the_pages_of_its_table() {
    let mut world = World::standing();
    let pages = world.settings.table(b"items").by_field(b"pages");
    let page = Key::new(pages, b"page");
    let principal = principal();
    let question = Question { key: page, variant: b"", principal: Some(&principal) };
    let answer = world.storage.read(question, None, world.now, |_| ());
    let Answer::Miss(Ok(Grant { lease, .. })) = answer else { panic!("{answer:?}") };
    let (variant, answer, asked_at) = (b"", b"v", world.now);
    let given =
        Given { key: page, variant, principal: &principal, answer, asked_at, expires_at: None };
    world.storage.fill(lease, given, world.now).unwrap();
    assert_eq!(world.storage.read(question, None, world.now, |_| ()), Answer::Hit);
    world.origin.write("items", 1);
    world.run(SECOND);
    let Answer::Miss(Ok(Grant { lease, .. })) =
        world.storage.read(question, None, world.now, |_| ())
    else {
        panic!("the page is still there");
    };
    world.storage.release(lease);
}

#[test]
fn tables_come_and_go_with_their_streams() {
    let mut world = World::standing();
    world.origin.page = 1;
    world.store(1);
    for table in ["beside", "items2", "late"] {
        world.origin.create(table);
    }
    world.run(REFRESH);
    assert!(world.feed.is_open() && world.is_followed("beside") && world.is_followed("late"));
    assert!(world.serves(1));
    // The first shards are those of a stream that is replaced.
    world.origin.disable("items");
    world.run(SECOND);
    assert!(!world.is_followed("items") && !world.serves(1) && world.is_followed("late"));
    world.run(REFRESH);
    assert!(!world.is_followed("items"), "a stream that is disabled");
    world.origin.create("items");
    world.run(REFRESH);
    assert!(world.is_followed("items") && world.feed.is_open());
    world.run(3 * SECOND);
    world.store(1);
    // A table that is deleted and created again has another stream.
    world.origin.create("items");
    world.run(REFRESH);
    assert!(world.is_followed("items") && !world.serves(1));
    // A stream that is listed and cannot be described.
    world.origin.error = Some(("DescribeStream", 400, "ResourceNotFoundException"));
    world.origin.asked.clear();
    world.run(3 * REFRESH);
    assert!(!world.is_followed("late"));
    let asked = world.origin.asked.iter().filter(|asked| *asked == "DescribeStream").count();
    assert!((3..=16).contains(&asked), "{asked} descriptions of 4 tables");
    world.origin.error = None;
    world.run(REFRESH);
    assert!(world.is_followed("late"));
    world.origin.streams.clear();
    world.run(REFRESH);
    assert!(!world.is_followed("late"));
}

#[test]
fn an_origin_that_refuses_the_feed_is_no_feed() {
    for (error, status) in [("AccessDeniedException", 400), ("UnknownOperationException", 400)] {
        let mut world = World::new();
        world.connect();
        world.feed.handle_timeout(&mut world.storage, world.now).unwrap();
        world.origin.error = Some(("ListStreams", status, error));
        let (operation, body) = world.asked().expect("a request");
        let (status, body) = world.origin.answer(&operation, &body);
        let why = world.hear(status, &body).unwrap_err();
        assert!(why.contains("`access_key`") && why.contains(error), "{why}");
        assert!(!world.feed.is_open() && !world.is_followed("items"));
    }
    let mut world = World::standing();
    world.settings.credentials.set(Credentials::default());
    let due = world.feed.poll_timeout();
    assert!(world.feed.handle_timeout(&mut world.storage, due).unwrap_err().contains("secret"));
}

#[test]
fn what_is_no_reply_ends_the_connection() {
    for bytes in [
        &b"SSH-2.0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nx-amz-crc32: 1\r\n\
          Content-Length: 14\r\n\r\n{\"Streams\":[]}",
    ] {
        let mut world = World::new();
        world.connect();
        world.feed.handle_timeout(&mut world.storage, world.now).unwrap();
        assert!(world.asked().is_some());
        let heard = world.feed.receive(bytes, &mut world.storage, world.now);
        assert!(heard.is_err(), "{}", bytes.escape_ascii());
    }
    let mut world = World::standing();
    let unasked = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";
    assert!(world.feed.receive(unasked, &mut world.storage, world.now).is_err());
}
