//! Runs conversations: scripts of the input of clients, and of the expected output to each.
//!
//! One step per line. A line that begins with a blank continues the line before; `#` begins a
//! comment. A number after the step's name selects a client; the default is the first.
//! `notation.rs` of `wire` defines the notation of requests and replies.
//!
//! ```text
//! config disk=shown sync=always     first line: settings of the database
//! client> GET a                     the client sends this
//! to-client> "1"                    the client must now receive exactly this, in order
//! heard-later 2s                    the reply must be sent after this time
//! waits                             the client waits for the disk, or for another command
//! disk                              pending disk operations complete, and waiting clients continue
//! fill 500 4000                     another client sets 500 keys `fill:N` to values of 4,000 bytes
//! time +500ms                       time passes, and upkeep runs
//! closes                            the database must close the connection
//! gone                              the client disconnects
//! restart | crash                   the process restarts, after a clean stop or a power failure
//! ```
//!
//! The disk executes its operations at once, unless the conversation has `config disk=shown`.
//!
//! Unexpected output fails the test at the next step. Every conversation runs with one shard and
//! with three, with each command alone and with all of the client's input at once. At its end no
//! client may wait.

#[path = "../../../wire/tests/conversation/steps.rs"]
mod steps;

use std::{collections::BTreeMap, time::Duration};

use store::elastic::Sync;

use crate::{
    machine::{Client, Machine, Setup, Turn},
    notation::{replies, requests},
};
use steps::steps;

/// Number of turns within which a command must be answered.
const TURNS_MAX: usize = 10_000;

/// Runs every conversation.
pub(crate) fn hold_all() {
    let ways = [
        ("on one shard", (1, false)),
        ("on one shard, in batches", (1, true)),
        ("on three shards", (3, false)),
        ("on three shards, in batches", (3, true)),
    ];
    steps::hold_all("testdata/conversations", &ways, |name, text, (shards, ahead)| {
        hold(name, text, shards, ahead);
    });
}

fn hold(name: &str, text: &str, shards: usize, ahead: bool) {
    let steps = steps(text);
    let words = steps.iter().filter_map(|(_, step)| step.strip_prefix("config "));
    let config: BTreeMap<&str, &str> =
        words.flat_map(str::split_whitespace).filter_map(|word| word.split_once('=')).collect();
    let sync = match config.get("sync") {
        None | Some(&"everysec") => Sync::EverySecond,
        Some(&"always") => Sync::Always,
        Some(other) => panic!("sync={other}"),
    };
    let setup = Setup { shards, memory_bytes: 256 << 20, sync, seed: 1 };
    let mut play = Play {
        machine: Machine::new(setup),
        clients: BTreeMap::new(),
        pauses: BTreeMap::new(),
        ahead,
        polite: config.get("disk") != Some(&"shown"),
        place: String::new(),
    };
    for (line, step) in &steps {
        play.place = format!("{name}:{line}: {step}");
        play.step(step);
    }
    play.place = format!("{name}: at the end");
    play.end();
}

struct Play {
    machine: Machine,
    clients: BTreeMap<u64, Client>,
    /// Delays of replies that no step has checked.
    pauses: BTreeMap<u64, Duration>,
    ahead: bool,
    polite: bool,
    place: String,
}

