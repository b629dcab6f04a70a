//! The history of many DynamoDB clients on few items.
//!
//! Replies to reads are not stored for two seconds after a write of their item, so that items that
//! are written all the time are never hits. The clients write one group of items after the other,
//! each of which is a table: those of the other groups have settled, and the pages of their tables.
//!
//! For the same reason, a reply can arrive late, after a write that was sent in between, only for
//! an item that is not stored and has settled. Some items of each group are therefore not read
//! until all clients read them at once, and a few of the clients write them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wire::dynamodb::reply::{Reply, Scanner};
use wire::dynamodb::request;
use wire::http1::Limits;
use wire::sigv4::{Credentials, Post, Verifier};

use super::directory::{TemporaryDirectory, write_with_mode};
use super::history::{self, GoesOn, Operation, Outcome, Recorder, What};
use super::process::PATIENCE;

const CLIENTS: usize = 16;
const GROUPS: usize = 8;
/// Number of keys of a group.
const GROUP: usize = 6;
pub const KEYS: usize = GROUP * GROUPS;
/// Number of keys of a group that are used only in a moment of their own: its first ones.
const COLD: usize = 3;
/// The length of such a moment. The items of a group are written for the moments of its cold keys.
const MOMENT: Duration = Duration::from_millis(160);
/// Pause before another attempt to connect to an address without a listener.
const PAUSE: Duration = Duration::from_millis(2);
/// Errors of requests without an effect: the origin has no table, or is not reached by the cache.
const HAD_NO_EFFECT: [&str; 2] = ["ResourceNotFoundException", "ServiceUnavailable"];

/// The region of the tables.
const REGION: &str = "eu-central-1";
const CREDENTIALS: &str = "[one]\naws_access_key_id = AKIDONE\naws_secret_access_key = one\n";
const TABLE: &str = r#""KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],
    "AttributeDefinitions":[{"AttributeName":"id","AttributeType":"N"}],"BillingMode":"PAY_PER_REQUEST",
    "StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}"#;

/// The options of a listener that knows the access key of the clients, and answers queries; the
/// file is in `directory`.
pub fn access_key(directory: &TemporaryDirectory) -> String {
    let file = directory.path().join("credentials");
    write_with_mode(&file, CREDENTIALS, 0o600);
    format!("\ncredentials_file = \"{}\"\ncache_queries = true", file.display())
}

/// The same with a feed that reads as often as DynamoDB allows, at another server than the origin
/// if one is given.
pub fn with_feed(directory: &TemporaryDirectory, server: Option<SocketAddr>) -> String {
    let endpoint = server.map(|server| format!(", endpoint = \"dynamodb://{server}\""));
    let endpoint = endpoint.unwrap_or_default();
    let feed = format!("access_key = \"AKIDONE\", region = \"{REGION}\", interval = \"200ms\"");
    format!("{}\nfeed = {{ {feed}{endpoint} }}", access_key(directory))
}

