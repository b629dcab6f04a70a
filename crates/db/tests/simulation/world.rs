//! Clients, disks and time, in an order drawn from one seed.

use std::{collections::BTreeMap, time::Duration};

use store::elastic::Sync;
use wire::resp::{Limits, frame, request::write_command};

use crate::{
    machine::{Client, Machine, Setup, Turn},
    model::{Answer, Model, Name, Talk, Words},
    random::Random,
};

const CLIENTS: usize = 4;
/// Number of commands that a client sends at once.
const PIPELINE: usize = 4;
/// Transactions of up to this many commands are never refused for their size: a segment has room
/// for that many of the longest values.
const NEVER_REFUSED: usize = 3;
/// Size of larger transactions; a segment has room for this many short values.
const LARGE: usize = 10;
/// Number of databases, and of keys in each.
const DATABASES: u8 = 3;
const KEYS: usize = 60;
/// Number of turns within which a command must be answered.
const TURNS_MAX: usize = 200_000;

/// Counters that show that a run was not idle.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answers: usize,
    /// Commands that waited for the disk.
    pub(crate) waits: usize,
    /// Keys read back after a power failure.
    pub(crate) recovered: usize,
    /// Large transactions that were executed, and those that were refused for their size.
    pub(crate) large: usize,
    pub(crate) refused: usize,
}

/// A value and its expiry; `None` if the key is absent.
type State = Option<(Vec<u8>, Option<u64>)>;

/// The states of a key since its last known one, each with the number of its change.
type States = Vec<(u64, State)>;

/// A client, and its replies that are not delivered yet.
struct Seat {
    client: Client,
    talk: Talk,
    /// Its last command leaves it in a transaction.
    queues: bool,
    /// Ends of the replies, and their content: the keys read, and the number of the last change.
    told: Vec<(u64, Vec<Name>, u64)>,
}

pub(crate) struct World {
    random: Random,
    machine: Machine,
    model: Model,
    seats: Vec<Seat>,
    history: BTreeMap<Name, States>,
    /// For each key, the latest change that a client knows to be durable.
    safe: BTreeMap<Name, u64>,
    changes: u64,
    seen: Seen,
}

/// Runs the simulation of `seed`; panics if a reply or the final state is wrong.
pub(crate) fn run(seed: u64, steps: usize) -> Seen {
    let mut random = Random::new(seed);
    let setup = Setup {
        shards: 1 + random.below(3),
        memory_bytes: [32, 48, 256][random.below(3)] << 20,
        sync: [Sync::Always, Sync::EverySecond][random.below(2)],
        seed,
    };
    let machine = Machine::new(setup);
    let mut world = World {
        random,
        machine,
        model: Model::default(),
        seats: Vec::new(),
        history: BTreeMap::new(),
        safe: BTreeMap::new(),
        changes: 0,
        seen: Seen::default(),
    };
    world.sit_down();
    (0..steps).for_each(|_| world.step());
    world.finish();
    world.restart();
    world.seen
}

impl World {
    fn sit_down(&mut self) {
        let seat = |_| Seat {
            client: self.machine.client(),
            talk: Talk::default(),
            queues: false,
            told: Vec::new(),
        };
        self.seats = (0..CLIENTS).map(seat).collect();
    }

    fn step(&mut self) {
        let at = self.random.below(CLIENTS);
        let shard = self.random.below(self.machine.shard_count());
        match self.random.below(100) {
            0..60 => self.turn(at),
            60..85 => drop(self.machine.serve_disk(shard)),
            85..93 => drop(self.machine.look_after(shard)),
            93..99 => {
                let scale = [2, 50, 1_000][self.random.below(3)];
                self.machine.now += Duration::from_millis(self.random.below(scale) as u64);
            }
            _ if !self.random.one_in(8) => {}
            _ if self.random.one_in(2) => self.restart(),
            _ => self.crash(),
        }
    }

