//! Code shared by the test `hostile_bytes_harm_only_their_connection` and the fuzz target
//! `session`.
//!
//! The input is a conversation: first the protocol, then chunks. A chunk begins with a byte whose
//! low bit selects the sender and whose other bits are the number of bytes that follow. If that
//! number is `CONTROL`, the next byte is an event instead.

use std::{sync::Arc, time::Duration};

use cache::{
    Session, Side,
    filter::{Filter, dynamodb, memcache, mongo, resp},
    lease::Ticket,
    session,
    storage::{self, MemoryStorage},
};

/// A chunk of this length is an event.
pub(crate) const CONTROL: u8 = 127;

const BUFFERED_BYTES_MAX: usize = 2_000;
/// A name that the fuzzer cannot guess.
const NEIGHBOUR: &str = "a user whose name is in no corpus 0d4b7a";

/// Feeds the input to one connection of any protocol, next to a well-behaved connection. Panics if
/// an invariant of sessions is violated.
pub(crate) fn exercise(input: &[u8]) {
    match input.split_first() {
        Some((0, conversation)) => redis(conversation),
        Some((2, conversation)) => {
            let mut storage = storage();
            let settings = memcache_settings();
            hold(memcache::Memcache::new(Arc::new(settings)), conversation, &mut storage);
            rest(&mut storage);
        }
        Some((3, conversation)) => {
            let mut storage = storage();
            let settings = dynamodb_settings();
            hold(dynamodb::DynamoDb::new(Arc::new(settings)), conversation, &mut storage);
            rest(&mut storage);
        }
        Some((_, conversation)) => {
            let mut storage = storage();
            hold(mongo::Mongo::new(Arc::new(mongo_settings())), conversation, &mut storage);
            rest(&mut storage);
        }
        None => {}
    }
}

fn redis(conversation: &[u8]) {
    let filter = || resp::Resp::new(Arc::new(resp_settings()));
    let now = Duration::ZERO;
    let mut storage = storage();
    let mut neighbour = Session::new(filter(), Arc::new(config()), Ticket(2));
    let mut say = |side, bytes: &str, storage: &mut MemoryStorage| {
        neighbour.receive(side, bytes.as_bytes(), storage, now).expect("the neighbour behaves");
        [Side::Client, Side::Server].map(|side| {
            let output = neighbour.output(side);
            let heard = output.bytes().to_vec();
            output.advance(heard.len());
            heard
        })
    };
    say(Side::Client, &format!("AUTH \"{NEIGHBOUR}\" secret\r\n"), &mut storage);
    say(Side::Server, "+OK\r\n", &mut storage);
    say(Side::Client, "GET a\r\n", &mut storage);
    say(Side::Server, "*2\r\n$4\r\nkeys\r\n$2\r\n~a\r\n", &mut storage);
    say(Side::Server, "$5\r\nright\r\n:-1\r\n", &mut storage);

    hold(filter(), conversation, &mut storage);

    let [client, server] = say(Side::Client, "GET a\r\n", &mut storage);
    let hit = client == b"$5\r\nright\r\n" && server.is_empty();
    let miss = client.is_empty() && server.starts_with(b"GET a\r\n");
    assert!(hit || miss, "{} {}", client.escape_ascii(), server.escape_ascii());
    neighbour.close(&mut storage, now);
    rest(&mut storage);
}