/// Creates the tables at an origin, or through the cache, which has none of their items afterwards.
/// Waits until the origin answers that they exist.
pub fn create_tables(address: SocketAddr) {
    let (mut signer, began) = (Signer::new(), Instant::now());
    for group in 0..GROUPS {
        let body = format!(r#"{{{},{TABLE}"#, table(group * GROUP));
        let mut told = || ask(&mut connect(address)?, &signer.sign("CreateTable", &body));
        // The reply to an earlier request may be lost.
        let exists = |(status, body): (u16, String)| status == 200 || body.contains("InUse");
        while !told().is_some_and(exists) {
            assert!(began.elapsed() < PATIENCE, "the origin is not reached");
            thread::sleep(PAUSE);
        }
    }
}

/// Clients of `address` send one request after another while it `goes_on`.
pub fn work(address: SocketAddr, seed: u64, start: Instant, goes_on: GoesOn<'_>) -> Vec<Operation> {
    history::of_clients(CLIENTS, |number| Client::new(number, address, seed, start).run(goes_on))
}

/// Signs requests as the access key of the clients.
pub struct Signer {
    verifier: Verifier,
    credentials: Credentials,
}

impl Signer {
    pub fn new() -> Self {
        let credentials = Credentials::parse(CREDENTIALS).expect("valid");
        Self { verifier: Verifier::default(), credentials }
    }

    pub fn sign(&mut self, operation: &str, body: &str) -> Vec<u8> {
        let post = Post {
            host: "localhost",
            target: &format!("DynamoDB_20120810.{operation}"),
            content_type: request::JSON,
            body: body.as_bytes(),
            access_key: "AKIDONE",
            region: REGION,
            service: "dynamodb",
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let mut out = Vec::new();
        self.verifier.write(&post, &self.credentials, now, &mut out).expect("a known key");
        out
    }
}

struct Client {
    number: usize,
    address: SocketAddr,
    start: Instant,
    random: Pcg64Mcg,
    signer: Signer,
    connection: Option<TcpStream>,
    /// The reply to the last request was lost. It writes again once the origin has answered a read:
    /// thousands of writes of unknown outcome cannot be checked.
    lost: bool,
    recorder: Recorder,
}

impl Client {
    fn new(number: usize, address: SocketAddr, seed: u64, start: Instant) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
        let (signer, recorder) = (Signer::new(), Recorder::new(number, start));
        Self { number, address, start, random, signer, connection: None, lost: false, recorder }
    }

    fn run(mut self, goes_on: GoesOn<'_>) -> Vec<Operation> {
        let mut value = self.number as u64 * 1_000_000_000;
        let mut last = None;
        while goes_on() {
            value += 1;
            let moment = (self.start.elapsed().as_millis() / MOMENT.as_millis()) as usize;
            let group = moment / COLD % GROUPS * GROUP;
            let cold = group + moment % COLD;
            let own = group + self.random.random_range(COLD..GROUP);
            let any =
                self.random.random_range(0..GROUPS) * GROUP + self.random.random_range(COLD..GROUP);
            if self.lost {
                self.read(own);
                continue;
            }
            let is_first = last.replace(moment) != Some(moment);
            match self.random.random_range(0..100) {
                0..15 if is_first => self.write(cold, What::Write(value)),
                15..30 if is_first => self.read_many(cold, any),
                0..10 => self.read(cold),
                _ if is_first => self.read(cold),
                10..25 => self.read(own),
                25..40 => self.read(any),
                40..50 => self.read_many(own, any),
                50..55 => self.read_page(own),
                55..65 => self.read_page(any),
                65..95 => self.write(own, What::Write(value)),
                _ => self.write(own, What::Delete),
            }
        }
        self.recorder.finish()
    }

    fn read(&mut self, key: usize) {
        let (id, table) = (id(key), table(key));
        let body = match self.random.random_range(0..3) {
            // Never from storage.
            _ if self.lost => format!(r#"{{{table},"Key":{{{id}}},"ConsistentRead":true}}"#),
            0 => format!(r#"{{{table},"Key":{{{id}}},"ProjectionExpression":"v"}}"#),
            1 => format!(r#"{{"Key":{{{id}}},{table},"ConsistentRead":false}}"#),
            _ => format!(r#"{{{table},"Key":{{{id}}}}}"#),
        };
        let request = self.signer.sign("GetItem", &body);
        let (address, connection) = (self.address, &mut self.connection);
        let told = self.recorder.record(key, || {
            let (status, body) = converse(address, connection, &request)?;
            (status == 200).then(|| (What::Read(value_in(&body)), Outcome::Succeeded))
        });
        self.lost &= !told;
    }

    fn read_many(&mut self, one: usize, other: usize) {
        let mut keys = vec![one];
        keys.extend((other != one).then_some(other));
        let named = |keys: &[usize]| {
            let named: Vec<_> = keys.iter().map(|&key| format!("{{{}}}", id(key))).collect();
            format!(r#"{}:{{"Keys":[{}]}}"#, name(keys[0]), named.join(","))
        };
        let tables = match keys[..] {
            [one, other] if one / GROUP != other / GROUP => {
                [named(&[one]), named(&[other])].join(",")
            }
            _ => named(&keys),
        };
        let body = format!(r#"{{"RequestItems":{{{tables}}}}}"#);
        let request = self.signer.sign("BatchGetItem", &body);
        let (address, connection) = (self.address, &mut self.connection);
        self.recorder.record_reads(|| {
            let (status, body) = converse(address, connection, &request)?;
            let whole = body.ends_with(r#""UnprocessedKeys":{}}"#);
            (status == 200 && whole).then(|| values_in(&body, keys))
        });
    }

    /// Reads an item, or all of its table, as a page.
    fn read_page(&mut self, key: usize) {
        let first = key / GROUP * GROUP;
        let (operation, keys, more) = match self.random.random_range(0..2) {
            0 => ("Scan", (first..first + GROUP).collect(), String::new()),
            _ => {
                let of = r#","KeyConditionExpression":"id = :k","ExpressionAttributeValues":"#;
                ("Query", vec![key], format!(r#"{of}{{":k":{{"N":"{key}"}}}}"#))
            }
        };
        let request = self.signer.sign(operation, &format!("{{{}{more}}}", table(key)));
        let (address, connection) = (self.address, &mut self.connection);
        self.recorder.record_reads(|| {
            let (status, body) = converse(address, connection, &request)?;
            (status == 200).then(|| values_in(&body, keys))
        });
    }

    fn write(&mut self, key: usize, what: What) {
        let (id, name, table) = (id(key), name(key), table(key));
        let value = match what {
            What::Write(value) => value,
            _ => 0,
        };
        let item = format!(r#"{{{id},"v":{{"N":"{value}"}}}}"#);
        let (operation, body) = match (what, self.random.random_range(0..20)) {
            (What::Write(_), 0..10) => ("PutItem", format!(r#"{{{table},"Item":{item}}}"#)),
            (What::Write(_), 10..15) => {
                let set = format!(
                    r#""UpdateExpression":"SET v = :v","ExpressionAttributeValues":{{":v":{{"N":"{value}"}}}}"#
                );
                ("UpdateItem", format!(r#"{{{table},"Key":{{{id}}},{set}}}"#))
            }
            (What::Write(_), 15..18) => {
                let put = format!(r#"{{"PutRequest":{{"Item":{item}}}}}"#);
                ("BatchWriteItem", format!(r#"{{"RequestItems":{{{name}:[{put}]}}}}"#))
            }
            (What::Write(_), _) => {
                let put = format!(r#"{{"Put":{{{table},"Item":{item}}}}}"#);
                ("TransactWriteItems", format!(r#"{{"TransactItems":[{put}]}}"#))
            }
            _ => ("DeleteItem", format!(r#"{{{table},"Key":{{{id}}}}}"#)),
        };
        let request = self.signer.sign(operation, &body);
        let (address, connection, lost) = (self.address, &mut self.connection, &mut self.lost);
        self.recorder.record(key, || {
            let outcome = match converse(address, connection, &request) {
                Some((200, body)) => {
                    assert!(!body.contains("PutRequest"), "unprocessed: {body}");
                    Outcome::Succeeded
                }
                Some((_, body)) if HAD_NO_EFFECT.iter().any(|error| body.contains(error)) => {
                    Outcome::Failed
                }
                _ => {
                    *lost = true;
                    Outcome::Unknown
                }
            };
            Some((what, outcome))
        });
    }
}

/// The name of the table of an item, in quotes.
fn name(key: usize) -> String {
    format!(r#""items{}""#, key / GROUP)
}

/// The member that names it.
fn table(key: usize) -> String {
    format!(r#""TableName":{}"#, name(key))
}

/// The key attribute of an item.
fn id(key: usize) -> String {
    format!(r#""id":{{"N":"{key}"}}"#)
}

/// The values of the items with these keys in a reply; they are in any order, as the members of an
/// item are.
fn values_in(body: &str, keys: Vec<usize>) -> Vec<(usize, Option<u64>)> {
    let items = || body.split(['[', ']']).flat_map(|items| items.split("},{"));
    let value = |key| items().find(|item| item.contains(&id(key))).and_then(value_in);
    keys.into_iter().map(|key| (key, value(key))).collect()
}

/// The value in the text of an item.
fn value_in(item: &str) -> Option<u64> {
    let (_, value) = item.split_once(r#""v":{"N":""#)?;
    value.split('"').next()?.parse().ok()
}

/// Sends a request on the connection, or on another if there is none. A connection with a reply
/// that is no answer is not used again.
fn converse(
    address: SocketAddr,
    connection: &mut Option<TcpStream>,
    request: &[u8],
) -> Option<(u16, String)> {
    let Some(mut used) = connection.take().or_else(|| connect(address)) else {
        thread::sleep(PAUSE);
        return None;
    };
    let told = ask(&mut used, request)?;
    if told.0 >= 500 {
        thread::sleep(PAUSE);
    } else {
        *connection = Some(used);
    }
    Some(told)
}

pub fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

/// Status and body of the reply; `None` if it is incomplete.
pub fn ask(stream: &mut TcpStream, request: &[u8]) -> Option<(u16, String)> {
    let limits = Limits::default();
    stream.write_all(request).ok()?;
    let (mut reply, mut buffer, mut seen) = (Vec::new(), [0; 8 << 10], 0);
    let mut scanner = Scanner::default();
    loop {
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        reply.extend_from_slice(&buffer[..read]);
        let progress = scanner.advance(&reply[seen..], false, &limits).expect("HTTP");
        seen += progress.consumed;
        if progress.complete {
            let parsed = Reply::parse(&reply[..seen], &limits).expect("a reply");
            return Some((parsed.head.status, String::from_utf8_lossy(&parsed.body).into_owned()));
        }
    }
}
