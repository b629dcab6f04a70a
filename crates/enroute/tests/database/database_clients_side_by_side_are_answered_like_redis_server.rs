//! Several connections to redis-server and to `enroute db`: they authenticate, change each other's
//! rights, delete each other's users, queue transactions and reset, one command at a time in turns.
//! Every reply, and every closed connection, is the same on both.

use std::{
    hash::{BuildHasher, RandomState},
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::support::{database::Database, origins::Redis, process::PATIENCE, seeds};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wire::resp::{Limits, frame, request};

/// Represents a closed connection.
const CLOSED: &[u8] = b"(closed)";

/// One connection to one server.
struct Peer {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Peer {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut peer = Self { stream, heard: Vec::new() };
        // A connection gets its user when it is accepted, which has certainly happened after a
        // reply.
        peer.ask(&["PING"]);
        peer
    }

    fn ask(&mut self, words: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        request::write_command(&mut bytes, words);
        if self.stream.write_all(&bytes).is_err() { CLOSED.to_vec() } else { self.hear() }
    }

    fn hear(&mut self) -> Vec<u8> {
        loop {
            let limits = Limits::default();
            if let Some((reply, taken)) = frame::decode(&self.heard, &limits).expect("a reply") {
                let reply = reply.bytes().to_vec();
                self.heard.drain(..taken);
                return reply;
            }
            let mut buffer = [0; 4_096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return CLOSED.to_vec(),
                Ok(count) => self.heard.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return CLOSED.to_vec(),
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }
}

/// Connections to both servers.
struct Sides {
    addresses: [SocketAddr; 2],
    peers: Vec<[Peer; 2]>,
    said: Vec<String>,
}

impl Sides {
    fn connect(database: &Database, redis: &Redis, count: usize) -> Self {
        let addresses = [database.address(), redis.address()];
        let peers = (0..count).map(|_| addresses.map(Peer::connect)).collect();
        Self { addresses, peers, said: Vec::new() }
    }

    /// Sends a line on connection `number` of both servers; returns the difference of the replies,
    /// if any.
    fn say(&mut self, number: usize, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let [ours, theirs] = &mut self.peers[number];
        let (mut a, b) = (ours.ask(&words), theirs.ask(&words));
        if b == CLOSED && (a.starts_with(b"-NOAUTH") || line == "exec") {
            // Another connection deleted its user. Another thread closes the connection, so a
            // command that arrives before that is refused first. Or the transaction deleted its own
            // user: redis-server then stops in the middle of the reply, `enroute db` after it.
            a = ours.hear();
        }
        let shown = |bytes: &[u8]| bytes[..bytes.len().min(600)].escape_ascii().to_string();
        self.said.push(format!("{number}: {line}   -> {}", shown(&b)));
        if b == CLOSED {
            self.peers[number] = self.addresses.map(Peer::connect);
        }
        let is_about_users = line.to_ascii_lowercase().starts_with("acl getuser")
            || line.eq_ignore_ascii_case("acl list");
        let same = if is_about_users {
            a[0] == b[0] && without_command_rules(&a) == without_command_rules(&b)
        } else {
            without_id(&a) == without_id(&b)
        };
        (!same).then(|| {
            format!(
                "{number}: {line}\n  enroute db:   {}\n  redis-server: {}",
                shown(&a),
                shown(&b)
            )
        })
    }
}

/// The parts of a reply to ACL GETUSER and ACL LIST without the rules about commands: redis-server
/// 7.0 replaces them by equivalent ones, `enroute db` keeps the original ones, as Redis does since
/// 7.2.
fn without_command_rules(answer: &[u8]) -> Option<Vec<Vec<u8>>> {
    let limits = Limits::default();
    let (reply, _) = frame::decode(answer, &limits).ok()??;
    let mut parts: Vec<Vec<u8>> = reply
        .elements()
        .map(|part| part.payload().map_or_else(|| part.bytes().to_vec(), <[u8]>::to_vec))
        .collect();
    if let Some(at) = parts.iter().position(|part| part == b"commands") {
        parts.remove(at + 1);
    }
    for part in &mut parts {
        let text = String::from_utf8_lossy(part).into_owned();
        let end = [" +@all", " -@all"].iter().filter_map(|rule| text.find(rule)).min();
        part.truncate(end.filter(|_| text.starts_with("user ")).unwrap_or(part.len()));
    }
    Some(parts)
}

/// A reply without the connection ID, which HELLO contains: each server counts its own connections.
fn without_id(answer: &[u8]) -> Vec<u8> {
    let text = answer.escape_ascii().to_string();
    let mut parts = text.split(r"$2\r\nid\r\n:");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.trim_start_matches(|each: char| each.is_ascii_digit()));
    (first + &rest.collect::<String>()).into_bytes()
}

/// Connection number and command per line. The first connection is `root`, whose rights never
/// change.
const SCRIPT: &str = include_str!("conversations.txt");

#[test]
fn scripted_conversations_are_answered_alike() {
    let Some(redis) = Redis::start() else { return };
    let database = Database::start();
    let mut sides = Sides::connect(&database, &redis, 4);
    let (mut different, mut compared) = (Vec::new(), 0);
    for line in SCRIPT.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        let (number, line) = line.split_once(' ').expect("a number and words");
        different.extend(sides.say(number.parse().expect("a number"), line));
        compared += 1;
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 150, "only {compared} commands were compared");
}

#[test]
fn random_conversations_are_answered_alike() {
    let fresh = RandomState::new().hash_one(0_u8);
    seeds::each(NAME, [1, 2, 3, fresh], |seed| converse(seed, 2_500));
}

#[test]
#[ignore = "minutes: make soak"]
fn many_random_conversations_are_answered_alike() {
    let fresh = (0..100_u64).map(|run| RandomState::new().hash_one(run));
    seeds::each(NAME, fresh, |seed| converse(seed, 2_500));
}

/// Name under which failed seeds are stored.
const NAME: &str = "database_conversations";

/// A random conversation from `seed`; `None` if a tool is not installed.
fn converse(seed: u64, steps: usize) -> Option<()> {
    let redis = Redis::start()?;
    let database = Database::start();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut sides = Sides::connect(&database, &redis, 3);
    for line in ["ACL SETUSER root on >root ~* &* +@all", "AUTH root root"] {
        assert_eq!(sides.say(0, line), None, "SEED={seed}");
    }
    for step in 0..steps {
        let number = random.random_range(0..3);
        let templates = if number == 0 { ROOT } else { CLIENTS };
        let template = templates[random.random_range(0..templates.len())];
        let words: Vec<String> = template.split(' ').map(|word| fill(word, &mut random)).collect();
        let mut lines = vec![(number, words.join(" "))];
        if words[0] == "watch" {
            // In `enroute db` a watched key that was absent, created and removed again has not
            // changed: docs/protocols/db.md.
            lines.insert(0, (0, format!("set {} there", words[1])));
        }
        for (number, line) in lines {
            if let Some(different) = sides.say(number, &line) {
                let before = sides.said.len().saturating_sub(40);
                panic!(
                    "SEED={seed}, step {step}, after\n{}\n{different}",
                    sides.said[before..].join("\n")
                );
            }
        }
    }
    Some(())
}

/// Commands of `root`; upper-case words are placeholders, see [`fill`].
const ROOT: &[&str] = &[
    "acl setuser USER RULE",
    "acl setuser USER RULE RULE",
    "acl setuser USER RULE RULE RULE RULE",
    "acl setuser default RULE",
    "acl setuser default on nopass ~* &* +@all",
    "acl setuser default on resetpass >PASS ~* +@all",
    "acl setuser default off",
    "acl setuser default resetpass",
    "acl setuser USER on >PASS ~* &* +@all",
    "acl setuser USER on nopass ~a* +@all -@dangerous",
    "acl deluser USER",
    "acl deluser default",
    "acl getuser USER",
    "acl users",
    "client kill user USER",
    "set KEY VALUE",
    "del KEY",
    "get KEY",
    "acl dryrun USER get KEY",
    "acl dryrun USER set KEY VALUE get",
];

/// Without ACL DELUSER: in a transaction of the deleted user the servers differ on purpose, see
/// docs/protocols/db.md.
const CLIENTS: &[&str] = &[
    "auth USER PASS",
    "auth USER PASS",
    "auth default PASS",
    "auth PASS",
    "auth",
    "hello",
    "hello 2",
    "hello 3 auth USER PASS",
    "hello 2 auth default PASS",
    "hello 3 auth USER PASS setname n",
    "reset",
    "acl whoami",
    "acl whoami",
    "acl setuser USER RULE",
    "acl users",
    "multi",
    "multi",
    "exec",
    "exec",
    "exec",
    "exec more",
    "discard",
    "watch KEY",
    "unwatch",
    "get KEY",
    "get KEY",
    "set KEY VALUE",
    "set KEY VALUE get",
    "append KEY VALUE",
    "getset KEY VALUE",
    "getdel KEY",
    "getex KEY",
    "incr KEY",
    "mget KEY KEY",
    "mset KEY VALUE KEY VALUE",
    "copy KEY KEY",
    "rename KEY KEY",
    "del KEY KEY",
    "exists KEY",
    "strlen KEY",
    "ttl KEY",
    "persist KEY",
    "bitop or KEY KEY KEY",
    "select DB",
    "ping",
    "ping VALUE",
    "echo VALUE",
    "client setname n",
    "client getname",
    "nonsense KEY",
    "get",
    "shutdown nosense",
    "quit",
];

fn fill(word: &str, random: &mut Pcg64Mcg) -> String {
    const RULES: &[&str] = &[
        "on",
        "off",
        "nopass",
        "resetpass",
        ">p1",
        ">p2",
        "<p1",
        "~a*",
        "~b?",
        "%R~*",
        "%W~*",
        "%R~a*",
        "%W~b*",
        "%RW~a1",
        "~*",
        "allkeys",
        "resetkeys",
        "+@all",
        "-@all",
        "+get",
        "-get",
        "+set",
        "-set",
        "-@write",
        "+@write",
        "+@read",
        "+@connection",
        "-@connection",
        "-@dangerous",
        "+acl|whoami",
        "-acl|whoami",
        "+@transaction",
        "-@transaction",
        "nocommands",
        "allcommands",
        "reset",
        "&*",
        "resetchannels",
        "+bogus",
        "-@bogus",
        "%X~a",
        "+acl",
        "-exec",
    ];
    let one = |random: &mut Pcg64Mcg, choices: &[&str]| {
        choices[random.random_range(0..choices.len())].to_owned()
    };
    match word {
        "USER" => one(random, &["u1", "u2"]),
        "PASS" => one(random, &["p1", "p2"]),
        "KEY" => one(random, &["a1", "a2", "b1", "b2"]),
        "VALUE" => one(random, &["x", "1", "22"]),
        "DB" => one(random, &["0", "0", "1", "99"]),
        "RULE" => one(random, RULES),
        word => word.to_owned(),
    }
}
