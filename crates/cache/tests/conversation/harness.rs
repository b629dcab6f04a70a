//! Runs conversations: scripts of the input of clients and origins, and of the expected output to
//! each.
//!
//! One step per line. A line that begins with a blank continues the line before; `#` begins a
//! comment.
//! A number after the step's name selects a connection; the default is the first.
//!
//! ```text
//! config population=on-write        configuration of the cache; before all other steps
//! client> GET a                     the client sends this
//! to-origin> GET a                  the next output to the origin is exactly this
//! origin> "1"                       the origin sends this
//! to-client> "1"                    the next output to the client is exactly this
//! waits                             the client waits for another client's fill
//! time +5s                          advances the clock
//! stats hits=1 why-not.command=2    all counters that changed since the last such line
//! proceeds                          output was written, so that more requests fit
//! breaks client                     the last input violates the protocol
//! origin-lost close | continue      the origin's connection breaks; the client is closed or kept
//! origin-unreachable                the origin refused the connection
//! origin-ended close | continue     the origin closes the connection
//! origin-connected                  another connection to the origin is established
//! gone                              the client disconnects; its origin connection remains
//! close                             the session is closed
//! ```
//!
//! The harness answers the cache's queries about a connection's rights, and each connection has
//! proven its rights before its first step, unless the script has `config checks=shown`.
//!
//! Unexpected output fails the test at the next step. Every conversation runs twice: with whole
//! messages, and byte by byte. At its end, after all connections are closed and every quarantine
//! has elapsed, storage must be idle.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cache::{
    Error, Session, Side,
    filter::Filter,
    lease::Ticket,
    session::{self, Afterlife, Loss},
    stats::{NotFilled, Stats, WhyNot},
    storage::{MemoryStorage, Storage},
};

mod script;
#[path = "../../../wire/tests/conversation/steps.rs"]
mod steps;

pub(crate) use script::Config;
use steps::steps;

/// The protocol-specific part of a script: converts text to bytes, and bytes to text.
pub(crate) trait Speech {
    type Filter: Filter;

    type Settings;

    /// Filter settings that all connections of a conversation share.
    fn settings(config: &Config) -> Self::Settings;
    fn open(settings: &Arc<Self::Settings>) -> (Self, Self::Filter)
    where
        Self: Sized;
    /// Returns the bytes that the client sends.
    fn client(&mut self, text: &str) -> Vec<u8>;
    /// Returns the bytes that the origin sends.
    fn origin(&mut self, text: &str) -> Vec<u8>;
    /// The bytes that `text` stands for on the way to the origin; `leaving` is the actual output.
    fn to_origin(&mut self, text: &str, leaving: &[u8]) -> Vec<u8>;
    /// The same on the way to the client.
    fn to_client(&mut self, text: &str, leaving: &[u8]) -> Vec<u8>;
    /// A request without side effects, which makes the cache query the connection's rights; and its
    /// reply.
    fn opening(&mut self) -> (Vec<u8>, Vec<u8>);
    /// If `leaving` begins with a query of the cache about the connection's rights: the length of
    /// the query, and the default reply.
    fn polite(&mut self, leaving: &[u8]) -> Option<(usize, Vec<u8>)>;
    /// The origin's connection is closed.
    fn origin_gone(&mut self) {}
    /// Printable form of `bytes`.
    fn show(bytes: &[u8]) -> String {
        bytes.escape_ascii().to_string()
    }
}

/// Runs every conversation of `folder`.
pub(crate) fn hold_all<S: Speech>(folder: &str) {
    let ways = [("in whole messages", usize::MAX), ("byte by byte", 1)];
    steps::hold_all(&format!("testdata/conversations/{folder}"), &ways, hold::<S>);
}

fn hold<S: Speech>(name: &str, text: &str, chunk_bytes: usize) {
    let steps = steps(text);
    let config = Config::of(&steps);
    let mut play = Play::<S> {
        storage: MemoryStorage::new(config.storage(), 1),
        connections: Connections {
            session: Arc::new(config.session()),
            settings: Arc::new(S::settings(&config)),
            open: BTreeMap::new(),
        },
        now: Duration::from_secs(1),
        counted: BTreeMap::new(),
        broken: None,
        chunk_bytes,
        polite: config.word("checks") != Some("shown"),
        place: String::new(),
    };
    for (line, step) in steps {
        play.place = format!("{name}:{line}: {step}");
        play.step(&step);
    }
    play.place = format!("{name}: at the end");
    play.end();
}

struct Play<S: Speech> {
    storage: MemoryStorage,
    connections: Connections<S>,
    now: Duration,
    counted: BTreeMap<String, u64>,
    broken: Option<Error>,
    chunk_bytes: usize,
    polite: bool,
    place: String,
}

/// The connections of a conversation, by their numbers.
struct Connections<S: Speech> {
    session: Arc<session::Config>,
    settings: Arc<S::Settings>,
    open: BTreeMap<u64, (S, Session<S::Filter>)>,
}

