//! The primary of a replica set, in memory. No available server offers what a feed needs: a change
//! stream of the whole deployment whose position can be compared with the server's.
//!
//! Any driver can find, insert, replace and delete records by `_id`. Tests can hold back its
//! stream, cut it, delete its history and refuse it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use bson::{Bson, Document, Timestamp, doc};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::message::Message;
use super::replica_set::Membership;

/// A running primary. It ends with the process.
pub struct Replica {
    address: SocketAddr,
    stage: Arc<Stage>,
}

#[derive(Default)]
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By namespace and `_id`.
    records: BTreeMap<(String, String), Document>,
    /// All events; the first has time 1, and each later one the next.
    events: Vec<Document>,
    /// Events up to this time were deleted.
    forgotten: usize,
    /// Without a majority: events after this time are not reported.
    held_at: Option<usize>,
    streams: Vec<TcpStream>,
    /// The `$changeStream` stage of each stream.
    opened: Vec<Document>,
    /// Number of reads by `_id` that reached it.
    reads: usize,
    kind: Kind,
    membership: Option<Membership>,
    /// Number of changes of the topology.
    version: i64,
    /// Connections are closed.
    is_down: bool,
    connections: Vec<TcpStream>,
}

/// Its behaviour towards a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    #[default]
    Primary,
    /// It belongs to no replica set.
    Standalone,
    /// No user may open a change stream.
    Forbidding,
    /// A router of a sharded cluster.
    Mongos,
}

impl Replica {
    /// Listens on a free loopback port.
    pub fn start(kind: Kind) -> Self {
        Self::start_with(kind, None)
    }

    /// As `start`, for clients that connect with TLS.
    pub fn start_with(kind: Kind, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = Mutex::new(State { kind, ..State::default() });
        let stage = Arc::new(Stage { state, changed: Condvar::new() });
        let theirs = Arc::clone(&stage);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let stage = Arc::clone(&theirs);
                // A broken connection is intended by the test.
                let tls = tls.clone();
                thread::spawn(move || drop(stage.accept(&connection, tls)));
            }
        });
        Self { address, stage }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A driver for `address`, which is the primary's or that of a cache in front of it.
    pub fn client(address: SocketAddr) -> mongodb::sync::Client {
        let url = format!("mongodb://{address}/?directConnection=true&retryWrites=false");
        mongodb::sync::Client::with_uri_str(url).expect("a URL")
    }

    /// From now on no writes are reported.
    pub fn hold_stream(&self) {
        let mut state = self.stage.lock();
        state.held_at = Some(state.events.len());
    }

    /// All writes are reported again.
    pub fn release_stream(&self) {
        self.stage.lock().held_at = None;
        self.stage.changed.notify_all();
    }

    /// Closes the connections that have a stream.
    pub fn cut_streams(&self) {
        for stream in self.stage.lock().streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Deletes all events so far.
    pub fn forget_history(&self) {
        let mut state = self.stage.lock();
        state.forgotten = state.events.len();
    }

    /// Reports a command on a collection, or on the whole database.
    pub fn report(&self, operation: &str, namespace: Document) {
        let mut state = self.stage.lock();
        let event = doc! { "operationType": operation, "ns": namespace };
        state.write(event);
        drop(state);
        self.stage.changed.notify_all();
    }

    /// The stage `$changeStream` of every stream that was opened.
    pub fn opened(&self) -> Vec<Document> {
        self.stage.lock().opened.clone()
    }

    /// Number of reads by `_id` that reached it.
    pub fn reads(&self) -> usize {
        self.stage.lock().reads
    }

    /// Changes the membership that it reports.
    pub fn belongs(&self, membership: Membership) {
        let mut state = self.stage.lock();
        (state.membership, state.version) = (Some(membership), state.version + 1);
        drop(state);
        self.stage.changed.notify_all();
    }

    /// The records.
    pub fn records(&self) -> BTreeMap<(String, String), Document> {
        self.stage.lock().records.clone()
    }

    /// Replaces all records.
    pub fn has(&self, records: BTreeMap<(String, String), Document>) {
        self.stage.lock().records = records;
    }

    /// Closes all connections, and new ones until [`Self::bring_up`].
    pub fn bring_down(&self) {
        let mut state = self.stage.lock();
        state.is_down = true;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub fn bring_up(&self) {
        self.stage.lock().is_down = false;
    }
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn accept(&self, socket: &TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut state = self.lock();
        if state.is_down {
            return Ok(());
        }
        state.connections.push(socket.try_clone()?);
        drop(state);
        let connection = socket.try_clone()?;
        match tls.map(|tls| ServerConnection::new(tls).expect("a server")) {
            None => self.serve(connection, socket),
            Some(tls) => self.serve(StreamOwned::new(tls, connection), socket),
        }
    }

    fn serve(&self, mut connection: impl Read + Write, socket: &TcpStream) -> io::Result<()> {
        let mut position = 0;
        while let Some(message) = Message::read(&mut connection)? {
            let reply = match message.command() {
                "hello" if message.body.contains_key("maxAwaitTimeMS") => self.hello(&message.body),
                "getMore" => self.get_more(&message.body, &mut position),
                "aggregate" => {
                    let mut state = self.lock();
                    state.streams.push(socket.try_clone()?);
                    state.open(&message.body, &mut position)
                }
                _ => self.lock().answer(&message.body),
            };
            self.changed.notify_all();
            let reply = Message {
                response_to: message.request_id,
                legacy: message.legacy,
                ..Message::new(1, reply)
            };
            reply.write(&mut connection)?;
        }
        Ok(())
    }

    /// Answers once its membership has changed, or after `maxAwaitTimeMS`.
    fn hello(&self, request: &Document) -> Document {
        let known =
            request.get_document("topologyVersion").and_then(|it| it.get_i64("counter")).ok();
        let patience = request.get_i64("maxAwaitTimeMS").map_or(0, i64::unsigned_abs);
        let until = Instant::now() + Duration::from_millis(patience);
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if known != Some(state.version) || left.is_zero() || state.is_down {
                return state.greeting(request);
            }
            state = self.changed.wait_timeout(state, left).expect("no thread panicked").0;
        }
    }

    /// The events after `position`, or an empty batch after `maxTimeMS`.
    fn get_more(&self, request: &Document, position: &mut usize) -> Document {
        let patience = request.get("maxTimeMS").and_then(|bson| match *bson {
            Bson::Int32(short) => u64::try_from(short).ok(),
            Bson::Int64(long) => u64::try_from(long).ok(),
            _ => None,
        });
        let patience = patience.expect("a feed says how long it waits");
        let until = Instant::now() + Duration::from_millis(patience);
        let mut state = self.lock();
        loop {
            if *position < state.forgotten {
                return doc! { "ok": 0.0, "code": 286, "codeName": "ChangeStreamHistoryLost",
                "errmsg": "the resume point may no longer be in the oplog" };
            }
            let end = state.held_at.unwrap_or(state.events.len());
            let left = until.saturating_duration_since(Instant::now());
            if *position < end || left.is_zero() {
                // At most two, so that a batch often ends within a transaction.
                let end = end.min(*position + 2);
                let batch = state.events[*position..end].to_vec();
                let reached = match end > *position {
                    true => event_token(end),
                    false => token(end),
                };
                *position = end;
                return cursor("nextBatch", batch, reached);
            }
            state = self.changed.wait_timeout(state, left).expect("no thread panicked").0;
        }
    }
}

