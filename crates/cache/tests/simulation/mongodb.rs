//! A minimal MongoDB: one collection of six records, a view of it, and drivers that use the
//! commands that the cache must understand.

use std::{collections::VecDeque, sync::Arc};

use cache::filter::mongo::{Mongo, Settings};
use wire::mongo::{
    bson::Document,
    compressed::{Compressor, compress},
    frame::{self, Body, Limits},
    request::Request,
};

use crate::{
    bson,
    origin::{KEYS, KeyNumber, Origin, Value},
    protocol::{Ask, Asking, Protocol, rules},
    random::Random,
};

pub(crate) struct MongoDb;

#[derive(Debug, Default)]
pub(crate) struct Client {
    requests: i32,
    awaited: VecDeque<i32>,
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    replies: i32,
    /// The writes of an open transaction.
    transaction: Vec<(KeyNumber, Value)>,
}

// Forms of the reply to a read.
const WHOLE: usize = 0;
const KEY_ONLY: usize = 1;
const VIEW: usize = 2;

impl Protocol for MongoDb {
    type Filter = Mongo;
    type Client = Client;
    type Server = Server;

    fn filter(_: &mut Random) -> Mongo {
        Mongo::new(Arc::new(Settings { namespaces: rules(), ..Settings::default() }))
    }

    fn ask(client: &mut Client, asking: &mut Asking<'_>, out: &mut Vec<u8>) -> Vec<Ask> {
        let choice = asking.choose(20, 14, 8);
        let (value, until) = (asking.value(), asking.until.as_millis());
        let random = &mut *asking.random;
        let key = random.below(KEYS);
        // The same number in each numeric type.
        let id = match random.below(4) {
            0 => format!("{key}.0"),
            1 => format!("NumberLong({key})"),
            2 => format!("NumberDecimal(\"{key}.00\")"),
            _ => key.to_string(),
        };
        let id = if random.one_in(3) { format!("{{$eq: {id}}}") } else { id };
        let read = |form| vec![Ask::Read { keys: vec![key], form }];
        let write = || vec![Ask::Other];
        let set = format!("{{$set: {{v: {value}}}}}");
        let updates = format!("[{{q: {{_id: {id}}}, u: {set}, upsert: true}}]");
        let find = format!("filter: {{_id: {id}}}");
        let (text, asks) = match choice {
            0..14 => (format!("find: \"users\", {find}"), read(WHOLE)),
            14..17 => (format!("find: \"users\", {find}, projection: {{_id: 1}}"), read(KEY_ONLY)),
            17..20 => (format!("find: \"view\", {find}"), read(VIEW)),
            20..25 => (format!("update: \"users\", updates: {updates}"), write()),
            25 | 26 => {
                let deletes = format!("[{{q: {{_id: {id}}}, limit: 1}}]");
                (format!("delete: \"users\", deletes: {deletes}"), write())
            }
            27 | 28 => {
                let query = format!("query: {{_id: {id}}}");
                (format!("findAndModify: \"users\", {query}, update: {set}, upsert: true"), write())
            }
            // An unacknowledged write.
            29 => {
                let until = format!("until: NumberLong({until})");
                (format!("update: \"users\", updates: {updates}, {until}"), Vec::new())
            }
            30 | 31 => ("hello: 1".to_owned(), write()),
            32 | 33 => ("ping: 1".to_owned(), write()),
            34 | 35 => {
                let text = format!("update: \"users\", updates: {updates}, autocommit: false");
                client.say(&text, true, random, out);
                let ends = ["commitTransaction", "abortTransaction"][random.below(2)];
                client.say(&format!("{ends}: 1, autocommit: false"), true, random, out);
                return vec![Ask::Other; 2];
            }
            36 | 37 => {
                let updates = format!("[{{q: {{n: 1}}, u: {set}, multi: true}}]");
                (format!("update: \"users\", updates: {updates}"), write())
            }
            38 | 39 => {
                let pipeline = "pipeline: [{$merge: \"users\"}]";
                (format!("aggregate: \"logs\", {pipeline}, v: {value}"), write())
            }
            40 => ("drop: \"users\"".to_owned(), write()),
            _ => (format!("frobnicate: {key}, v: {value}"), write()),
        };
        client.say(&text, !asks.is_empty(), random, out);
        asks
    }

