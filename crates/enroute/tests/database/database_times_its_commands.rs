//! The latency of every command of `enroute db` is counted once, by what it waited for.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use crate::support::{database::Database, enroute::admin, metrics::Metrics};

const KEYS: u64 = 20_000;
const VALUE_BYTES: usize = 2_000;
const LATENCY: &str = "enroute_db_command_latency_seconds";

/// A client that sends nothing but what it is told to.
struct Client {
    stream: BufReader<TcpStream>,
    sent: u64,
}

impl Client {
    fn new(database: &Database) -> Self {
        let stream = TcpStream::connect(database.address()).expect("it listens");
        Self { stream: BufReader::new(stream), sent: 0 }
    }

    /// Sends commands together, then reads the reply to each.
    fn say(&mut self, commands: &[String]) {
        let text = commands.join("\r\n") + "\r\n";
        self.stream.get_mut().write_all(text.as_bytes()).expect("it reads");
        commands.iter().for_each(|_| self.reply());
        self.sent += commands.len() as u64;
    }

    fn reply(&mut self) {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a reply");
        let length = || line[1..].trim_end().parse().expect("a length");
        match line.as_bytes()[0] {
            b'+' | b':' => {}
            b'*' => (0..length()).for_each(|_: u64| self.reply()),
            b'$' => {
                let mut value = vec![0; length() as usize + 2];
                self.stream.read_exact(&mut value).expect("a value");
            }
            _ => panic!("{line}"),
        }
    }
}

/// Commands by what they waited for: nothing, the disk, their own parts.
fn counts(metrics: &Metrics) -> [u64; 3] {
    ["nothing", "disk", "parts"]
        .map(|reason| metrics.count(LATENCY, &format!("waited_for=\"{reason}\"")))
}

/// The counts once they have all that was sent.
fn settled(database: &Database, sent: u64) -> [u64; 3] {
    let all = |metrics: &Metrics| counts(metrics).iter().sum::<u64>() >= sent;
    let metrics = Metrics::once(database.admin(), all);
    assert_eq!(metrics.value("enroute_db_commands_total"), sent as f64);
    let counts = counts(&metrics);
    assert_eq!(counts.iter().sum::<u64>(), sent, "{counts:?}");
    counts
}

#[test]
fn every_command_is_counted_once_by_what_it_waited_for() {
    let database = Database::start_with(&["--memory", "32MiB", "--admin", "127.0.0.1:0"]);
    let mut client = Client::new(&database);
    let value = "x".repeat(VALUE_BYTES);
    for first in (0..KEYS).step_by(500) {
        let keys = first..first + 500;
        client.say(&keys.map(|key| format!("SET {key} {value}")).collect::<Vec<_>>());
    }
    let [_, disk, parts] = settled(&database, client.sent);
    assert_eq!(parts, 0);

    // More than fits into memory.
    for first in (0..KEYS).step_by(50) {
        let keys = first..first + 50;
        client.say(&keys.map(|key| format!("GET {key}")).collect::<Vec<_>>());
    }
    let read = settled(&database, client.sent);
    assert!(read[1] >= disk + 100, "{disk}, then {read:?}");

    // In memory after the first.
    client.say(&["GET 1".to_owned()]);
    let before = settled(&database, client.sent);
    client.say(&["GET 1".to_owned()]);
    let after = settled(&database, client.sent);
    assert_eq!(after, [before[0] + 1, before[1], before[2]]);

    let stats = admin(database.admin(), "/stats").body;
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    for (reason, count) in ["nothing", "disk", "parts"].into_iter().zip(after) {
        let latency = &stats["command_latency"][reason];
        assert_eq!(latency["count"], count, "{stats:#}");
        assert_eq!(latency["p99"].is_null(), count == 0, "{stats:#}");
    }
}

#[test]
fn a_command_that_goes_through_all_keys_is_counted_apart() {
    let database = Database::start_with(&["--admin", "127.0.0.1:0"]);
    let mut client = Client::new(&database);
    client.say(&(0..5_000).map(|key| format!("SET {key} 1")).collect::<Vec<_>>());
    assert_eq!(settled(&database, client.sent), [5_000, 0, 0]);
    client.say(&["KEYS *".to_owned()]);
    assert_eq!(settled(&database, client.sent), [5_000, 0, 1]);
}

#[test]
fn a_write_that_is_acknowledged_once_it_is_on_disk_is_counted_then() {
    let database = Database::start_with(&["--sync", "always", "--admin", "127.0.0.1:0"]);
    let mut client = Client::new(&database);
    for key in 0..20 {
        client.say(&[format!("SET {key} 1"), format!("GET {key}")]);
    }
    let [nothing, ..] = settled(&database, client.sent);
    assert_eq!(nothing, 40);
}