impl State {
    fn answer(&mut self, request: &Document) -> Document {
        let database = request.get_str("$db").unwrap_or_default();
        let (command, first) = request.iter().next().expect("a command");
        let namespace = format!("{database}.{}", first.as_str().unwrap_or_default());
        let id = |document: &Document| document.get("_id").map(Bson::to_string);
        let list = |name: &str| request.get_array(name).expect("a list").iter();
        let document = |bson: &Bson| bson.as_document().cloned().expect("a document");
        if let Some(refusal) = self.refusal(command, request) {
            return refusal;
        }
        match command.as_str() {
            "hello" | "isMaster" | "ismaster" => return self.greeting(request),
            "find" => {
                let key = request.get_document("filter").ok().and_then(id).unwrap_or_default();
                self.reads += usize::from(namespace != "enroute.enroute");
                let found = self.records.get(&(namespace, key)).cloned();
                return doc! { "ok": 1.0, "cursor": { "id": 0_i64, "ns": "shop.users",
                "firstBatch": found.into_iter().collect::<Vec<_>>() } };
            }
            "listCollections" => {
                let name = request.get_document("filter").and_then(|filter| filter.get_str("name"));
                let name = name.expect("the name of a collection");
                return doc! { "ok": 1.0, "cursor": { "id": 0_i64, "ns": "shop.$cmd",
                "firstBatch": [{ "name": name, "type": "collection", "options": {} }] } };
            }
            "insert" => {
                for record in list("documents").map(document) {
                    self.put("insert", &namespace, record);
                }
            }
            "update" => {
                for update in list("updates").map(document) {
                    let mut record = document(update.get("u").expect("a replacement"));
                    let filter = update.get_document("q").expect("a filter");
                    record.insert("_id", filter.get("_id").expect("a key").clone());
                    self.put("replace", &namespace, record);
                }
            }
            "delete" => {
                for delete in list("deletes").map(document) {
                    let filter = delete.get_document("q").expect("a filter").clone();
                    self.records.remove(&(namespace.clone(), id(&filter).expect("a key")));
                    self.write_record("delete", &namespace, &filter);
                }
            }
            "ping" | "endSessions" | "killCursors" => {}
            "connectionStatus" => {
                return doc! { "ok": 1.0, "authInfo": { "authenticatedUsers": [] } };
            }
            other => {
                let errmsg = format!("no such command: '{other}'");
                return doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": errmsg };
            }
        }
        doc! { "ok": 1.0, "n": 1, "nModified": 1 }
    }

