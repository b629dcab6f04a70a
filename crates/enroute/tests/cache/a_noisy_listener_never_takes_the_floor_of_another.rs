//! Listeners of all four protocols, two origins each, share one memory: loops over more keys than
//! fit never take what another listener has as its floor, and those whose reads need more memory
//! get it.

use std::{
    net::{SocketAddr, TcpStream},
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use bson::{Binary, Document, doc, spec::BinarySubtype};
use mongodb::sync::Collection;
use serde_json::Value;

use crate::support::{
    directory::TemporaryDirectory,
    dynamodb_history::{self, Signer, access_key},
    enroute::{Enroute, admin, admin_post},
    origins::{DynamoDb, Memcached, Mongo, Redis},
    process::PATIENCE,
    raw::Raw,
};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 16 * MIB;
const FLOOR: u64 = MIB;
const VALUE_BYTES: usize = 8 << 10;
/// 3 MiB: almost twice an equal share.
const USEFUL_KEYS: u64 = 384;
/// 32 MiB: no share holds many of them.
const NOISY_KEYS: u64 = 4_096;
/// 256 KiB, which are in the floor.
const QUIET_KEYS: u64 = 32;
/// Of the quiet listeners, in the order of the configuration; the busy ones follow likewise.
const PROTOCOLS: [&str; 4] = ["redis", "memcached", "mongodb", "dynamodb"];
const LISTENERS: usize = 2 * PROTOCOLS.len();
/// The busy listener of a protocol.
const BUSY: Range<usize> = PROTOCOLS.len()..LISTENERS;
/// Keys that one request of DynamoDB may write.
const WRITTEN_AT_ONCE: u64 = 25;
/// A table of the history's.
const TABLE: &str = r#""TableName":"items0""#;

/// One origin of each protocol.
struct Origins {
    redis: Redis,
    memcached: Memcached,
    mongo: Mongo,
    dynamodb: DynamoDb,
}

impl Origins {
    /// With the first `keys`.
    fn start(keys: u64) -> Option<Self> {
        let (redis, memcached) = (Redis::start()?, Memcached::start()?);
        let (mongo, dynamodb) = (Mongo::start_java()?, DynamoDb::start()?);
        dynamodb_history::create_tables(dynamodb.address());
        let origins = Self { redis, memcached, mongo, dynamodb };
        for (protocol, address) in PROTOCOLS.into_iter().zip(origins.addresses()) {
            let mut client = Client::new(protocol, address);
            let starts = (0..keys).step_by(WRITTEN_AT_ONCE as usize);
            starts.for_each(|from| client.store(from..keys.min(from + WRITTEN_AT_ONCE)));
        }
        Some(origins)
    }

    /// In the order of [`PROTOCOLS`].
    fn addresses(&self) -> [SocketAddr; 4] {
        let Self { redis, memcached, mongo, dynamodb } = self;
        [redis.address(), memcached.address(), mongo.address(), dynamodb.address()]
    }
}

/// A client of an origin or of a listener.
enum Client {
    Redis(redis::Connection),
    Memcached(Raw),
    Mongo(Collection<Document>),
    DynamoDb(TcpStream, Box<Signer>),
}

impl Client {
    fn new(protocol: &str, address: SocketAddr) -> Self {
        match protocol {
            "redis" => {
                let client = redis::Client::open(format!("redis://{address}/")).expect("a URL");
                Self::Redis(client.get_connection().expect("redis listens"))
            }
            "memcached" => Self::Memcached(Raw::connect(address)),
            "mongodb" => {
                let url = format!("mongodb://{address}/?directConnection=true");
                let client = mongodb::sync::Client::with_uri_str(url).expect("a URL");
                Self::Mongo(client.database("shop").collection("items"))
            }
            _ => {
                let connection = dynamodb_history::connect(address).expect("DynamoDB listens");
                Self::DynamoDb(connection, Box::new(Signer::new()))
            }
        }
    }

    /// Stores up to [`WRITTEN_AT_ONCE`] keys.
    fn store(&mut self, keys: Range<u64>) {
        match self {
            Self::Redis(client) => {
                let mut pipeline = redis::pipe();
                keys.for_each(|key| {
                    pipeline.set(name(key), [7; VALUE_BYTES].as_slice()).ignore();
                });
                pipeline.exec(client).expect("redis-server stores");
            }
            Self::Memcached(client) => keys.for_each(|key| {
                client.say(format!("set {} 0 0 {VALUE_BYTES}\r\n", name(key)));
                client.say([&[7; VALUE_BYTES][..], b"\r\n"].concat());
                client.hear("STORED\r\n");
            }),
            Self::Mongo(items) => {
                let item = |key| doc! { "_id": name(key), "v": binary() };
                items.insert_many(keys.map(item)).run().expect("the server stores");
            }
            Self::DynamoDb(connection, signer) => {
                let value = text();
                let put = |key| {
                    let item = format!(r#"{{"id":{{"N":"{key}"}},"v":{{"S":"{value}"}}}}"#);
                    format!(r#"{{"PutRequest":{{"Item":{item}}}}}"#)
                };
                let puts = keys.map(put).collect::<Vec<_>>().join(",");
                let body = format!(r#"{{"RequestItems":{{"items0":[{puts}]}}}}"#);
                let request = signer.sign("BatchWriteItem", &body);
                let (status, told) =
                    dynamodb_history::ask(connection, &request).expect("an answer");
                assert!(status == 200 && told.ends_with(r#""UnprocessedItems":{}}"#), "{told}");
            }
        }
    }

    fn read(&mut self, key: u64) {
        match self {
            Self::Redis(client) => {
                let value: Vec<u8> =
                    redis::cmd("GET").arg(name(key)).query(client).expect("an answer");
                assert_eq!(value, [7; VALUE_BYTES]);
            }
            Self::Memcached(client) => {
                client.say(format!("get {}\r\n", name(key)));
                client.hear(format!("VALUE {} 0 {VALUE_BYTES}\r\n", name(key)));
                client.hear([&[7; VALUE_BYTES][..], b"\r\nEND\r\n"].concat());
            }
            Self::Mongo(items) => {
                let found = items.find_one(doc! { "_id": name(key) }).run().expect("an answer");
                assert_eq!(found.expect("it is stored").get("v"), Some(&binary().into()));
            }
            Self::DynamoDb(connection, signer) => {
                let body = format!(r#"{{{TABLE},"Key":{{"id":{{"N":"{key}"}}}}}}"#);
                let request = signer.sign("GetItem", &body);
                let (status, told) =
                    dynamodb_history::ask(connection, &request).expect("an answer");
                assert!(status == 200 && told.contains(&text()), "{told}");
            }
        }
    }
}

fn name(key: u64) -> String {
    format!("key:{key}")
}

fn binary() -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: vec![7; VALUE_BYTES] }
}

fn text() -> String {
    "7".repeat(VALUE_BYTES)
}

/// The configuration; `more` is for the last listener of memcached.
fn configuration(quiet: &Origins, busy: &Origins, signed: &str, more: &str) -> String {
    let mut text = "[admin]\nlisten = \"127.0.0.1:0\"\n\
         [storage]\nmemory = \"16MiB\"\nauthorization_lease = \"60min\"\nttl = \"60min\"\n"
        .to_owned();
    for (origins, more) in [(quiet, ""), (busy, more)] {
        for (scheme, origin) in PROTOCOLS.into_iter().zip(origins.addresses()) {
            let more = match scheme {
                "memcached" => more,
                "dynamodb" => signed,
                _ => "",
            };
            text.push_str(&format!(
                "[[listener]]\nlisten = \"{scheme}://127.0.0.1:0\"\n\
                 origin = \"{scheme}://{origin}\"\nmemory_min = \"1MiB\"\n{more}\n"
            ));
        }
    }
    text
}

/// Listeners in the statistics. All shares hold at every moment: bounds, and the memory together.
fn listeners(enroute: &Enroute) -> Vec<Value> {
    let stats: Value =
        serde_json::from_str(&admin(enroute.admin_address(), "/stats").body).expect("JSON");
    let held = stats["storage"]["accounted_bytes"].as_u64().expect("a number");
    assert!(held <= MEMORY, "{held} bytes are held");
    let listeners = stats["listeners"].as_array().expect("a list").clone();
    let shares: Vec<u64> = listeners.iter().map(|listener| share(listener, "bytes")).collect();
    assert!(shares.iter().sum::<u64>() <= MEMORY, "{shares:?}");
    assert!(shares.iter().all(|share| *share >= FLOOR), "{shares:?}");
    listeners
}

fn share(listener: &Value, field: &str) -> u64 {
    listener["share"][field].as_u64().unwrap_or_else(|| panic!("no {field} in {listener}"))
}

fn address(listener: &Value) -> SocketAddr {
    listener["listen"].as_str().and_then(|listen| listen.parse().ok()).expect("an address")
}

/// Waits until `expected` is true of the listeners.
fn wait(enroute: &Enroute, what: &str, expected: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let now = listeners(enroute);
        if expected(&now) {
            return now;
        }
        assert!(started.elapsed() < 2 * PATIENCE, "not {what}: {now:#?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Ends the readers when it is dropped, so that a failed assertion does not wait for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Reads at the busy listeners: random useful keys at these two, all keys in turn at the others,
/// until `expected` is true of all listeners and the others have read twice what all of the memory
/// holds.
fn read_until(
    enroute: &Enroute,
    useful: [usize; 2],
    what: &str,
    expected: impl Fn(&[Value]) -> bool,
) {
    let (over, now) = (AtomicBool::new(false), listeners(enroute));
    let noisy_reads = [const { AtomicU64::new(0) }; PROTOCOLS.len()];
    thread::scope(|scope| {
        let _ends = Ends(&over);
        for (number, reads) in BUSY.zip(&noisy_reads) {
            let (over, address) = (&over, address(&now[number]));
            scope.spawn(move || {
                let mut client = Client::new(PROTOCOLS[number - BUSY.start], address);
                let mut at = 1_u64;
                while !over.load(Relaxed) {
                    if useful.contains(&number) {
                        at = at
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        client.read((at >> 33) % USEFUL_KEYS);
                    } else {
                        client.read(reads.fetch_add(1, Relaxed) % NOISY_KEYS);
                    }
                }
            });
        }
        let read_enough = |number: usize| {
            let reads = noisy_reads[number - BUSY.start].load(Relaxed);
            useful.contains(&number) || reads >= 2 * MEMORY / VALUE_BYTES as u64
        };
        wait(enroute, what, |now| expected(now) && BUSY.into_iter().all(read_enough));
    });
}

/// Reads all keys at the quiet listeners; returns the number of hits.
fn read_quiet(enroute: &Enroute, clients: &mut [Client]) -> u64 {
    let before = hits(enroute);
    for client in clients {
        (0..QUIET_KEYS).for_each(|key| client.read(key));
    }
    hits(enroute) - before
}

fn hits(enroute: &Enroute) -> u64 {
    let stats: Value =
        serde_json::from_str(&admin(enroute.admin_address(), "/stats").body).expect("JSON");
    stats["reads"]["hits"].as_u64().expect("a number")
}

fn why(listener: &Value) -> &str {
    listener["share"]["why"].as_str().expect("a reason")
}

#[test]
fn useful_listeners_get_the_memory_and_quiet_ones_keep_their_floor() {
    let (Some(quiet), Some(busy)) = (Origins::start(QUIET_KEYS), Origins::start(NOISY_KEYS)) else {
        return;
    };
    let directory = TemporaryDirectory::create();
    let signed = access_key(&directory);
    let configured = |more: &str| configuration(&quiet, &busy, &signed, more);
    let enroute = Enroute::start_with_config(&["cache"], &configured(""));
    let now = listeners(&enroute);
    let equal = MEMORY / LISTENERS as u64;
    assert!(now.iter().all(|listener| share(listener, "bytes") >= equal - 1), "{now:#?}");
    assert!(now.iter().all(|listener| why(listener) == "measuring"), "{now:#?}");
    let quiet_clients = PROTOCOLS.into_iter().zip(&now);
    let mut quiet_clients: Vec<_> =
        quiet_clients.map(|(protocol, now)| Client::new(protocol, address(now))).collect();
    assert_eq!(read_quiet(&enroute, &mut quiet_clients), 0);
    let held = USEFUL_KEYS * VALUE_BYTES as u64;
    let quiet_keys = PROTOCOLS.len() as u64 * QUIET_KEYS;
    let [redis, memcached, mongodb, dynamodb] = [4, 5, 6, 7];
    read_until(&enroute, [mongodb, dynamodb], "useful keys are held", |now| {
        [mongodb, dynamodb].into_iter().all(|number| {
            share(&now[number], "accounted_bytes") > held && why(&now[number]) == "enough"
        })
    });
    // The noise has evicted nothing of the quiet listeners.
    assert_eq!(read_quiet(&enroute, &mut quiet_clients), quiet_keys);
    // Those that were useful are noisy, and the other way round.
    let before = listeners(&enroute);
    read_until(&enroute, [redis, memcached], "shares of useful keys have grown", |now| {
        let bytes = |listeners: &[Value], number: usize| share(&listeners[number], "bytes");
        [redis, memcached].into_iter().all(|number| bytes(now, number) > bytes(&before, number))
    });
    assert_eq!(read_quiet(&enroute, &mut quiet_clients), quiet_keys);
    let (page, metrics) =
        (admin(enroute.admin_address(), "/"), admin(enroute.admin_address(), "/metrics"));
    assert!(page.body.contains("Shares of the memory"));
    let shown =
        metrics.body.lines().filter(|line| line.starts_with("enroute_share_bytes{")).count();
    assert_eq!(shown, LISTENERS, "{}", metrics.body);
    let top = Enroute::start(&["top", "--once", &enroute.admin_address().to_string()]).wait();
    assert_eq!(top.stdout.matches("  share ").count(), LISTENERS, "{}{}", top.stdout, top.stderr);

    // A ceiling holds at once, and drops no more than it must.
    enroute.write_config(&configured("memory_max = \"1536KiB\""));
    let reloaded = admin_post(enroute.admin_address(), "/reload", "").body;
    assert!(reloaded.contains("memory_max"), "{reloaded}");
    let ceiling = 3 * MIB / 2;
    let now = wait(&enroute, "what is held is below the ceiling", |now| {
        share(&now[memcached], "accounted_bytes") <= ceiling
    });
    let capped = &now[memcached];
    assert!(share(capped, "bytes") <= ceiling && share(capped, "items") > 96, "{now:#?}");
    assert_eq!(why(capped), "ceiling");
}