    /// One client executes its next command, or waits.
    fn turn(&mut self, at: usize) {
        if !self.seats[at].client.is_busy() {
            let mut bytes = Vec::new();
            for _ in 0..1 + self.random.below(PIPELINE) {
                let mut words = self.command();
                let queues = &mut self.seats[at].queues;
                if *queues && walks(&words) {
                    words = vec![b"PING".to_vec()];
                }
                *queues = match words[0].as_slice() {
                    b"MULTI" => true,
                    b"EXEC" | b"DISCARD" => false,
                    _ => *queues,
                };
                write_command(&mut bytes, &words);
            }
            self.seats[at].client.say(&bytes);
        }
        let is_alone = self.seats[at].client.next().is_some_and(walks);
        for _ in 0..TURNS_MAX {
            if self.give(at) || !is_alone {
                return;
            }
            for shard in 0..self.machine.shard_count() {
                self.machine.serve_disk(shard);
                self.machine.look_after(shard);
            }
        }
        panic!("a command never ends");
    }

    /// Executes a client's next command once; true if it was answered, as the model expects.
    fn give(&mut self, at: usize) -> bool {
        let ahead = self.random.one_in(2);
        let Seat { client, talk, .. } = &mut self.seats[at];
        let Some(words) = client.next().map(<[_]>::to_vec) else { return true };
        let start = client.written();
        match client.turn(&self.machine, ahead) {
            Turn::Answered(_) => {}
            Turn::Waits => {
                self.seen.waits += 1;
                return false;
            }
            Turn::Again | Turn::Idle => return false,
        }
        self.seen.answers += 1;
        let now_ms = self.machine.now.as_millis() as u64;
        let answer = client.since(start);
        let queued = talk.queue.as_ref().filter(|_| words[0] == b"EXEC").map_or(0, Vec::len);
        let refused = queued > NEVER_REFUSED && answer.starts_with(b"-EXECABORT");
        let expected = if refused {
            self.model.discard(talk);
            Answer::Exactly(answer.to_vec())
        } else {
            self.model.answer(talk, &words, now_ms)
        };
        self.seen.refused += usize::from(refused);
        self.seen.large += usize::from(!refused && queued > LARGE);
        assert!(
            is_answer(answer, &expected),
            "{} in database {} at {now_ms}: {}",
            words.join(&b' ').escape_ascii(),
            talk.database,
            difference(answer, &expected),
        );
        let touched = self.note();
        let seat = &mut self.seats[at];
        seat.told.push((seat.client.written(), touched, self.changes));
        self.hear(at);
        true
    }

    /// Records the model's changes; returns the keys that were accessed.
    fn note(&mut self) -> Vec<Name> {
        let mut touched = std::mem::take(&mut self.model.touched);
        touched.sort();
        touched.dedup();
        for name in &touched {
            let held = self.model.raw(name);
            let states = self.history.entry(name.clone()).or_insert_with(|| vec![(0, None)]);
            if states.last().is_none_or(|(_, last)| *last != held) {
                self.changes += 1;
                states.push((self.changes, held));
            }
        }
        touched
    }

    /// Checks that delivered replies are durable, if every write must be.
    fn hear(&mut self, at: usize) {
        let Seat { client, told, .. } = &mut self.seats[at];
        let count = client.heard(&self.machine).len();
        client.take(count);
        let past = client.past();
        let heard = told.iter().take_while(|(end, ..)| *end <= past).count();
        if self.machine.server.parameters.sync() != Sync::Always {
            told.drain(..heard);
            return;
        }
        for (_, names, change) in told.drain(..heard) {
            for name in names {
                let safe = self.safe.entry(name).or_default();
                *safe = (*safe).max(change);
            }
        }
    }

    /// Waits until all requests are answered and all replies delivered.
    fn finish(&mut self) {
        for at in 0..CLIENTS {
            let mut turns = 0;
            while self.seats[at].client.is_busy() {
                self.turn(at);
                self.machine.rest();
                turns += 1;
                assert!(turns < TURNS_MAX, "a client waits forever");
            }
        }
        self.machine.flush();
        (0..CLIENTS).for_each(|at| self.hear(at));
        assert!(self.seats.iter().all(|seat| seat.told.is_empty()), "a reply is still delayed");
        self.machine.rest();
        self.machine.check_memory();
    }