    /// The error for a request that a member other than the primary refuses.
    fn refusal(&self, command: &str, request: &Document) -> Option<Document> {
        let membership = self.membership.as_ref()?;
        let writes = matches!(command, "insert" | "update" | "delete");
        let may_lag = request
            .get_document("$readPreference")
            .is_ok_and(|preference| preference.get_str("mode").is_ok_and(|mode| mode != "primary"));
        match command {
            _ if membership.is_primary() => None,
            _ if writes => Some(doc! { "ok": 0.0, "code": 10107, "codeName": "NotWritablePrimary",
            "errmsg": "not primary" }),
            "find" if !may_lag => Some(doc! { "ok": 0.0, "code": 13435,
            "codeName": "NotPrimaryNoSecondaryOk", "errmsg": "not primary and secondaryOk=false" }),
            _ => None,
        }
    }

    fn greeting(&self, request: &Document) -> Document {
        let mut hello = doc! { "ok": 1.0, "helloOk": true, "minWireVersion": 0,
        "maxWireVersion": 21, "maxBsonObjectSize": 16_777_216,
        "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000 };
        let is_primary = self.membership.as_ref().is_none_or(Membership::is_primary);
        hello.extend(doc! { "isWritablePrimary": is_primary, "ismaster": is_primary });
        let process = |byte| bson::oid::ObjectId::from_bytes([byte; 12]);
        match (&self.membership, self.kind) {
            (None, Kind::Standalone) => return hello,
            (_, Kind::Mongos) => {
                hello.insert("msg", "isdbgrid");
                return hello;
            }
            (Some(Membership { me, hosts, primary, election }), _) => {
                hello.extend(doc! { "setVersion": 1, "hosts": hosts, "me": me });
                hello.extend(doc! { "secondary": !is_primary, "primary": primary });
                if is_primary {
                    hello.insert("electionId", process(*election));
                }
                let number = me.bytes().fold(0, |sum: u8, byte| sum.wrapping_mul(31) ^ byte);
                let version = doc! { "processId": process(number), "counter": self.version };
                hello.insert("topologyVersion", version);
            }
            // With `topologyVersion` in the reply, a driver sends awaitable `hello` requests, which
            // this origin does not support.
            (None, _) if request.contains_key("comment") => {
                hello.insert("topologyVersion", doc! { "processId": process(7), "counter": 6_i64 });
            }
            (None, _) => {}
        }
        hello.insert("setName", "rs");
        let date = bson::DateTime::from_millis(1_000_000);
        let last = doc! { "ts": timestamp(self.events.len()), "t": 1_i64 };
        hello.insert("lastWrite", doc! { "opTime": last, "lastWriteDate": date });
        hello
    }

    fn put(&mut self, operation: &str, namespace: &str, record: Document) {
        self.write_record(operation, namespace, &record);
        let key = record.get("_id").expect("a key").to_string();
        self.records.insert((namespace.to_owned(), key), record);
    }

    fn write_record(&mut self, operation: &str, namespace: &str, record: &Document) {
        let (database, collection) = namespace.split_once('.').expect("two parts");
        let id = record.get("_id").expect("a key").clone();
        self.write(
            doc! { "operationType": operation, "ns": { "db": database, "coll": collection },
            "documentKey": { "_id": id } },
        );
    }

    fn write(&mut self, mut event: Document) {
        event.insert("_id", event_token(self.events.len() + 1));
        self.events.push(event);
    }

    fn open(&mut self, request: &Document, position: &mut usize) -> Document {
        if self.kind == Kind::Forbidding {
            return doc! { "ok": 0.0, "code": 13, "codeName": "Unauthorized",
            "errmsg": "not authorized on admin to execute command" };
        }
        let stages = request.get_array("pipeline").expect("a pipeline");
        let stage =
            stages[0].as_document().and_then(|stage| stage.get_document("$changeStream").ok());
        let stage = stage.expect("a change stream").clone();
        let after = stage.get_document("resumeAfter").ok().map(time_of);
        self.opened.push(stage);
        *position = after.unwrap_or(self.held_at.unwrap_or(self.events.len()));
        if *position < self.forgotten {
            return doc! { "ok": 0.0, "code": 286, "codeName": "ChangeStreamHistoryLost",
            "errmsg": "the resume point may no longer be in the oplog" };
        }
        cursor("firstBatch", Vec::new(), token(*position))
    }
}

fn cursor(name: &str, batch: Vec<Document>, token: Document) -> Document {
    doc! { "ok": 1.0, "cursor": {
        "id": 99_i64, "ns": "admin.$cmd.aggregate", name: batch, "postBatchResumeToken": token,
    } }
}

fn timestamp(time: usize) -> Timestamp {
    Timestamp { time: 1_000, increment: time.try_into().expect("few events") }
}

/// The resume token of a stream that has no further events up to `time`.
fn token(time: usize) -> Document {
    doc! { "_data": format!("82{:08X}{time:08X}2B0229296E04", 1_000) }
}

fn event_token(time: usize) -> Document {
    doc! { "_data": format!("82{:08X}{time:08X}2B042C0100296E5A04", 1_000) }
}

fn time_of(token: &Document) -> usize {
    let data = token.get_str("_data").expect("a token");
    usize::from_str_radix(&data[10..18], 16).expect("a time")
}
