//! Storage that is closed serves and stores nothing, whatever was under way before, and what was
//! asked before or while it was closed is not stored after it.

use std::{sync::Arc, time::Duration};

use crate::{
    key::{Key, Namespace, Scope},
    lease::Lease,
    principal::{Finding, Principal, Proof, Standing},
    stats::{NotFilled, Stats},
    storage::{
        Answer, Config, Given, Grant, Population, Question, Refusal, Storage,
        shards::{Handle, Shards},
    },
};

const NOW: Duration = Duration::from_secs(1);

fn given(number: usize, principal: &Principal) -> Given<'_> {
    let (variant, answer) = (&b""[..], &b"old"[..]);
    Given { key: key(number), variant, principal, answer, asked_at: NOW, expires_at: None }
}

struct World {
    shards: Arc<Shards>,
    storage: Handle,
    principal: Principal,
}

fn key(number: usize) -> Key<'static> {
    const KEYS: [&[u8]; 3] = [b"zero", b"one", b"two"];
    Key::new(Namespace::new(0, "origin", b"shop", b"users"), KEYS[number])
}

impl World {
    fn new(population: Population) -> Self {
        let shards = Arc::new(Shards::new(&Config { population, ..Config::default() }, 1));
        let storage = Handle::new(Arc::clone(&shards), Arc::new(Stats::default()));
        let mut standing = Standing::new(Duration::from_secs(1_000));
        standing.settle(Finding::Proven(Proof::Unrestricted), Duration::ZERO);
        let principal = standing.receiver().expect("proven").clone();
        Self { shards, storage, principal }
    }

    fn read(&mut self, number: usize) -> Answer {
        let principal = Some(&self.principal);
        let question = Question { key: key(number), variant: b"", principal };
        self.storage.read(question, None, NOW, |_| {})
    }

    fn lease(&mut self, number: usize) -> Lease {
        match self.read(number) {
            Answer::Miss(Ok(Grant { lease, .. })) => lease,
            answer => panic!("{answer:?}"),
        }
    }

    fn fill(&mut self, number: usize, lease: Lease) -> Result<(), NotFilled> {
        self.storage.fill(lease, given(number, &self.principal), NOW)
    }

    fn refuses(&mut self, number: usize) {
        assert_eq!(self.read(number), Answer::Miss(Err(Refusal::Upgrading)), "{number}");
    }
}

#[test]
fn what_is_stored_or_under_way_is_dropped() {
    let mut world = World::new(Population::OnMiss);
    let lease = world.lease(0);
    world.fill(0, lease).expect("it is stored");
    assert_eq!(world.read(0), Answer::Hit);
    let (while_closed, after) = (world.lease(1), world.lease(2));

    world.shards.close();
    (0..3).for_each(|number| world.refuses(number));
    assert_eq!(world.fill(1, while_closed), Err(NotFilled::Revoked));
    let inspected = world.shards.inspect(key(0), NOW);
    assert_eq!((inspected.refusal, inspected.stored.len()), (Some(Refusal::Upgrading), 0));

    world.shards.open();
    assert_eq!(world.fill(2, after), Err(NotFilled::Revoked));
    for number in 0..3 {
        let lease = world.lease(number);
        world.fill(number, lease).expect("it is stored again");
        assert_eq!(world.read(number), Answer::Hit);
    }
    assert!(world.shards.is_idle());
}

#[test]
fn a_write_stores_its_value_only_when_it_is_open() {
    for closed in [false, true] {
        let mut world = World::new(Population::OnWrite);
        if closed {
            world.shards.close();
        }
        let write = world.storage.write_sent(Scope::Key(key(0)).into());
        assert!(!world.shards.is_idle(), "a write is under way");
        let given = given(0, &world.principal);
        world.storage.write_settled_with(write, &[given], NOW);
        assert_eq!(world.shards.memory().items, usize::from(!closed));
        assert_eq!(world.read(0) == Answer::Hit, !closed);
    }
}
