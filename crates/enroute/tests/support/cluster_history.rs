//! The history of clients that read through a cache in front of a cluster while others write at its
//! nodes, slots move and are taken over, and a primary is killed whose last write no replica has.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::RwLock;
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::cached_cluster::{
    ELECTING, Engine, add_replica, is_a_hit, is_in_step, is_primary, kill_with_lost_write,
    move_slot, set, start,
};
use super::cluster::{NODES, id};
use super::enroute::Cache;
use super::history::{self, GoesOn, Operation, Outcome, Recorder, Verdict, What};
use super::origins::Redis;
use super::process::until;
use super::raw::Raw;
use super::routed::{Answer, Routed};
use super::state::{owner_now, slot_of};

/// Longest time for which a listener with a feed may serve an old value.
const BOUND: Duration = Duration::from_secs(5);
/// Time after a change of owners until what is still served is too old.
const AFTER: Duration = Duration::from_secs(7);

const READERS: usize = 6;
const WRITERS: usize = 3;
/// The pseudo-clients for the last two keys.
const TAKEOVERS: usize = 1_001;
const FAILOVERS: usize = 1_002;

/// Keys that clients write at the nodes: of two slots that move, and of the primary that fails.
const WRITTEN: Range<usize> = 0..12;
/// A key of a slot that is taken over, and one of the primary that fails; nothing else writes them.
const TAKEN: usize = 12;
const FAILING: usize = 13;
const KEYS: usize = 14;

/// Two slots of the first two nodes, one of theirs that is taken over, one of the last primary.
struct Tags {
    moving: [String; 2],
    taken: String,
    failing: String,
}

impl Tags {
    fn of(nodes: &[SocketAddr]) -> Self {
        let mut of_first = tags(nodes, |node| node < NODES - 1);
        let mut next = || of_first.next().expect("endless");
        let (moving, taken) = ([next(), next()], next());
        let failing = tags(nodes, |node| node == NODES - 1).next().expect("endless");
        Self { moving, taken, failing }
    }

    fn key(&self, key: usize) -> String {
        let tag = match key {
            TAKEN => &self.taken,
            FAILING => &self.failing,
            _ => [&self.moving[0], &self.moving[1], &self.failing][key % 3],
        };
        format!("{{{tag}}}{key}")
    }
}

fn tags(nodes: &[SocketAddr], at: fn(usize) -> bool) -> impl Iterator<Item = String> {
    let tags = (0..).map(|number| format!("tag{number}"));
    tags.filter(move |tag| owner_now(nodes, slot_of(tag)).is_some_and(at))
}

/// A cluster, the cache in front of it, and its clients.
pub struct World {
    nodes: Vec<Redis>,
    addresses: Vec<SocketAddr>,
    cache: Cache,
    tags: Tags,
    seed: u64,
    start: Instant,
    /// Held by each write, so that none is under way when a primary is killed.
    writes: RwLock<()>,
}

/// Runs `rounds` of moves, a takeover and a failover. Returns the verdict on the history with the
/// bound of a feed, and the number of hits.
pub fn run(engine: Engine, rounds: u64, seed: u64) -> Option<(Verdict, f64)> {
    history::checker()?;
    let mut nodes = engine(&ELECTING)?;
    add_replica(&mut nodes, NODES - 1, &ELECTING);
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let (cache, tags) = (start(&nodes), Tags::of(&addresses));
    let (start, writes) = (Instant::now(), RwLock::new(()));
    let mut world = World { nodes, addresses, cache, tags, seed, start, writes };
    let history = world.history(rounds);
    let hits = world.cache.hits();
    let verdict = history::check(&history::as_old_as(BOUND, history))?;
    eprintln!("seed {seed}: {} hits, {}", hits, verdict.text);
    Some((verdict, hits))
}

impl World {
    fn history(&mut self, rounds: u64) -> Vec<Operation> {
        let mut nodes = std::mem::take(&mut self.nodes);
        let world = &*self;
        let (mut takeovers, mut failovers) =
            (Recorder::new(TAKEOVERS, self.start), Recorder::new(FAILOVERS, self.start));
        let trouble = || {
            for round in 1..=rounds {
                world.move_slots();
                world.fail_over(round, &mut nodes, &mut failovers);
                world.take_over(round, &mut takeovers);
                thread::sleep(AFTER);
                world.bring_back(&mut nodes);
                world.move_slots();
                eprintln!("round {round} ended after {:?}", world.start.elapsed());
            }
        };
        let pause = Duration::from_millis(20);
        let clients = READERS + WRITERS;
        let mut history = history::record_during(pause, trouble, |goes_on| {
            history::of_clients(clients, |number| world.client(number, goes_on))
        });
        history.extend(takeovers.finish());
        history.extend(failovers.finish());
        history
    }

