//! The same commands, scripted and random, to redis-server and to `enroute db`: the replies are
//! identical byte for byte.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use crate::support::{database::Database, frames::Side, origins::Redis, seeds};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wire::resp::{Limits, frame};

/// Both servers, and the commands queued on them.
struct Both {
    ours: Side,
    theirs: Side,
    queued: Vec<String>,
    /// The longest interval between sending a command to one server and to the other.
    apart: Duration,
}

impl Both {
    fn connect(database: &Database, redis: &Redis) -> Self {
        let (ours, theirs) = (Side::connect(database.address()), Side::connect(redis.address()));
        Self { ours, theirs, queued: Vec::new(), apart: Duration::ZERO }
    }

    /// Returns the difference between the answers, if there is one.
    fn compare(&mut self, args: &[Vec<u8>]) -> Option<String> {
        let asked = Instant::now();
        let (a, b) = (self.ours.ask(args), self.theirs.ask(args));
        self.apart = self.apart.max(asked.elapsed());
        let name = String::from_utf8_lossy(&args[0]).to_lowercase();
        let alike = match name.as_str() {
            "exec" => self.same_all(&a, &b),
            name => same(name, &a, &b, self.apart),
        };
        match name.as_str() {
            _ if b == b"+QUEUED\r\n" => self.queued.push(name),
            "exec" | "discard" => self.queued.clear(),
            _ => {}
        }
        let show = |bytes: &[u8]| bytes[..bytes.len().min(400)].escape_ascii().to_string();
        let said: Vec<String> = args.iter().map(|word| show(word)).collect();
        (!alike).then(|| {
            format!(
                "{}\n  enroute db:   {}\n  redis-server: {}",
                said.join(" "),
                show(&a),
                show(&b)
            )
        })
    }

    /// Returns whether the answers to all queued commands are the same.
    fn same_all(&self, ours: &[u8], theirs: &[u8]) -> bool {
        if ours == theirs {
            return true;
        }
        let limits = Limits::default();
        let split = |reply: &[u8]| -> Option<Vec<Vec<u8>>> {
            let (reply, _) = frame::decode(reply, &limits).ok()??;
            Some(reply.elements().map(|element| element.bytes().to_vec()).collect())
        };
        let (Some(ours), Some(theirs)) = (split(ours), split(theirs)) else { return false };
        let counts = [ours.len(), theirs.len()] == [self.queued.len(); 2];
        let mut pairs = self.queued.iter().zip(ours.iter().zip(&theirs));
        counts
            && pairs.all(|(name, (a, b))| match name.as_str() {
                // Keys that expired within the transaction are counted: docs/protocols/db.md.
                "dbsize" => number(a).zip(number(b)).is_some_and(|(a, b)| a >= b),
                name => same(name, a, b, self.apart),
            })
    }
}

fn number(reply: &[u8]) -> Option<i64> {
    String::from_utf8_lossy(reply).trim_start_matches(':').trim_end().parse().ok()
}

/// Whether these replies to `name` agree, as far as is possible for commands that were sent this
/// far apart.
fn same(name: &str, ours: &[u8], theirs: &[u8], apart: Duration) -> bool {
    // Both the expiry and the query for it were sent this far apart.
    let apart_ms = 2_000 + 2 * apart.as_millis() as u64;
    let near = |unit_ms: u64| {
        let numbers = number(ours).zip(number(theirs));
        numbers.is_some_and(|(a, b)| {
            a > 0 && b > 0 && a.abs_diff(b).saturating_mul(unit_ms) <= apart_ms
        })
    };
    let limits = Limits::default();
    let elements = |reply: &[u8]| -> Option<BTreeSet<Vec<u8>>> {
        let (reply, _) = frame::decode(reply, &limits).ok()??;
        Some(reply.elements().map(|element| element.bytes().to_vec()).collect())
    };
    match name {
        _ if ours == theirs => true,
        // The clocks of two processes differ.
        "ttl" | "expiretime" => near(1_000),
        "pttl" | "pexpiretime" => near(1),
        // The reply contains the connection ID.
        "hello" => {
            let plain = |reply: &[u8]| {
                reply.iter().copied().filter(|byte| !byte.is_ascii_digit()).collect::<Vec<_>>()
            };
            ours[0] != b'-' && plain(ours) == plain(theirs)
        }
        // The order of keys is unspecified.
        "keys" => elements(ours).is_some() && elements(ours) == elements(theirs),
        _ => false,
    }
}

