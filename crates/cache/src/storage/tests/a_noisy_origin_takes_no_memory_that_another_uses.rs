//! Two origins, one budget: one reads its keys again and again, the other reads ever new ones.

use std::{sync::Arc, time::Duration};

use crate::{
    key::{self, Key, Namespace, Sent},
    lease::Outcome,
    principal::{Finding, Principal, Proof, Standing},
    stats::Stats,
    storage::{
        Answer, Config, Given, Portion, Question, Storage,
        shards::{Handle, Shards},
        shares::Why,
    },
};

const MEMORY: usize = 64 << 20;
const VALUE_BYTES: usize = 8 << 10;
/// With `VALUE_BYTES` each, 40 MiB: more than half of the memory.
const USEFUL_KEYS: u64 = 5_000;
const SECONDS: u64 = 60;

pub(super) struct World {
    pub(super) shards: Arc<Shards>,
    pub(super) storage: Handle,
    pub(super) principal: Principal,
    pub(super) now: Duration,
}

impl World {
    pub(super) fn new(portions: Vec<Portion>) -> Self {
        let mut config = Config { portions, ..Config::default() };
        config.memory.bytes_max = MEMORY;
        let shards = Arc::new(Shards::new(&config, 1));
        let storage = Handle::new(Arc::clone(&shards), Arc::new(Stats::default()));
        let mut standing = Standing::new(Duration::from_secs(1_000));
        standing.settle(Finding::Proven(Proof::Unrestricted), Duration::ZERO);
        let principal = standing.receiver().expect("proven").clone();
        Self { shards, storage, principal, now: Duration::ZERO }
    }

    /// Reads a key, and fills it if it is missing; returns whether it was a hit.
    pub(super) fn read(&mut self, origin: &str, number: u64) -> bool {
        let bytes = number.to_le_bytes();
        let key = Key::new(Namespace::new(0, origin, b"shop", b"users"), &bytes);
        let question = Question { key, variant: b"", principal: Some(&self.principal) };
        match self.storage.read(question, None, self.now, |_| {}) {
            Answer::Hit => true,
            Answer::Miss(Ok(grant)) => {
                let (variant, asked_at) = (&b""[..], self.now);
                let answer = &[7; VALUE_BYTES];
                let principal = &self.principal;
                let given = Given { key, variant, principal, answer, asked_at, expires_at: None };
                self.storage.fill(grant.lease, given, self.now).expect("it is stored");
                false
            }
            answer => panic!("{answer:?}"),
        }
    }

    /// A second of upkeep. The memory of all is never more than the budget.
    fn second(&mut self) {
        self.now += Duration::from_secs(1);
        for _ in 0..100 {
            self.shards.advance(self.now);
            assert!(self.shards.memory().accounted_bytes <= MEMORY);
        }
    }
}

pub(super) fn portion(origin: &str) -> Portion {
    Portion { origin: Some(key::origin(0, origin)), floor: Some(8 << 20), ceiling: None }
}

#[test]
fn what_is_read_again_gets_the_memory_and_the_scan_keeps_its_floor() {
    let mut world = World::new(vec![portion("useful"), portion("noisy")]);
    let (mut hits, mut scanned, mut at) = (0, 0, 1u64);
    for second in 0..SECONDS {
        for _ in 0..2_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let hit = world.read("useful", (at >> 33) % USEFUL_KEYS);
            hits += u64::from(hit && second >= SECONDS - 10);
        }
        for _ in 0..4_000 {
            scanned += 1;
            assert!(!world.read("noisy", scanned));
        }
        world.second();
    }
    let [useful, noisy] = ["useful", "noisy"]
        .map(|origin| world.shards.share(Some(key::origin(0, origin))).expect("several"));
    assert!(useful.bytes >= 44 << 20, "{useful:?}");
    assert!((8 << 20..20 << 20).contains(&noisy.bytes), "{noisy:?}");
    assert_eq!(noisy.margin.why, Why::Enough, "{noisy:?}");
    assert!((1_500.0..2_500.0).contains(&useful.hits_per_second), "{useful:?}");
    assert!(hits > 19_000, "{hits} of 20000 were hits at the end");
    assert!(World::new(Vec::new()).shards.share(None).is_none(), "all memory is for one");
}

#[test]
fn a_write_to_one_origin_drops_nothing_of_another_and_a_wider_bound_moves_no_entry() {
    let mut world = World::new(vec![portion("one"), portion("other"), portion("third")]);
    for number in 0..100 {
        world.read("one", number);
        world.read("other", number);
    }
    let write = world.storage.write_sent(Sent::Origin(key::origin(0, "one")));
    world.storage.write_settled(write, Outcome::Applied);
    let items =
        |origin: &str| world.shards.share(Some(key::origin(0, origin))).expect("several").items;
    assert_eq!((items("other"), items("third")), (100, 0), "each has its own shards");
    let larger = Portion { floor: Some(32 << 20), ..portion("one") };
    let bounds = [larger, portion("other"), portion("third")];
    world.shards.bound(&bounds);
    world.second();
    assert!((0..100).all(|number| !world.read("one", number)));
    assert!((0..100).all(|number| world.read("other", number)));
    // A connection whose origin has no share uses that of another, and stores there.
    assert!(!world.read("unknown", 7) && world.read("unknown", 7));
}