    /// Reads through the listeners, or writes at the nodes: each key has one writer.
    fn client(&self, number: usize, goes_on: GoesOn<'_>) -> Vec<Operation> {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed ^ (number as u64) << 32);
        let (mut recorder, mut client) = (Recorder::new(number, self.start), Routed::default());
        let mut value = number as u64 * 1_000_000_000;
        while goes_on() {
            value += 1;
            let node = random.random_range(0..self.addresses.len());
            if number < READERS {
                let key = random.random_range(0..KEYS);
                let command = redis::cmd("GET").arg(self.tags.key(key)).clone();
                let at = self.cache.addresses()[node];
                recorder.record(key, || match client.ask(at, &command) {
                    Answer::Reply(reply) => {
                        let value = redis::from_redis_value(reply).expect("a number or nothing");
                        Some((What::Read(value), Outcome::Succeeded))
                    }
                    Answer::Refused | Answer::Unknown => None,
                });
                continue;
            }
            let owned = WRITTEN.filter(|key| key % WRITERS == number % WRITERS);
            let key = owned.clone().nth(random.random_range(0..owned.count())).expect("a key");
            let name = self.tags.key(key);
            let (what, command) = match random.random_ratio(1, 6) {
                true => (What::Delete, redis::cmd("DEL").arg(name).clone()),
                false => (What::Write(value), redis::cmd("SET").arg(name).arg(value).clone()),
            };
            let _write = self.writes.read().expect("not poisoned");
            recorder.record(key, || match client.ask(self.addresses[node], &command) {
                Answer::Reply(_) => Some((what, Outcome::Succeeded)),
                Answer::Refused => Some((what, Outcome::Failed)),
                Answer::Unknown => Some((what, Outcome::Unknown)),
            });
        }
        recorder.finish()
    }

    /// Moves two slots with their keys, from one of the first two nodes to the other.
    fn move_slots(&self) {
        for slot in self.tags.moving.each_ref().map(|tag| slot_of(tag)) {
            let from = owner_now(&self.addresses, slot).expect("an owner");
            move_slot(slot, self.addresses[from], self.addresses[1 - from]);
        }
    }

    /// A node takes a slot without its keys, which its former owner deletes.
    fn take_over(&self, round: u64, recorder: &mut Recorder) {
        let (key, slot) = (self.tags.key(TAKEN), slot_of(&self.tags.taken));
        let from = owner_now(&self.addresses, slot).expect("an owner");
        let taker = self.addresses[1 - from];
        self.write(TAKEN, from, round, recorder);
        recorder.record(TAKEN, || {
            let own = id(&mut super::cluster::connection(taker));
            let mut direct = Raw::connect(taker);
            direct.ask(&format!("CLUSTER SETSLOT {slot} NODE {own}"), "+OK\r\n");
            direct.command("CLUSTER BUMPEPOCH");
            direct.hear_line();
            until("the former owner knows", || {
                let mut former = Raw::connect(self.addresses[from]);
                former.command(&format!("GET {key}"));
                former.hear_line().starts_with("-MOVED")
            });
            Some((What::Delete, Outcome::Succeeded))
        });
    }

    /// Writes the key at a node and reads it through the cache until it is a hit.
    fn write(&self, key: usize, node: usize, value: u64, recorder: &mut Recorder) {
        let name = self.tags.key(key);
        recorder.record(key, || {
            set(self.addresses[node], &name, &value.to_string());
            Some((What::Write(value), Outcome::Succeeded))
        });
        self.until_a_hit(&name, node, value);
    }

    fn until_a_hit(&self, name: &str, node: usize, value: u64) {
        let (at, value) = ([self.cache.addresses()[node]], value.to_string());
        until(&format!("{name} is {value} and a hit"), || {
            is_a_hit(&self.cache, &at, name).as_ref() == Some(&value)
        });
    }

    /// The primary of the last two nodes is killed; its last write is lost.
    fn fail_over(&self, round: u64, nodes: &mut [Redis], recorder: &mut Recorder) {
        let primary = (NODES - 1..=NODES).find(|&node| is_primary(&nodes[node])).expect("one");
        let replica = 2 * NODES - 1 - primary;
        let (kept, lost) = (2 * round, 2 * round + 1);
        self.write(FAILING, primary, kept, recorder);
        let name = self.tags.key(FAILING);
        let no_writes = self.writes.write().expect("not poisoned");
        let (write, both) = (lost.to_string(), (primary, replica));
        kill_with_lost_write(nodes, both, (&name, &write), |is_up| {
            if is_up {
                recorder.record(FAILING, || Some((What::Write(lost), Outcome::Succeeded)));
                self.until_a_hit(&name, primary, lost);
            }
        });
        drop(no_writes);
        // The value from before is back.
        recorder.record(FAILING, || {
            until("an election", || is_primary(&nodes[replica]));
            Some((What::Write(kept), Outcome::Succeeded))
        });
        self.until_a_hit(&name, replica, kept);
    }

    /// The former primary becomes a replica. Until then it must not accept writes.
    fn bring_back(&self, nodes: &mut [Redis]) {
        let _no_writes = self.writes.write().expect("not poisoned");
        let down = nodes.iter_mut().find(|node| node.running().is_none()).expect("one is down");
        down.bring_up();
        until("a replica", || is_in_step(down));
    }
}