/// Runs the conversation on one connection, until its end or a protocol violation.
fn hold<F: Filter>(filter: F, mut conversation: &[u8], storage: &mut MemoryStorage) {
    let mut session = Session::new(filter, Arc::new(config()), Ticket(1));
    let mut now = Duration::from_secs(1);
    let mut said = 0;
    while let Some((&head, rest)) = conversation.split_first() {
        let (side, length) = (if head & 1 == 0 { Side::Client } else { Side::Server }, head >> 1);
        let outcome = if length == CONTROL {
            let (&what, behind) = rest.split_first().unwrap_or((&0, &[]));
            conversation = behind;
            happen(what, &mut session, storage, &mut now)
        } else {
            let (piece, behind) = rest.split_at(rest.len().min(length.into()));
            conversation = behind;
            said += piece.len();
            session.receive(side, piece, storage, now)
        };
        // Output is bounded by the received bytes, plus one or two answers from storage.
        for side in [Side::Client, Side::Server] {
            let buffered = session.output(side).len();
            assert!(buffered <= 4 * BUFFERED_BYTES_MAX + 60 * said, "{buffered} of {said}");
        }
        storage.woken().clear();
        if outcome.is_err() {
            break;
        }
    }
    session.close(storage, now);
    storage.woken().clear();
}

fn happen<F: Filter>(
    what: u8,
    session: &mut Session<F>,
    storage: &mut MemoryStorage,
    now: &mut Duration,
) -> Result<(), cache::Error> {
    match what % 6 {
        0 => *now += Duration::from_millis(what.into()),
        1 => session.output(Side::Client).advance(usize::MAX / 2),
        2 => session.output(Side::Server).advance(usize::MAX / 2),
        3 => {
            let _either = session.origin_unreachable("the origin cannot be reached", storage, *now);
        }
        4 => {
            let _either = session.origin_lost(session::Loss::Broken, storage, *now);
        }
        _ => return session.proceed(storage, *now),
    }
    storage.advance(*now);
    session.handle_timeout(storage, *now)
}

/// Asserts that storage is idle.
fn rest(storage: &mut MemoryStorage) {
    storage.advance(Duration::from_secs(3_600));
    assert!(storage.is_idle());
}

fn storage() -> MemoryStorage {
    let mut config = storage::Config::default();
    config.memory.value_bytes_max = 1_000;
    config.memory.bytes_max = 1 << 20;
    MemoryStorage::new(config, 1)
}

fn config() -> session::Config {
    session::Config {
        pipeline_max: 20,
        buffered_bytes_max: BUFFERED_BYTES_MAX,
        captured_bytes_max: 500,
        withheld_bytes_max: 1_500,
        held_writes_max: 4,
        ..session::Config::default()
    }
}

fn resp_settings() -> resp::Settings {
    let limits = wire::resp::Limits {
        request_bytes_max: 4_000,
        bulk_bytes_max: 2_000,
        arguments_max: 200,
        inline_bytes_max: 300,
        ..wire::resp::Limits::default()
    };
    resp::Settings { limits, ..resp::Settings::default() }
}

fn memcache_settings() -> memcache::Settings {
    let limits = wire::memcache::Limits {
        line_bytes_max: 300,
        keys_line_bytes_max: 500,
        value_bytes_max: 4_000,
    };
    memcache::Settings { limits, ..memcache::Settings::default() }
}

fn dynamodb_settings() -> dynamodb::Settings {
    const KEYS: &str = "[a]\naws_access_key_id = A\naws_secret_access_key = secret of A\n\
                        [b]\naws_access_key_id = B\naws_secret_access_key = secret of B\n";
    dynamodb::Settings {
        limits: wire::http1::Limits {
            head_bytes_max: 1_000,
            body_bytes_max: 4_000,
            content_bytes_max: 8_000,
        },
        credentials: Arc::new(wire::sigv4::Credentials::parse(KEYS).expect("valid").into()),
        // When the requests of the corpus were signed.
        clock: Duration::from_secs(1_440_938_160),
        ..dynamodb::Settings::default()
    }
}

fn mongo_settings() -> mongo::Settings {
    let limits = wire::mongo::frame::Limits { frame_bytes_max: 4_000, inflated_bytes_max: 8_000 };
    mongo::Settings {
        limits,
        advertise: Some(mongo::Advertised::only("proxy:1".to_owned())),
        ..mongo::Settings::default()
    }
}