impl Play {
    fn step(&mut self, step: &str) {
        let (head, text) =
            step.split_once('>').map_or((step, ""), |(head, text)| (head, text.trim()));
        let (verb, rest) = head.split_once(' ').unwrap_or((head, ""));
        let name = verb.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let number = verb[name.len()..].parse().unwrap_or(1);
        if !matches!(name, "to-client" | "heard-later" | "waits" | "closes") {
            self.nothing_else_heard();
        }
        match name {
            "config" => {}
            "client" => {
                self.client(number).say(&requests(text));
                self.go_on();
            }
            "to-client" => self.hears(number, text),
            "heard-later" => {
                let pause = self.pauses.remove(&number);
                assert_eq!(pause, Some(duration(rest)), "{}", self.place);
            }
            "waits" => {
                assert!(self.client(number).is_busy(), "{}: the client does not wait", self.place);
            }
            "disk" => {
                self.machine.rest();
                self.go_on();
            }
            "fill" => self.fill(rest),
            "time" => {
                self.machine.now += duration(rest.trim_start_matches('+'));
                self.machine.rest();
                self.go_on();
            }
            "closes" => {
                assert!(self.client(number).session.is_closing(), "{}: it stays open", self.place);
            }
            "gone" => {
                let client = self.clients.remove(&number).expect("it is there");
                client.leave(&self.machine);
            }
            "restart" | "crash" => {
                self.clients.clear();
                if name == "crash" { self.machine.crash() } else { self.machine.restart() }
            }
            _ => panic!("{}: no such step", self.place),
        }
    }

    fn client(&mut self, number: u64) -> &mut Client {
        self.clients.entry(number).or_insert_with(|| self.machine.client())
    }

    /// Runs every client until none can continue.
    fn go_on(&mut self) {
        let mut turns = 0;
        loop {
            let mut is_still = true;
            for (number, client) in &mut self.clients {
                match client.turn(&self.machine, self.ahead) {
                    Turn::Answered(pause) => {
                        is_still = false;
                        if !pause.is_zero() {
                            self.pauses.insert(*number, pause);
                        }
                    }
                    Turn::Again => is_still = false,
                    Turn::Waits => is_still &= !self.polite,
                    Turn::Idle => {}
                }
            }
            if self.polite {
                self.machine.rest();
            }
            if is_still {
                return;
            }
            turns += 1;
            assert!(turns < TURNS_MAX, "{}: a client waits forever", self.place);
        }
    }

    fn fill(&mut self, rest: &str) {
        let numbers: Vec<usize> =
            rest.split(' ').map(|number| number.parse().expect("fill KEYS BYTES")).collect();
        let [keys, bytes] = numbers[..] else { panic!("{}: fill KEYS BYTES", self.place) };
        let mut client = self.machine.client();
        for key in 0..keys {
            client.say(&requests(&format!("SET fill:{key} {}", "v".repeat(bytes))));
            let mut turns = 0;
            while client.is_busy() {
                client.turn(&self.machine, false);
                self.machine.rest();
                turns += 1;
                assert!(turns < TURNS_MAX, "{}: the keys cannot be stored", self.place);
            }
        }
        client.leave(&self.machine);
    }

    fn hears(&mut self, number: u64, text: &str) {
        let place = self.place.clone();
        let expected = replies(text);
        let client = self.clients.get_mut(&number).expect("it is there");
        let heard = client.heard(&self.machine);
        let found = &heard[..expected.len().min(heard.len())];
        assert!(
            found == expected,
            "{place}\nexpected {}\n   found {}",
            expected.escape_ascii(),
            heard.escape_ascii()
        );
        client.take(expected.len());
    }

    fn nothing_else_heard(&mut self) {
        for (number, client) in &mut self.clients {
            let heard = client.heard(&self.machine).escape_ascii().to_string();
            assert!(heard.is_empty(), "before {}\nnot expected by {number}: {heard}", self.place);
        }
        assert!(self.pauses.is_empty(), "before {}\ndelayed: {:?}", self.place, self.pauses);
    }

    fn end(&mut self) {
        self.machine.rest();
        self.go_on();
        self.nothing_else_heard();
        for (number, client) in std::mem::take(&mut self.clients) {
            assert!(!client.is_busy(), "{}: client {number} waits", self.place);
            client.leave(&self.machine);
        }
        assert!(self.machine.server.clients.is_empty(), "{}", self.place);
    }
}

/// `500ms`, `2s`.
fn duration(text: &str) -> Duration {
    let count = |digits: &str| digits.parse().expect("a number of ms or s");
    match text.strip_suffix("ms") {
        Some(digits) => Duration::from_millis(count(digits)),
        None => Duration::from_secs(count(text.trim_end_matches('s'))),
    }
}
