//! Random conversations of two clients that log in and out while users gain and lose rights: the
//! cache gives the replies of a redis-server that receives the same commands. There is one
//! exception: within the authorization lease after a change that bypasses the cache, a read may
//! still be served that the server already refuses.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;

const LEASE: Duration = Duration::from_millis(60);
const STEPS: usize = 3_000;

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("something listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option of TCP");
        Self(BufReader::new(stream))
    }

    /// The replies to all of `commands`, which are pipelined; fewer if the server closes the
    /// connection.
    fn ask(&mut self, commands: &[String]) -> Vec<Vec<u8>> {
        let mut bytes = String::new();
        for command in commands {
            let words: Vec<_> = command.split(' ').collect();
            bytes.push_str(&format!("*{}\r\n", words.len()));
            words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        }
        let _ = self.0.get_mut().write_all(bytes.as_bytes());
        commands.iter().map_while(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Option<Vec<u8>> {
        let mut reply = Vec::new();
        self.0.read_until(b'\n', &mut reply).ok().filter(|count| *count > 0)?;
        let count: i64 = String::from_utf8_lossy(&reply[1..]).trim().parse().unwrap_or(0);
        let elements = match reply[0] {
            b'$' | b'=' if count >= 0 => {
                let mut payload = vec![0; count as usize + 2];
                self.0.read_exact(&mut payload).ok()?;
                reply.extend(payload);
                0
            }
            b'*' | b'~' | b'>' => count,
            b'%' => 2 * count,
            _ => 0,
        };
        for _ in 0..elements {
            reply.extend(self.reply()?);
        }
        Some(reply)
    }
}

fn command(random: &mut Random) -> String {
    let key = random.of(&["a1", "a2", "b1"]);
    let other = random.of(&["a1", "a2", "b1"]);
    match random.below(100) {
        0..40 => format!("GET {key}"),
        40..54 => format!("MGET {key} {other}"),
        54..62 => format!("STRLEN {key}"),
        62..64 => format!("GETRANGE {key} 0 1"),
        64..72 => format!("SET {key} {}", random.below(100)),
        72 => format!("DEL {key}"),
        73 | 74 => format!("MSET {key} {} {other} x", random.below(100)),
        75..80 => {
            let user = random.of(&["alice", "bob", "carol", "dave", "default"]);
            format!("AUTH {user} {}", random.of(&["pw", "pw", "pw", "wrong"]))
        }
        80..82 => {
            let password = random.of(&["pw", "wrong"]);
            format!("HELLO {} AUTH bob {password}", random.of(&["2", "3"]))
        }
        82 => "RESET".to_owned(),
        83..85 => format!("SELECT {}", random.below(2)),
        85 => "MULTI".to_owned(),
        86..90 => random.of(&["EXEC", "DISCARD"]).to_owned(),
        90 => random.of(&["FOO", "FLUSHALL", "FLUSHDB"]).to_owned(),
        91 => format!("EVAL return{{}} 0 {key}"),
        _ => random.of(&["PING", "ACL WHOAMI", "HELLO 3", "HELLO 2"]).to_owned(),
    }
}

const USERS: [&str; 5] = [
    "ACL SETUSER alice reset on >pw ~* +@all",
    "ACL SETUSER bob reset on >pw ~a* +@read +select +multi +exec",
    "ACL SETUSER carol reset on >pw ~* +get +strlen +set +pttl",
    "ACL SETUSER dave reset on >pw ~* +mget +pttl +acl|getuser",
    "ACL SETUSER default reset on nopass ~* &* +@all",
];

const CHANGES: [&str; 14] = [
    "ACL SETUSER alice -get",
    "ACL SETUSER alice resetkeys ~b*",
    "ACL SETUSER alice off",
    "ACL SETUSER bob -@read +mget",
    "ACL SETUSER bob resetkeys ~b* (+get ~a1)",
    "ACL SETUSER bob off",
    "ACL SETUSER carol -get",
    "ACL SETUSER carol resetkeys ~a*",
    "ACL SETUSER dave +get",
    "ACL SETUSER dave -mget",
    "ACL SETUSER default resetpass >pw",
    "ACL SETUSER default off",
    "ACL SETUSER default -@all +ping",
    "ACL DELUSER bob",
];

/// Removes the connection IDs in replies to HELLO, which differ between servers.
fn without_numbers(reply: &[u8]) -> Vec<u8> {
    const BEFORE: &[u8] = b"$2\r\nid\r\n:";
    let mut kept: Vec<u8> = Vec::new();
    for byte in reply {
        if !(byte.is_ascii_digit() && kept.ends_with(BEFORE)) {
            kept.push(*byte);
        }
    }
    kept
}

/// Whether the cache may still answer what the server refuses: a read by a client that had the
/// right before the last change. A client that has connected since is never served.
fn may_lag(command: &str, refused: &[u8], was_there: bool) -> bool {
    let reads = ["GET ", "MGET ", "STRLEN ", "GETRANGE "];
    let revoked = refused.starts_with(b"-NOPERM") || was_there && refused.starts_with(b"-NOAUTH");
    revoked && reads.iter().any(|read| command.starts_with(read))
}

fn converse(seed: u64) -> Option<f64> {
    eprintln!("SEED={seed}");
    let (alone, behind) = (Redis::start()?, Redis::start()?);
    let toml = format!("[storage]\nauthorization_lease = \"{}ms\"\n", LEASE.as_millis());
    let cache = Cache::start("redis", behind.address(), &toml);
    let mut admins = [Client::connect(alone.address()), Client::connect(behind.address())];
    let connect = || [Client::connect(alone.address()), Client::connect(cache.address())];
    let mut clients = [connect(), connect()];
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ seed << 7 | 1);
    let change = |admins: &mut [Client; 2], change: &str| {
        admins.iter_mut().for_each(|admin| drop(admin.ask(&[change.to_owned()])));
    };
    USERS.iter().for_each(|user| change(&mut admins, user));
    let mut changed_at = Instant::now();
    // When each client connected.
    let mut since = [changed_at; 2];
    let mut before = Vec::new();
    for step in 0..STEPS {
        if random.below(60) == 0 {
            let words = match random.below(2) {
                0 => USERS[random.below(USERS.len())],
                _ => CHANGES[random.below(CHANGES.len())],
            };
            change(&mut admins, words);
            changed_at = Instant::now();
            before.push(words.to_owned());
            if random.below(2) == 0 {
                thread::sleep(LEASE);
            }
        }
        let which = random.below(2);
        if random.below(120) == 0 {
            (clients[which], since[which]) = (connect(), Instant::now());
        }
        let mut commands: Vec<_> = (0..1 + random.below(3)).map(|_| command(&mut random)).collect();
        // redis-server 7.0.15 closes a connection that RESET logs out while the reply to a script
        // before it is unsent. The cache does not send both at once.
        if commands.iter().any(|command| command == "RESET") {
            commands = vec!["RESET".to_owned()];
        }
        let [direct, through] = &mut clients[which];
        let sent_at = Instant::now();
        let lags = sent_at < changed_at + LEASE;
        let was_there = since[which] < changed_at;
        let (said, heard) = (direct.ask(&commands), through.ask(&commands));
        let as_said = |at: usize| {
            let (command, said, heard) = (&commands[at], &said[at], &heard[at]);
            said == heard
                || without_numbers(said) == without_numbers(heard)
                || (lags && may_lag(command, said, was_there))
        };
        let right = said.len() == heard.len() && (0..said.len()).all(as_said);
        assert!(
            right,
            "seed {seed}, step {step}, after\n{}\nclient {which}, {:?} after a change: to \
             {commands:?}\n the server says {:?}\n the cache says  {:?}",
            before[before.len().saturating_sub(40)..].join("\n"),
            sent_at - changed_at,
            shown(&said),
            shown(&heard)
        );
        before.push(format!("client {which}: {commands:?} -> {:?}", shown(&said)));
        if said.len() < commands.len() {
            (clients[which], since[which]) = (connect(), Instant::now());
        }
    }
    Some(cache.hits())
}

fn shown(replies: &[Vec<u8>]) -> Vec<String> {
    replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect()
}

#[test]
fn redis_two_clients_are_answered_as_by_the_server() {
    let mut hits = 0.0;
    for seed in 1..=4 {
        let Some(more) = converse(seed) else { return };
        hits += more;
    }
    assert!(hits > 100.0, "only {hits} hits");
}

#[test]
#[ignore = "minutes: make soak"]
fn redis_two_clients_are_answered_as_by_the_server_whatever_the_seed() {
    let seeds = match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..40_u64).map(|run| RandomState::new().hash_one(run)).collect(),
    };
    let mut hits = 0.0;
    for seed in seeds {
        let Some(more) = converse(seed) else { return };
        hits += more;
    }
    assert!(hits > 25.0, "only {hits} hits");
}