    fn reply(client: &mut Client, bytes: &mut Vec<u8>, reply: &mut Vec<u8>) -> bool {
        let Ok(found) = frame::decode(bytes, &Limits::default()) else {
            panic!("no reply: {}", bytes.escape_ascii())
        };
        let Some((frame, length)) = found else { return false };
        let awaited = client.awaited.pop_front();
        assert_eq!(Some(frame.header().response_to), awaited, "a reply to the oldest request");
        reply.clear();
        reply.extend(bytes.drain(..length));
        true
    }

    fn is_answer(
        _: &Client,
        form: usize,
        keys: &[KeyNumber],
        values: &[Vec<Value>],
        reply: &[u8],
    ) -> Option<bool> {
        let body = &reply[21..];
        if body == error() || body == refused() {
            return None;
        }
        let unreachable = b"enroute: the origin cannot be reached";
        if body.windows(unreachable.len()).any(|window| window == unreachable) {
            return None;
        }
        Some(values[0].iter().any(|value| answer(form, keys[0], *value) == body))
    }

    fn serve(
        server: &mut Server,
        bytes: &mut Vec<u8>,
        origin: &mut Origin,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> bool {
        let limits = Limits::default();
        let Some((outer, length)) = frame::decode(bytes, &limits).expect("well-formed") else {
            return false;
        };
        let mut inflated = Vec::new();
        let frame = match outer.body() {
            Body::Compressed(compressed) => {
                compressed.inflate(&limits, &mut inflated).expect("well-formed");
                frame::decode(&inflated, &limits).expect("well-formed").expect("whole").0
            }
            _ => outer,
        };
        let request = Request::parse(&frame).expect("well-formed").expect("a command");
        if request.acknowledged() {
            let asks_who = request.namespace.database == "enroute";
            let body = match random.below(60) {
                // Never fails, so that the reported login is consistent with what is executed then.
                _ if asks_who => run(server, &request, origin),
                // Some errors prove that nothing was executed, others do not.
                0..5 => refused(),
                5 => error(),
                6 => {
                    run(server, &request, origin);
                    error()
                }
                _ => run(server, &request, origin),
            };
            server.replies += 1;
            message(900_000 + server.replies, request.header.request_id, 0, &body, out);
        } else {
            run(server, &request, origin);
        }
        bytes.drain(..length);
        true
    }
}

impl Client {
    /// Sends the command that `text` begins.
    fn say(&mut self, text: &str, acknowledged: bool, random: &mut Random, out: &mut Vec<u8>) {
        self.requests += 1;
        let id = 100 + self.requests;
        if acknowledged {
            self.awaited.push_back(id);
        }
        let (body, _) = bson::document(&format!("{{{text}, $db: \"shop\"}}"));
        let mut plain = Vec::new();
        message(id, 0, if acknowledged { 0 } else { 2 }, &body, &mut plain);
        if random.one_in(4) {
            compress(&plain, Compressor::Snappy, out).expect("a frame");
        } else {
            out.extend(plain);
        }
    }
}

/// Executes one command; returns its reply.
fn run(server: &mut Server, request: &Request<'_>, origin: &mut Origin) -> Vec<u8> {
    let field = |name| request.body.element(name).expect("well-formed");
    match request.name {
        // The query of the cache for the connection's rights.
        "find" if request.namespace.database == "enroute" => {}
        "find" => {
            let key = key(&field("filter").expect("a filter").document().expect("a document"));
            let form = match (request.namespace.collection, field("projection")) {
                (Some("view"), _) => VIEW,
                (_, Some(_)) => KEY_ONLY,
                _ => WHOLE,
            };
            return answer(form, key, origin.value(key));
        }
        "listCollections" => return listed(request),
        "update" => update(server, request, origin),
        "findAndModify" => {
            let part = |name| field(name).expect("there").document().expect("a document");
            let set =
                part("update").element("$set").expect("well-formed").expect("there").document();
            origin.put(key(&part("query")), value(&set.expect("a document")), None);
        }
        "delete" => {
            let delete = request.documents("deletes").next().expect("one").expect("well-formed");
            let filter = delete.element("q").expect("well-formed").expect("there").document();
            origin.put(key(&filter.expect("a document")), None, None);
        }
        "aggregate" => (0..KEYS).for_each(|key| origin.put(key, value(&request.body), None)),
        "drop" => (0..KEYS).for_each(|key| origin.put(key, None, None)),
        "frobnicate" => {
            let key = field("frobnicate").and_then(|key| key.integer()).expect("a key");
            origin.put(key as usize, value(&request.body), None);
        }
        "commitTransaction" => {
            for (key, value) in server.transaction.drain(..) {
                origin.put(key, value, None);
            }
        }
        "abortTransaction" => server.transaction.clear(),
        "hello" | "ping" => {}
        other => panic!("no such command: {other}"),
    }
    bson::document("{n: 1, ok: 1.0}").0
}

fn listed(request: &Request<'_>) -> Vec<u8> {
    let filter = request
        .body
        .element("filter")
        .expect("well-formed")
        .expect("a filter")
        .document()
        .expect("a document");
    let name = filter.element("name").expect("well-formed").and_then(|name| name.str());
    let listed = match name {
        Some("view") => {
            "{name: \"view\", type: \"view\", options: {viewOn: \"users\", pipeline: []}}"
        }
        _ => "{name: \"users\", type: \"collection\", options: {}}",
    };
    let text = format!(
        "{{cursor: {{id: NumberLong(0), ns: \"shop.$cmd\", firstBatch: [{listed}]}}, ok: 1.0}}"
    );
    bson::document(&text).0
}

fn update(server: &mut Server, request: &Request<'_>, origin: &mut Origin) {
    let field = |name| request.body.element(name).expect("well-formed");
    let update = request.documents("updates").next().expect("one").expect("well-formed");
    let part = |name| {
        update.element(name).expect("well-formed").expect("there").document().expect("a document")
    };
    let set = part("u").element("$set").expect("well-formed").expect("there").document();
    let value = value(&set.expect("a document"));
    let until = field("until").and_then(|until| until.i64());
    let late = until.is_some_and(|until| origin.now.as_millis() as i64 >= until);
    let filter = part("q");
    if filter.element("_id").expect("well-formed").is_none() {
        for key in 0..KEYS {
            if origin.value(key).is_some() {
                origin.put(key, value, None);
            }
        }
    } else if field("autocommit").is_some() {
        server.transaction.push((key(&filter), value));
    } else if !late {
        origin.put(key(&filter), value, None);
    }
}

/// The key in the `_id` of a filter.
fn key(filter: &Document<'_>) -> KeyNumber {
    let mut key = Vec::new();
    let id = filter.element("_id").expect("well-formed").expect("an _id");
    let id = id
        .document()
        .map_or(id, |equals| equals.element("$eq").expect("well-formed").expect("$eq"));
    wire::mongo::key::append(&id, &mut key).expect("a value");
    // Compares with the canonical form of each integer key.
    (0..KEYS).find(|number| key == canonical(*number)).expect("a key")
}

/// Returns the value in a document.
fn value(document: &Document<'_>) -> Value {
    document.element("v").expect("well-formed").and_then(|v| v.integer()).map(|v| v as u32)
}

fn canonical(number: usize) -> Vec<u8> {
    let (bytes, _) = bson::document(&format!("{{_id: {number}}}"));
    let document = Document::parse(&bytes).expect("well-formed");
    let id = document.element("_id").expect("well-formed").expect("there");
    let mut key = Vec::new();
    wire::mongo::key::append(&id, &mut key).expect("a value");
    key
}

fn answer(form: usize, key: KeyNumber, value: Value) -> Vec<u8> {
    let found = match (form, value) {
        (_, None) => String::new(),
        (KEY_ONLY, Some(_)) => format!("{{_id: {key}}}"),
        (_, Some(value)) => format!("{{_id: {key}, v: {value}}}"),
    };
    let name = if form == VIEW { "view" } else { "users" };
    let text = format!(
        "{{cursor: {{firstBatch: [{found}], id: NumberLong(0), ns: \"shop.{name}\"}}, ok: 1.0}}"
    );
    bson::document(&text).0
}

fn refused() -> Vec<u8> {
    bson::document("{ok: 0.0, errmsg: \"not authorized\", code: 13}").0
}

fn error() -> Vec<u8> {
    bson::document("{ok: 0.0, errmsg: \"come back later\", code: 91}").0
}

fn message(id: i32, to: i32, flags: u32, body: &[u8], out: &mut Vec<u8>) {
    for field in [21 + body.len() as i32, id, to, 2013] {
        out.extend(field.to_le_bytes());
    }
    out.extend(flags.to_le_bytes());
    out.push(0);
    out.extend_from_slice(body);
}