fn words(line: &str) -> Vec<Vec<u8>> {
    let unquote = |word: &str| match word {
        "''" => Vec::new(),
        word => word.replace("\\0", "\0").replace('_', " ").into_bytes(),
    };
    line.split(' ').filter(|word| !word.is_empty()).map(unquote).collect()
}

#[test]
fn scripted_commands_are_answered_alike() {
    let Some(redis) = Redis::start() else { return };
    let database = Database::start();
    let mut both = Both::connect(&database, &redis);
    let (mut lines, mut different) = (0, Vec::new());
    for line in include_str!("answers.txt").lines() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            different.extend(both.compare(&words(line)));
            lines += 1;
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(lines > 300, "only {lines} commands were compared");
}

/// Regression: a FLUSHDB emptied the other databases too.
const SEEDS: [u64; 2] = [7_485_438_146_717_413_873, 10_496_820_567_845_325_845];

#[test]
fn random_commands_are_answered_alike() {
    seeds::each(NAME, SEEDS, compare_random);
}

#[test]
#[ignore = "five minutes: make soak"]
fn many_random_commands_are_answered_alike() {
    let fresh = (0..60_u64).map(|run| RandomState::new().hash_one(run));
    seeds::each(NAME, fresh, compare_random);
}

/// Name under which failed seeds are stored.
const NAME: &str = "database_commands";

/// Random commands from `seed`, whose replies must be identical; `None` if a tool is not installed.
fn compare_random(seed: u64) -> Option<()> {
    let redis = Redis::start()?;
    let database = Database::start();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut both = Both::connect(&database, &redis);
    let all = "exists k0 k1 k2 k3 k4 k5";
    let last =
        ["discard", "select 1", all, "dbsize", "keys *", "select 0", all, "dbsize", "keys *"];
    let last = last.map(words);
    // Intended differences: docs/protocols/db.md. In `enroute db` a watched key that was absent,
    // created and removed again has not changed, so watched keys are created first; and the
    // smallest number saturates a bit field downwards.
    let least = i64::MIN.to_string().into_bytes();
    let mut conditions = 0;
    let mut present = |mut args: Vec<Vec<u8>>| match args[0].as_slice() {
        b"watch" => vec![vec![b"set".to_vec(), args[1].clone(), b"x".to_vec()], args],
        // Expired keys count until they are accessed.
        b"dbsize" => vec![words("exists k0 k1 k2 k3 k4 k5"), args],
        b"bitfield" if args.contains(&least) => Vec::new(),
        // The order of two times must not depend on the order in which commands arrive within a
        // millisecond.
        b"expire" | b"pexpire" if args.len() == 4 => {
            conditions += 1;
            let time = str::from_utf8(&args[2]).ok().and_then(|time| time.parse::<u64>().ok());
            if let Some(time) = time.filter(|&time| time > 0) {
                args[2] = (time + conditions * 7_001).to_string().into_bytes();
            }
            vec![args]
        }
        _ => vec![args],
    };
    let drawn: Vec<_> = (0..6_000).flat_map(|_| present(draw(&mut random))).collect();
    for (index, args) in drawn.iter().chain(&last).enumerate() {
        if let Some(different) = both.compare(args) {
            let before = drawn[index.saturating_sub(30)..index.min(drawn.len())].iter();
            let before: Vec<String> =
                before.map(|args| args.join(&b' ').escape_ascii().to_string()).collect();
            panic!("SEED={seed}, after\n{}\ncommand {index}: {different}", before.join("\n"));
        }
    }
    Some(())
}