impl<S: Speech> Connections<S> {
    /// The connection of this number; opens it on first use.
    fn get(&mut self, number: u64) -> &mut (S, Session<S::Filter>) {
        self.open.entry(number).or_insert_with(|| {
            let (speech, filter) = S::open(&self.settings);
            (speech, Session::new(filter, Arc::clone(&self.session), Ticket(number)))
        })
    }
}

/// Steps that may use the output of the step before.
const GO_WITH_THE_STEP_BEFORE: [&str; 8] = [
    "to-origin",
    "to-client",
    "config",
    "stats",
    "foreseen",
    "waits",
    "breaks",
    "origin-connected",
];

impl<S: Speech> Play<S> {
    fn step(&mut self, step: &str) {
        let (head, text) =
            step.split_once('>').map_or((step, ""), |(head, text)| (head, text.trim()));
        let (verb, rest) = head.split_once(' ').unwrap_or((head, ""));
        let name = verb.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let number = verb[name.len()..].parse().unwrap_or(1);
        if !GO_WITH_THE_STEP_BEFORE.contains(&name) {
            self.nothing_else_left();
        }
        if name != "breaks" {
            assert_eq!(self.broken, None, "{}: the step before broke the protocol", self.place);
        }
        match name {
            "config" => {}
            "client" => self.says(number, Side::Client, text),
            "origin" => self.says(number, Side::Server, text),
            "to-origin" => self.leaves(number, Side::Server, text),
            "to-client" => self.leaves(number, Side::Client, text),
            "waits" => {
                let waits = self.connections.get(number).1.poll_timeout().is_some();
                assert!(waits, "{}: the session does not wait", self.place);
            }
            "time" => {
                let seconds = rest.trim_start_matches('+').trim_end_matches('s');
                self.pass(Duration::from_secs(seconds.parse().expect("time +5s")));
            }
            "stats" => self.stats(rest),
            "foreseen" => self.foreseen(rest),
            "proceeds" => self.proceeds(number),
            "breaks" => self.breaks(rest),
            "origin-lost" => self.loses_origin(number, Loss::Broken, rest),
            "origin-ended" => self.loses_origin(number, Loss::Ended, rest),
            "origin-unreachable" => self.misses_origin(number),
            "gone" => self.connections.get(number).1.client_gone(),
            "origin-connected" => {
                self.connections.get(number).1.origin_connected(self.now);
                self.hear(number, Side::Server, &[]);
                self.settle();
            }
            "close" => {
                let (_, mut session) = self.connections.open.remove(&number).expect("it is open");
                session.close(&mut self.storage, self.now);
                self.settle();
            }
            _ => panic!("{}: no such step", self.place),
        }
    }

    fn proceeds(&mut self, number: u64) {
        let (_, session) = self.connections.get(number);
        assert!(session.can_proceed(), "{}", self.place);
        self.broken = session.proceed(&mut self.storage, self.now).err();
        self.settle();
    }

    fn breaks(&mut self, expected: &str) {
        let side = match self.broken.take() {
            Some(Error::Client(_) | Error::Stream) => "client",
            Some(Error::Server(_) | Error::Withheld { .. }) => "origin",
            _ => "nothing",
        };
        assert_eq!(side, expected, "{}", self.place);
    }

    fn loses_origin(&mut self, number: u64, loss: Loss, expected: &str) {
        let (speech, session) = self.connections.get(number);
        let left = match session.origin_lost(loss, &mut self.storage, self.now) {
            Afterlife::Continue => "continue",
            Afterlife::Close => "close",
        };
        assert_eq!(left, expected, "{}", self.place);
        speech.origin_gone();
        self.settle();
    }

    fn misses_origin(&mut self, number: u64) {
        let (speech, session) = self.connections.get(number);
        let why = "the origin cannot be reached";
        let _ = session.origin_unreachable(why, &mut self.storage, self.now);
        speech.origin_gone();
        self.settle();
    }

    /// Lets a new connection prove its rights, without changing what `stats` reports.
    fn introduce(&mut self, number: u64) {
        if !self.polite || self.connections.open.contains_key(&number) {
            return;
        }
        let before = counters(self.storage.stats());
        let (speech, _) = self.connections.get(number);
        let (request, reply) = speech.opening();
        self.hear(number, Side::Client, &request);
        let (_, session) = self.connections.get(number);
        assert_eq!(session.output(Side::Server).bytes(), request);
        session.output(Side::Server).advance(request.len());
        self.hear(number, Side::Server, &reply);
        let (_, session) = self.connections.get(number);
        assert_eq!(session.output(Side::Client).bytes(), reply);
        session.output(Side::Client).advance(reply.len());
        for (name, count) in counters(self.storage.stats()) {
            let since = count - before[&name];
            *self.counted.entry(name).or_default() += since;
        }
    }

    fn hear(&mut self, number: u64, side: Side, bytes: &[u8]) {
        let (_, session) = self.connections.get(number);
        if let Err(error) = session.receive(side, bytes, &mut self.storage, self.now) {
            self.broken = Some(error);
            return;
        }
        if !self.polite {
            return;
        }
        let (speech, session) = self.connections.get(number);
        let output = session.output(Side::Server);
        if let Some((length, reply)) = speech.polite(output.bytes()) {
            output.advance(length);
            self.hear(number, Side::Server, &reply);
        }
    }

