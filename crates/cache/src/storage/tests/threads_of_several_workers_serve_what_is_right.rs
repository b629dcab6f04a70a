//! Storage shared by workers, in random thread schedules (shuttle). A write to a collection visits
//! one shard after the other. No read is served from storage a value older than the newest that an
//! acknowledged write or a completed read had returned before the read began.

#[path = "../../../../reactor/tests/model/mod.rs"]
mod model;
// The file of the product, compiled with shuttle's locks.
#[path = "../shards.rs"]
#[allow(clippy::duplicate_mod, dead_code, unreachable_pub, reason = "a part of this test")]
mod shards;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use model::{check, sync};
use shards::{Handle, Shards};
use shuttle::{sync::atomic::AtomicU32, thread};

use crate::{
    key::{Key, Namespace, Sent},
    lease::Outcome,
    principal::{Finding, Principal, Proof, Standing},
    stats::Stats,
    storage::{Answer, Config, Given, Question, Storage},
};

const NOW: Duration = Duration::ZERO;
const LEASE: Duration = Duration::from_secs(1);
/// Two keys in different shards.
const KEYS: [&[u8]; 2] = [b"a", b"b"];
/// Number of reads of each key by each reader.
const READS: usize = 2;

/// What all threads share.
struct World {
    shards: Arc<Shards>,
    principal: Principal,
    /// The value of each key at the origin; each write increments it.
    origin: [AtomicU32; 2],
    /// The newest value of each key that a client has received.
    told: [AtomicU32; 2],
}

#[derive(Clone, Copy)]
enum Writer {
    OfAKey,
    OfTheCollection,
    /// Writes without receiving a reply.
    Lost,
}

fn namespace() -> Namespace {
    Namespace::new(0, "origin", b"shop", b"users")
}

fn key(which: usize) -> Key<'static> {
    Key::new(namespace(), KEYS[which])
}

impl World {
    fn new() -> Self {
        let shards = Arc::new(Shards::new(&Config::default(), 1));
        let mut standing = Standing::new(LEASE);
        standing.settle(Finding::Proven(Proof::Unrestricted), NOW);
        let principal = standing.receiver().expect("proven").clone();
        let zeros = || [AtomicU32::new(0), AtomicU32::new(0)];
        Self { shards, principal, origin: zeros(), told: zeros() }
    }

    fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shards), Arc::new(Stats::default()))
    }

    fn write(&self, writer: Writer) {
        let mut storage = self.handle();
        let (scope, keys) = match writer {
            Writer::OfAKey => (Sent::Key { namespace: key(0).namespace, hash: key(0).hash }, 0..1),
            Writer::OfTheCollection | Writer::Lost => (Sent::Collection(namespace()), 0..2),
        };
        let write = storage.write_sent(scope);
        let values: Vec<u32> =
            keys.clone().map(|key| self.origin[key].fetch_add(1, SeqCst) + 1).collect();
        if matches!(writer, Writer::Lost) {
            return storage.write_lost(write, NOW);
        }
        storage.write_settled(write, Outcome::Applied);
        for (key, value) in keys.zip(values) {
            self.told[key].fetch_max(value, SeqCst);
        }
    }

    /// Reads a key once; returns whether it was answered from storage.
    fn read(&self, storage: &mut Handle, which: usize) -> bool {
        let (key, principal) = (key(which), &self.principal);
        let told = self.told[which].load(SeqCst);
        let mut stored = None;
        let question = Question { key, variant: b"", principal: Some(principal) };
        let answer = storage.read(question, None, NOW, |answer| {
            stored = Some(u32::from_le_bytes(answer.try_into().expect("a number")));
        });
        let value = stored.unwrap_or_else(|| self.origin[which].load(SeqCst));
        if let Answer::Miss(Ok(grant)) = answer {
            let answer = &value.to_le_bytes();
            let given =
                Given { key, variant: b"", principal, answer, asked_at: NOW, expires_at: None };
            let _either = storage.fill(grant.lease, given, NOW);
        }
        assert!(value >= told, "key {which}: read {value} after {told}");
        self.told[which].fetch_max(value, SeqCst);
        stored.is_some()
    }
}

/// Runs the two writers concurrently with two readers; some of the reads must be hits.
fn run(writers: [Writer; 2]) {
    let hits = Arc::new(AtomicUsize::new(0));
    let all = Arc::clone(&hits);
    check(move || {
        let world = Arc::new(World::new());
        (0..2).for_each(|which| assert!(!world.read(&mut world.handle(), which)));
        let mut threads = Vec::new();
        for writer in writers {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || world.write(writer)));
        }
        for _ in 0..2 {
            let (world, all) = (Arc::clone(&world), Arc::clone(&all));
            threads.push(thread::spawn(move || {
                let mut storage = world.handle();
                for which in [0, 1].repeat(READS) {
                    all.fetch_add(usize::from(world.read(&mut storage, which)), SeqCst);
                }
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    assert!(hits.load(SeqCst) > 100, "only {} hits", hits.load(SeqCst));
}

#[test]
fn keys_are_in_different_shards() {
    let [a, b] = [0, 1].map(|which| key(which).hash >> 60);
    assert_ne!(a, b);
}

#[test]
fn beside_writers_of_a_key_and_of_its_collection() {
    run([Writer::OfAKey, Writer::OfTheCollection]);
}

#[test]
fn beside_two_writers_of_the_collection() {
    run([Writer::OfTheCollection, Writer::OfTheCollection]);
}

#[test]
fn beside_a_writer_that_is_lost() {
    run([Writer::Lost, Writer::OfTheCollection]);
}
