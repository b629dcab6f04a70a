//! The same requests are observed once, then cached with several sizes of storage: the forecast of
//! each size is within two points of its hit ratio.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
    time::Duration,
};

use cache::{
    Session, Side,
    filter::resp::{Resp, Settings},
    lease::Ticket,
    rules::{LiveRules, Rules},
    session,
    stats::{NotFilled, WhyNot},
    storage::{
        self, MemoryStorage, Storage,
        observe::{Forecast, Group},
    },
};
use wire::resp::{Limits, request};

#[path = "simulation/random.rs"]
mod random;

use random::Random;

const KEYS: usize = 20_000;
const REQUESTS: usize = 150_000;
const CLIENTS: usize = 8;
const MIB: usize = 1 << 20;
const CONFIGURED: usize = 2 * MIB;
/// Largest difference between the forecast and the hit ratio.
const POINTS: f64 = 0.02;

/// One request of the recorded traffic.
struct Asked {
    client: usize,
    at: Duration,
    command: &'static str,
    key: usize,
}

/// Reads of keys by Zipf's law, one write in twenty.
fn traffic(seed: u64) -> Vec<Asked> {
    let mut random = Random::new(seed);
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        })
        .collect();
    (0..REQUESTS)
        .map(|number| {
            let drawn = random.below(1 << 30) as f64 / f64::from(1 << 30) * sum;
            let key = shares.partition_point(|upto| *upto < drawn);
            let command = match (random.one_in(20), random.below(6)) {
                (true, 0..3) => "DEL",
                (true, _) => "SET",
                (false, 0) => "STRLEN",
                (false, _) => "GET",
            };
            let client = random.below(CLIENTS);
            Asked { client, at: Duration::from_millis(number as u64), command, key }
        })
        .collect()
}

/// Keys of two kinds, spread over the ranks.
fn name(key: usize) -> String {
    if key.is_multiple_of(3) { format!("item.{key}") } else { format!("user:{key}") }
}

/// A Redis server; each key has a value at first, whose length depends on the key. One key in ten
/// expires ten seconds after it was written.
#[derive(Default)]
struct Origin {
    absent: HashMap<String, bool>,
    expires_at: HashMap<String, Duration>,
    reads: usize,
    probes: usize,
}

impl Origin {
    fn answer(&mut self, requests: &[u8], now: Duration) -> Vec<u8> {
        let (mut out, mut rest) = (Vec::new(), requests);
        while let Some((message, length)) = request::decode(rest, &Limits::default()).unwrap() {
            let words: Vec<String> =
                message.arguments().map(|word| String::from_utf8_lossy(word).into()).collect();
            rest = &rest[length..];
            let key = words.get(1).cloned().unwrap_or_default();
            let number = key.get(5..).and_then(|number| number.parse().ok()).unwrap_or(0);
            let left = self.expires_at.get(&key).map(|at| at.saturating_sub(now).as_millis());
            let is_absent = self.absent.get(&key).copied().unwrap_or(false) || left == Some(0);
            self.reads += usize::from(["GET", "STRLEN"].contains(&words[0].as_str()));
            let value = "x".repeat(40 + 7_919 * number % 400);
            match (words[0].as_str(), is_absent) {
                ("ACL", _) => out.extend_from_slice(
                    b"*6\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$8\r\ncommands\r\n$5\r\n+@all\r\n\
                      $4\r\nkeys\r\n$2\r\n~*\r\n",
                ),
                ("GET", true) => out.extend_from_slice(b"$-1\r\n"),
                ("STRLEN", true) => out.extend_from_slice(b":0\r\n"),
                ("GET", false) => out.extend(format!("${}\r\n{value}\r\n", value.len()).bytes()),
                ("STRLEN", false) => out.extend(format!(":{}\r\n", value.len()).bytes()),
                ("PTTL", _) => {
                    self.probes += 1;
                    let left = left.map_or(-1, |left| left as i64);
                    out.extend(format!(":{}\r\n", if is_absent { -2 } else { left }).bytes());
                }
                ("SET", _) => {
                    self.absent.remove(&key);
                    if number.is_multiple_of(10) {
                        self.expires_at.insert(key, now + Duration::from_secs(10));
                    }
                    out.extend_from_slice(b"+OK\r\n");
                }
                ("DEL", _) => {
                    self.absent.insert(key.clone(), true);
                    self.expires_at.remove(&key);
                    out.extend_from_slice(b":1\r\n");
                }
                (other, _) => panic!("no such command: {other}"),
            }
        }
        assert!(rest.is_empty(), "only whole requests leave");
        out
    }
}

/// What became of the traffic.
struct Played {
    origin: Origin,
    storage: MemoryStorage,
    /// Reads and hits by command and kind of key.
    groups: BTreeMap<(String, &'static str), [f64; 2]>,
}

impl Played {
    fn reads(&self) -> u64 {
        self.storage.stats().hits.value() + self.storage.stats().misses()
    }

    fn hit_ratio(&self) -> f64 {
        self.storage.stats().hits.value() as f64 / self.reads() as f64
    }