    fn says(&mut self, number: u64, side: Side, text: &str) {
        self.introduce(number);
        let (speech, _) = self.connections.get(number);
        let bytes = match side {
            Side::Client => speech.client(text),
            Side::Server => speech.origin(text),
        };
        for chunk in bytes.chunks(self.chunk_bytes) {
            self.hear(number, side, chunk);
            if self.broken.is_some() {
                break;
            }
        }
        self.settle();
    }

    /// Completes the sessions whose wait is over.
    fn settle(&mut self) {
        loop {
            let woken = std::mem::take(self.storage.woken());
            if woken.is_empty() {
                return;
            }
            for ticket in woken {
                if let Some((_, session)) = self.connections.open.get_mut(&ticket.0) {
                    session.complete(ticket, &mut self.storage, self.now).expect("well-formed");
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.storage.advance(self.now);
        for (_, session) in self.connections.open.values_mut() {
            session.handle_timeout(&mut self.storage, self.now).expect("well-formed");
        }
        self.settle();
    }

    fn leaves(&mut self, number: u64, side: Side, text: &str) {
        let place = self.place.clone();
        let (speech, session) = self.connections.get(number);
        let output = session.output(side);
        let leaving = output.bytes().to_vec();
        let expected = match side {
            Side::Client => speech.to_client(text, &leaving),
            Side::Server => speech.to_origin(text, &leaving),
        };
        let found = leaving.get(..expected.len().min(leaving.len())).unwrap_or_default();
        assert!(
            found == expected,
            "{place}\nexpected {}\n   found {}",
            S::show(&expected),
            S::show(&leaving)
        );
        output.advance(expected.len());
    }

    fn nothing_else_left(&mut self) {
        for (number, (_, session)) in &mut self.connections.open {
            for (side, to) in [(Side::Client, "client"), (Side::Server, "origin")] {
                let leaving = session.output(side).bytes();
                let place = &self.place;
                assert!(
                    leaving.is_empty(),
                    "before {place}\nunexpected bytes to {to} {number}: {}",
                    S::show(leaving)
                );
            }
        }
    }

    fn stats(&mut self, expected: &str) {
        let now = counters(self.storage.stats());
        let since = now.iter().map(|(name, count)| {
            (name.clone(), count - self.counted.get(name).copied().unwrap_or_default())
        });
        let since: BTreeMap<_, _> = since.filter(|(_, count)| *count > 0).collect();
        let expected = expected.split_whitespace().map(|word| {
            let (name, count) = word.split_once('=').expect("name=count");
            assert!(now.contains_key(name), "{}: no counter {name}", self.place);
            (name.to_owned(), count.parse().expect("a count"))
        });
        let expected: BTreeMap<String, u64> = expected.filter(|(_, count)| *count > 0).collect();
        assert_eq!(since, expected, "{}", self.place);
        self.counted = now;
    }

    /// Compares the reads of a command and a prefix, and those that caching would have answered.
    fn foreseen(&self, expected: &str) {
        let words: Vec<_> = expected.split_whitespace().collect();
        let [command, prefix, reads, hits] = words[..] else { panic!("{}", self.place) };
        let forecast = self.storage.observer().expect("observe=on").forecast(0);
        let prefix = prefix.trim_start_matches('-').as_bytes();
        let mut groups = forecast.groups.iter();
        let group = groups.find(|group| group.command == command && *group.prefix == *prefix);
        let found = group.map(|group| (group.reads.to_string(), group.hits.to_string()));
        assert_eq!(found, Some((reads.to_owned(), hits.to_owned())), "{}", self.place);
    }

    fn end(&mut self) {
        self.nothing_else_left();
        assert_eq!(self.broken, None, "{}", self.place);
        for (_, (_, mut session)) in std::mem::take(&mut self.connections.open) {
            session.close(&mut self.storage, self.now);
        }
        self.now += Duration::from_secs(3_600);
        self.storage.advance(self.now);
        assert!(self.storage.is_idle(), "{}: storage is not idle", self.place);
    }
}

fn counters(stats: &Stats) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut count = |name: &str, value| counters.insert(name.to_owned(), value);
    count("hits", stats.hits.value());
    count("coalesced", stats.coalesced.value());
    count("verified", stats.verified.value());
    count("differed", stats.differed.value());
    count("fills", stats.fills.value());
    count("writes-lost", stats.writes_lost.value());
    count("writes-refused", stats.writes_refused.value());
    count("refused-logins", stats.refused_logins.value());
    count("refused-frames", stats.refused_frames.value());
    for (name, counter) in ["key", "collection", "database", "everything"].iter().zip(&stats.writes)
    {
        count(&format!("writes.{name}"), counter.value());
    }
    for (reason, counter) in WhyNot::ALL.iter().zip(&stats.why_not) {
        count(&format!("why-not.{}", reason.name()), counter.value());
    }
    for (reason, counter) in NotFilled::ALL.iter().zip(&stats.not_filled) {
        count(&format!("not-filled.{}", reason.name()), counter.value());
    }
    counters
}
