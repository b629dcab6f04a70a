//! EXEC executes all its commands, or is refused before the first of them: the log of a shard never
//! runs out of space halfway, however much EXEC writes.

#[path = "commands/exercise.rs"]
#[expect(dead_code, reason = "shared by several tests")]
mod exercise;

use std::{cell::RefCell, collections::BTreeMap};

use db::{Server, Session, Shard, Step, parameters::Parameters};
use exercise::{Cells, NOW, NoHost};
use store::{
    Faults, SimulatedDevice,
    device::carry_out,
    elastic::{Config, Elastic, Sync},
};

const SEGMENT_BYTES: usize = 64 << 10;
const VALUE_BYTES: usize = 12_000;

struct Database {
    device: SimulatedDevice,
    shards: Cells,
    server: Server,
    session: Session,
}

impl Database {
    fn new() -> Self {
        let device = SimulatedDevice::new(1, Faults::default());
        let config = Config {
            memory_bytes: 4 << 20,
            segment_bytes: SEGMENT_BYTES as u64,
            sync: Sync::Always,
            ..Config::default()
        };
        let store = Elastic::open(config, &device, NOW).expect("opens");
        let shards = Cells(vec![RefCell::new(Shard::new("shard-000", store))]);
        let parameters = Parameters::new(64 << 20, 10, Sync::Always, BTreeMap::new());
        let server = Server::new(&db::ROWS, Box::new(NoHost), parameters, 1, NOW);
        let client = server.clients.enter(String::new(), String::new(), 0, |_| Box::new(|| {}));
        let session = Session::new(client, &server);
        Self { device, shards, server, session }
    }

    fn ask(&mut self, words: &[&[u8]]) -> String {
        let Self { device, shards, server, session } = self;
        let mut out = Vec::new();
        while session.execute(words, server, shards, &mut out, NOW) != Step::Done {
            let mut shard = shards.0[0].borrow_mut();
            let command = shard.store.poll_device(NOW).expect("it waits for the disk");
            let completion = carry_out(device, &command);
            shard.store.complete(completion, NOW);
        }
        String::from_utf8(out).expect("text")
    }

    /// Returns the reply to EXEC of `count` commands; `words` makes each from its number.
    fn transact(&mut self, count: usize, words: impl Fn(usize) -> Vec<String>) -> String {
        self.ask(&[b"multi"]);
        for number in 0..count {
            let words = words(number);
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            assert_eq!(self.ask(&words), "+QUEUED\r\n");
        }
        self.ask(&[b"exec"])
    }
}

fn word(text: &str) -> String {
    text.to_owned()
}

#[test]
fn values_that_the_client_sends() {
    let mut database = Database::new();
    let mut last = 0;
    for count in 1..40 {
        let value = format!("{count:0VALUE_BYTES$}");
        let set = |number| vec![word("set"), format!("key{number}"), value.clone()];
        let answer = database.transact(count, set);
        if answer == format!("*{count}\r\n{}", "+OK\r\n".repeat(count)) {
            last = count;
        } else {
            assert!(answer.starts_with("-EXECABORT Transaction discarded because"), "{answer}");
            assert!(answer.contains("shard-000: expected at most 65536"), "{answer}");
            assert!(count * (VALUE_BYTES + 100) > SEGMENT_BYTES - 16_384, "{count}: {answer}");
        }
        let held = database.ask(&[b"get", b"key0"]);
        assert!(held.ends_with(&format!("{last}\r\n")), "{count}: {}", &held[held.len() - 9..]);
    }
    assert!(last > 1 && last < 6, "{last}");
}

#[test]
fn values_that_the_database_holds() {
    let mut database = Database::new();
    database.ask(&[b"set", b"key", &[b'v'; VALUE_BYTES]]);
    for (count, command) in [(40, "append key x"), (40, "persist key"), (40, "setrange key 3 x")] {
        let command: Vec<String> = command.split(' ').map(word).collect();
        let answer = database.transact(count, |_| command.clone());
        let refused = answer.starts_with("-EXECABORT");
        // PERSIST would change nothing here, but the bound assumes that it does.
        assert!(refused, "{command:?}: {}", &answer[..answer.len().min(200)]);
        assert_eq!(database.ask(&[b"strlen", b"key"]), format!(":{VALUE_BYTES}\r\n"));
    }
    let answer = database.transact(3, |_| vec![word("append"), word("key"), word("x")]);
    assert_eq!(answer, format!("*3\r\n:{}\r\n:{}\r\n:{}\r\n", 12_001, 12_002, 12_003));
}

#[test]
fn removals_of_everything() {
    let mut database = Database::new();
    let words = |number| match number % 2 {
        0 => vec![word("set"), word("key"), format!("{number}")],
        _ => vec![word("flushall")],
    };
    for count in 1..40 {
        let answer = database.transact(count, words);
        assert_eq!(answer, format!("*{count}\r\n{}", "+OK\r\n".repeat(count)));
    }
}

#[test]
fn values_of_the_database_that_a_refused_select_leaves() {
    let mut database = Database::new();
    database.ask(&[b"set", b"key", &[b'v'; VALUE_BYTES]]);
    let words = |number| match number {
        0 => ["acl", "setuser", "default", "-select"].map(word).to_vec(),
        1 => vec![word("select"), word("1")],
        _ => vec![word("append"), word("key"), word("x")],
    };
    let answer = database.transact(20, words);
    assert!(answer.starts_with("-EXECABORT Transaction discarded because"), "{answer}");
    assert_eq!(database.ask(&[b"strlen", b"key"]), format!(":{VALUE_BYTES}\r\n"));
    let answer = database.transact(4, words);
    assert!(answer.starts_with("*4\r\n+OK\r\n-NOPERM"), "{answer}");
    assert!(answer.ends_with(&format!(":{}\r\n:{}\r\n", 12_001, 12_002)), "{answer}");
}

#[test]
fn removals_of_a_whole_database() {
    let mut database = Database::new();
    database.ask(&[b"select", b"1"]);
    for number in 0..400 {
        database.ask(&[b"set", format!("key{number}").as_bytes(), b"v"]);
    }
    let answer = database.transact(1, |_| vec![word("flushdb")]);
    assert!(answer.starts_with("-EXECABORT"), "{answer}");
    assert_eq!(database.ask(&[b"dbsize"]), ":400\r\n");
    database.ask(&[b"flushall"]);
    database.ask(&[b"set", b"key", b"v"]);
    assert_eq!(database.transact(1, |_| vec![word("flushdb")]), "*1\r\n+OK\r\n");
    assert_eq!(database.ask(&[b"dbsize"]), ":0\r\n");
}