    fn forecast(&self) -> Forecast {
        self.storage.observer().expect("it observes").forecast(self.reads())
    }
}

/// Sends the traffic through sessions. A client's request is answered by the origin when the client
/// sends its next one, so that requests of several clients overlap.
fn play(traffic: &[Asked], config: storage::Config, ttl: Duration) -> Played {
    let rules = Rules { ttl, ..Rules::default() };
    let settings = Settings { keys: Arc::new(LiveRules::from(rules)), ..Settings::default() };
    let (settings, limits) = (Arc::new(settings), Arc::new(session::Config::default()));
    let session = |client: u64| {
        Session::new(Resp::new(Arc::clone(&settings)), Arc::clone(&limits), Ticket(client))
    };
    let mut sessions: Vec<_> = (0..CLIENTS as u64).map(session).collect();
    let storage = MemoryStorage::new(config, 1);
    let mut played = Played { origin: Origin::default(), storage, groups: BTreeMap::new() };
    for Asked { client, at, command, key } in traffic {
        let now = Duration::from_secs(1) + *at;
        if at.as_millis().is_multiple_of(50) {
            played.storage.advance(now);
        }
        serve(&mut sessions, *client, &mut played, now);
        // It waits for the fill of another client.
        for other in 0..CLIENTS {
            if sessions[*client].poll_timeout().is_some() {
                serve(&mut sessions, other, &mut played, now);
            }
        }
        let mut bytes = Vec::new();
        match *command {
            "SET" => request::write_command(&mut bytes, &["SET", &name(*key), "x"]),
            _ => request::write_command(&mut bytes, &[command, name(*key).as_str()]),
        }
        let hits = played.storage.stats().hits.value();
        sessions[*client].receive(Side::Client, &bytes, &mut played.storage, now).unwrap();
        let hit = played.storage.stats().hits.value() - hits;
        let kind = if name(*key).starts_with("item") { "item." } else { "user:" };
        let group = played.groups.entry((command.to_lowercase(), kind)).or_default();
        (group[0], group[1]) = (group[0] + 1.0, group[1] + hit as f64);
    }
    played
}

/// Lets the origin answer what a client has asked, and wakes the clients that waited for it.
fn serve(sessions: &mut [Session<Resp>], client: usize, played: &mut Played, now: Duration) {
    let session = &mut sessions[client];
    // The check of the rights, then what waited for it.
    loop {
        let output = session.output(Side::Server);
        let asked = output.bytes().to_vec();
        output.advance(asked.len());
        if asked.is_empty() {
            break;
        }
        let replies = played.origin.answer(&asked, now);
        session.receive(Side::Server, &replies, &mut played.storage, now).unwrap();
    }
    let output = session.output(Side::Client);
    let length = output.len();
    output.advance(length);
    for ticket in mem::take(played.storage.woken()) {
        sessions[ticket.0 as usize].complete(ticket, &mut played.storage, now).unwrap();
    }
}

fn config(bytes_max: usize, observe: bool) -> storage::Config {
    let mut config = storage::Config { observe, ..storage::Config::default() };
    config.memory.bytes_max = bytes_max;
    config
}

#[test]
fn the_forecast_of_each_size_is_within_two_points_of_caching() {
    let traffic = traffic(1);
    // Most entries leave to make room, or by their age.
    for ttl in [Duration::from_secs(600), Duration::from_secs(20)] {
        let observed = play(&traffic, config(CONFIGURED, true), ttl);
        let stats = observed.storage.stats();
        assert_eq!((stats.hits.value(), stats.fills.value()), (0, 0));
        assert_eq!(observed.storage.memory().items, 0);
        let is_read = |asked: &&Asked| ["GET", "STRLEN"].contains(&asked.command);
        // The last request of each client is not answered.
        let reads = traffic.iter().filter(is_read).count();
        assert!(observed.origin.reads + CLIENTS >= reads, "every read goes to the origin");
        let forecast = observed.forecast();
        eprintln!("ttl {ttl:?}\n{forecast}");
        assert!(forecast.keys_sampled < 16_400, "{}", forecast.keys_sampled);
        for bytes_max in [CONFIGURED / 4, CONFIGURED, 4 * CONFIGURED] {
            let cached = play(&traffic, config(bytes_max, false), ttl);
            let (foreseen, ratio) = (forecast.hit_ratio(bytes_max), cached.hit_ratio());
            eprintln!("{bytes_max}: {foreseen:.4}, cached {ratio:.4}");
            assert!((foreseen - ratio).abs() < POINTS, "{bytes_max}: {foreseen} {ratio}");
            assert!(observed.origin.probes <= cached.origin.probes, "no more than caching asks");
            if bytes_max == CONFIGURED {
                compare_groups(&forecast, &cached);
            }
        }
    }
}

/// Compares the forecast of each command and prefix.
fn compare_groups(forecast: &Forecast, cached: &Played) {
    let reads =
        cached.groups.iter().filter(|((command, _), _)| command != "set" && command != "del");
    for ((command, prefix), [reads, hits]) in reads {
        let is_it =
            |group: &&Group| group.command == command && group.prefix[..] == *prefix.as_bytes();
        let group = forecast.groups.iter().find(is_it).expect("a group for each");
        let (foreseen, ratio) = (group.hits / group.reads, hits / reads);
        eprintln!("{command} {prefix}: {foreseen:.4}, cached {ratio:.4}");
        assert!((foreseen - ratio).abs() < 2.0 * POINTS, "{command} {prefix}: {foreseen} {ratio}");
        assert!(
            (group.reads / reads - 1.0).abs() < 0.05,
            "{command} {prefix}: {} {reads}",
            group.reads
        );
    }
}

#[test]
fn a_few_keys_are_foreseen_exactly() {
    let traffic: Vec<Asked> = traffic(2).into_iter().take(40_000).collect();
    let ttl = Duration::from_secs(600);
    let observed = play(&traffic, config(64 * MIB, true), ttl);
    let cached = play(&traffic, config(64 * MIB, false), ttl);
    let (foreseen, ratio) = (observed.forecast().hit_ratio(64 * MIB), cached.hit_ratio());
    assert!((foreseen - ratio).abs() < 0.005, "{foreseen} {ratio}");
    let stats = observed.storage.stats();
    let observed_fills = stats.not_filled[NotFilled::Observed as usize].value();
    assert!(observed_fills > 0 && stats.why_not[WhyNot::Observed as usize].value() > 30_000);
}