/// Commands; upper-case words are placeholders for arguments, see [`fill`].
const TEMPLATES: &[&str] = &[
    "set K V",
    "set K V O",
    "set K V O O",
    "set K V O O O",
    "get K",
    "getdel K",
    "getset K V",
    "setnx K V",
    "setex K P V",
    "psetex K P V",
    "mset K V K V",
    "msetnx K V K V",
    "mget K K K",
    "append K V",
    "strlen K",
    "getrange K I I",
    "setrange K N V",
    "incr K",
    "decr K",
    "incrby K I",
    "decrby K I",
    "incrbyfloat K F",
    "getex K",
    "getex K O",
    "getex K O O",
    "lcs K K",
    "lcs K K len",
    "lcs K K idx",
    "lcs K K idx withmatchlen minmatchlen N",
    "setbit K N B",
    "getbit K N",
    "bitcount K",
    "bitcount K I I",
    "bitcount K I I U",
    "bitpos K B",
    "bitpos K B I",
    "bitpos K B I I",
    "bitpos K B I I U",
    "bitop and K K K",
    "bitop or K K K",
    "bitop xor K K",
    "bitop not K K",
    "bitfield K get T N set T N I",
    "bitfield K incrby T N I overflow W incrby T N I",
    "bitfield K overflow W set T #N I",
    "bitfield_ro K get T N",
    "del K",
    "del K K",
    "unlink K",
    "exists K K",
    "touch K K",
    "type K",
    "rename K K",
    "renamenx K K",
    "copy K K",
    "copy K K replace",
    "copy K K db D",
    "copy K K db D replace",
    "move K D",
    "expire K P",
    "expire K P C",
    "pexpire K 3000000 C",
    "expireat K 4000000000 C",
    "pexpireat K 4000000000123",
    "expire K -1",
    "ttl K",
    "pttl K",
    "expiretime K",
    "pexpiretime K",
    "persist K",
    "keys *",
    "keys k[1-3]",
    "dbsize",
    "select D",
    "multi",
    "exec",
    "discard",
    "watch K",
    "unwatch",
    "echo V",
    "ping V",
    "swapnothing K N",
    "get",
    "set K",
    "object foo K",
    "flushdb",
];

/// A random command whose arguments are mostly valid.
fn draw(random: &mut Pcg64Mcg) -> Vec<Vec<u8>> {
    let template = TEMPLATES[random.random_range(0..TEMPLATES.len())];
    template.split(' ').map(|word| fill(word, random)).collect()
}

fn fill(word: &str, random: &mut Pcg64Mcg) -> Vec<u8> {
    let one = |random: &mut Pcg64Mcg, choices: &[&str]| {
        choices[random.random_range(0..choices.len())].as_bytes().to_vec()
    };
    match word {
        "K" => format!("k{}", random.random_range(0..6)).into_bytes(),
        "V" => match random.random_range(0..8) {
            0 => Vec::new(),
            1 => random.random_range(-1_000..1_000_i64).to_string().into_bytes(),
            2 => one(random, &["3.5", "1e3", "nan", "inf", " 1", "9223372036854775807", "-0"]),
            3 => (0..random.random_range(0..40)).map(|_| random.random_range(0..=255)).collect(),
            _ => {
                (0..random.random_range(1..12)).map(|_| b"abc"[random.random_range(0..3)]).collect()
            }
        },
        "O" => one(
            random,
            &[
                "nx",
                "xx",
                "get",
                "keepttl",
                "ex",
                "px",
                "exat",
                "pxat",
                "persist",
                "3000000",
                "4000000000",
                "-5",
                "0",
            ],
        ),
        "N" => one(random, &["0", "1", "3", "7", "8", "9", "20", "100", "-1", "x"]),
        // Long enough that clock differences do not matter, in milliseconds too.
        "P" => one(random, &["3000000", "6000000", "-1", "0", "x"]),
        "I" => one(
            random,
            &[
                "0",
                "1",
                "-1",
                "2",
                "-3",
                "5",
                "100",
                "-100",
                "9223372036854775807",
                "-9223372036854775808",
                "x",
            ],
        ),
        "F" => one(random, &["1.5", "-0.1", "3", "1e5", "0.1", "x", "inf", "12345678.901"]),
        "B" => one(random, &["0", "1", "2"]),
        "U" => one(random, &["bit", "byte", "word"]),
        "T" => one(random, &["u8", "i8", "i5", "u63", "i64", "u1", "u64", "x8"]),
        "W" => one(random, &["wrap", "sat", "fail", "other"]),
        "D" => one(random, &["0", "1", "16"]),
        "C" => one(random, &["nx", "xx", "gt", "lt", "xy"]),
        "#N" => format!("#{}", random.random_range(0..5)).into_bytes(),
        word => word.as_bytes().to_vec(),
    }
}