    /// Restarts the process, which must change nothing.
    fn restart(&mut self) {
        self.machine.restart();
        self.sit_down();
        for (name, held) in self.read_all() {
            let expected = self.expected(&name);
            assert_eq!(held, expected, "{name:?} after a restart");
        }
    }

    /// A power failure: what a client knew to be durable is present, and any part of later writes.
    fn crash(&mut self) {
        (0..CLIENTS).for_each(|at| self.hear(at));
        self.machine.crash();
        self.sit_down();
        let now_ms = self.machine.now.as_millis() as u64;
        let found = self.read_all();
        for (name, held) in found {
            let safe = self.safe.get(&name).copied().unwrap_or(0);
            let states = &self.history[&name];
            let first = states.partition_point(|(change, _)| *change <= safe).max(1) - 1;
            let is_possible = states[first..].iter().any(|(_, state)| {
                let there =
                    state.as_ref().filter(|(_, ends)| ends.is_none_or(|ends| ends > now_ms));
                there == held.as_ref()
            });
            assert!(is_possible, "{name:?} holds {held:?} after the power failed");
            self.seen.recovered += usize::from(held.is_some());
            self.history.insert(name.clone(), vec![(0, held.clone())]);
            self.model.set(name, held);
        }
        self.model.touched.clear();
        self.safe.clear();
        for database in 0..DATABASES {
            let expected = self.model.names(database, now_ms).len();
            let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let answer = self.ask(&[words(&format!("SELECT {database}")), words("DBSIZE")]);
            assert_eq!(answer, format!("+OK\r\n:{expected}\r\n").into_bytes(), "DBSIZE {database}");
        }
    }

    fn expected(&mut self, name: &Name) -> State {
        let now_ms = self.machine.now.as_millis() as u64;
        self.model.held(name, now_ms).map(|held| (held.value.clone(), held.ends))
    }

    /// Reads every known key, with no other client active.
    fn read_all(&mut self) -> Vec<(Name, State)> {
        let names: Vec<Name> = self.history.keys().cloned().collect();
        let word = |text: &str| text.as_bytes().to_vec();
        let read = |name: Name| {
            let (database, key) = &name;
            let select = vec![word("SELECT"), word(&database.to_string())];
            let time = vec![word("PEXPIRETIME"), key.clone()];
            let answer = self.ask(&[select, vec![word("GET"), key.clone()], time]);
            let mut rest = &answer[5..];
            let mut next = || {
                let decoded = frame::decode(rest, &Limits::default()).expect("a reply");
                let (reply, taken) = decoded.expect("a whole one");
                rest = &rest[taken..];
                (reply.payload().map(<[u8]>::to_vec), reply.integer())
            };
            let ((value, _), (_, ends)) = (next(), next());
            let ends = ends.and_then(|ends| u64::try_from(ends).ok());
            (name, value.map(|value| (value, ends)))
        };
        names.into_iter().map(read).collect()
    }

    /// The reply to a new client.
    fn ask(&self, commands: &[Words]) -> Vec<u8> {
        let mut client = self.machine.client();
        let mut bytes = Vec::new();
        commands.iter().for_each(|words| write_command(&mut bytes, words));
        client.say(&bytes);
        for _ in 0..TURNS_MAX {
            if !client.is_busy() {
                let answer = client.since(0).to_vec();
                client.leave(&self.machine);
                return answer;
            }
            client.turn(&self.machine, false);
            self.machine.rest();
        }
        panic!("a command never ends");
    }

    fn command(&mut self) -> Words {
        let key = |random: &mut Random| format!("k{}", random.below(KEYS));
        let random = &mut self.random;
        let (one, other) = (key(random), key(random));
        let time = [1, 20, 400][random.below(3)] + random.below(100);
        let database = random.below(DATABASES.into());
        let length = [8, 8, 200, 12_000][random.below(4)];
        let value = format!("{}{}", random.below(1_000_000), "v".repeat(random.below(length)));
        let text = match random.below(100) {
            0..15 => format!("GET {one}"),
            15..21 => format!("MGET {one} {other}"),
            21..36 => format!("SET {one} {value}"),
            36..40 => format!("SET {one} {value} PX {time}"),
            40..42 => format!("SET {one} {value} {}", ["NX", "XX"][random.below(2)]),
            42..44 => format!("SET {one} {value} {}", ["GET", "KEEPTTL"][random.below(2)]),
            44..47 => format!("MSET {one} {value} {other} 1"),
            47..50 => format!("DEL {one} {other}"),
            50..52 => format!("GETDEL {one}"),
            52..55 => format!("APPEND {one} x"),
            55..58 => format!("INCRBY {one} {}", random.below(100)),
            58..62 => format!("PEXPIRE {one} {time}"),
            62..64 => format!("PERSIST {one}"),
            64..66 => format!("PTTL {one}"),
            66..68 => format!("STRLEN {one}"),
            68..70 => format!("EXISTS {one}"),
            70..73 => format!("RENAME {one} {other}"),
            73..75 => format!("COPY {one} {other} DB {database}"),
            75..76 => format!("COPY {one} {other} DB {database} REPLACE"),
            76..78 => format!("MOVE {one} {database}"),
            78..81 => format!("SELECT {database}"),
            81..84 => format!("WATCH {one}"),
            84..88 => "MULTI".to_owned(),
            88..93 => "EXEC".to_owned(),
            93..94 => "DISCARD".to_owned(),
            94..96 => format!("RESCALE {}mb", [32, 48, 256][random.below(3)]),
            96 => "DBSIZE".to_owned(),
            97 => ["KEYS *", "RANDOMKEY"][random.below(2)].to_owned(),
            98 => "PING".to_owned(),
            _ if !random.one_in(8) => format!("GET {other}"),
            _ => ["FLUSHDB", "FLUSHALL"][random.below(2)].to_owned(),
        };
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }
}

/// Whether the command runs in portions, so that other clients see a part of it.
fn walks(words: &[Vec<u8>]) -> bool {
    matches!(words[0].as_slice(), b"KEYS" | b"RANDOMKEY" | b"DBSIZE" | b"FLUSHDB")
}

fn is_answer(answer: &[u8], expected: &Answer) -> bool {
    let decoded = || frame::decode(answer, &Limits::default()).expect("a reply").expect("whole").0;
    match expected {
        Answer::Exactly(bytes) => answer == bytes,
        Answer::InAnyOrder(names) => {
            let reply = decoded();
            let mut found: Vec<_> =
                reply.elements().filter_map(|name| name.payload().map(<[u8]>::to_vec)).collect();
            found.sort();
            found == *names
        }
        Answer::Between(least, most) => {
            let count = decoded().integer().and_then(|count| usize::try_from(count).ok());
            count.is_some_and(|count| (*least..=*most).contains(&count))
        }
        Answer::OneOf(names) => match decoded().payload() {
            None => names.is_empty(),
            Some(name) => names.iter().any(|each| each == name),
        },
    }
}

/// Returns the actual and the expected reply, from a little before the first difference.
fn difference(answer: &[u8], expected: &Answer) -> String {
    let Answer::Exactly(bytes) = expected else {
        return format!("was answered {}, not {expected:?}", answer.escape_ascii());
    };
    let same = answer.iter().zip(bytes).take_while(|(one, other)| one == other).count();
    let shown = |bytes: &[u8]| {
        let from = same.saturating_sub(40);
        bytes[from..bytes.len().min(same + 40)].escape_ascii().to_string()
    };
    format!("byte {same} of the answer: {}, not {}", shown(answer), shown(bytes))
}
