//! Three origins, each with several shards: what a write of one worker to one of them does to
//! entries and to reads under way, as another worker sees it, and that it does nothing to others.

use std::{sync::Arc, time::Duration};

use super::a_noisy_origin_takes_no_memory_that_another_uses::{World, portion};
use crate::{
    key::{Key, Namespace, Sent},
    lease::{Closed, Lease, Outcome},
    stats::{NotFilled, Stats},
    storage::{Answer, Given, Question, Refusal, Storage, shards::Handle},
};

const ORIGINS: [&str; 3] = ["one", "other", "third"];
/// More than enough that each shard of an origin has some of them.
const KEYS: u64 = 64;

/// How a write ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Applied,
    Refused,
    Lost,
}

fn namespace(origin: &str) -> Namespace {
    Namespace::new(0, origin, b"shop", b"users")
}

impl World {
    /// Reads a key that is not filled by this.
    fn ask(&mut self, origin: &str, number: u64) -> Answer {
        let bytes = number.to_le_bytes();
        let key = Key::new(namespace(origin), &bytes);
        let question = Question { key, variant: b"", principal: Some(&self.principal) };
        self.storage.read(question, None, self.now, |_| {})
    }

    /// Takes leases of keys that are not stored.
    fn leases(&mut self, origin: &str) -> Vec<(u64, Lease)> {
        let lease = |number: u64| match self.ask(origin, number) {
            Answer::Miss(Ok(grant)) => (number, grant.lease),
            answer => panic!("{origin} {number}: {answer:?}"),
        };
        (KEYS..2 * KEYS).map(lease).collect()
    }

    fn fill(&mut self, origin: &str, number: u64, lease: Lease) -> Result<(), NotFilled> {
        let bytes = number.to_le_bytes();
        let key = Key::new(namespace(origin), &bytes);
        let (variant, answer, asked_at) = (&b""[..], &b"old"[..], self.now);
        let given =
            Given { key, variant, principal: &self.principal, answer, asked_at, expires_at: None };
        self.storage.fill(lease, given, self.now)
    }
}

/// The scopes of writes that touch the key `number`.
fn scopes(origin: &str, number: u64) -> [Sent; 4] {
    let namespace = namespace(origin);
    let key = Key::new(namespace, &number.to_le_bytes()).hash;
    [
        Sent::Key { namespace, hash: key },
        Sent::Collection(namespace),
        Sent::from(namespace.whole_database()),
        Sent::from(namespace.whole_origin()),
    ]
}

fn check(written: &str, number: u64, scope: Sent, end: End) {
    let mut world = World::new(ORIGINS.map(portion).to_vec());
    let mut worker = Handle::new(Arc::clone(&world.shards), Arc::new(Stats::default()));
    let touched = |origin: &str, key: u64| match scope {
        Sent::Key { .. } => origin == written && key == number,
        _ => origin == written,
    };
    let of_all = || ORIGINS.into_iter().flat_map(|origin| (0..KEYS).map(move |key| (origin, key)));
    of_all().for_each(|(origin, key)| assert!(!world.read(origin, key)));
    let leases = ORIGINS.map(|origin| world.leases(origin));

    let write = worker.write_sent(scope);
    for (origin, key) in of_all() {
        let expected = match touched(origin, key) {
            true => Answer::Miss(Err(Refusal::Closed(Closed::WritePending))),
            false => Answer::Hit,
        };
        assert_eq!(world.ask(origin, key), expected, "{origin} {key}, {scope:?} of {written}");
    }

    match end {
        End::Applied => worker.write_settled(write, Outcome::Applied),
        End::Refused => worker.write_settled(write, Outcome::Refused),
        End::Lost => worker.write_lost(write, world.now),
    }
    for (origin, leases) in ORIGINS.into_iter().zip(leases) {
        for (key, lease) in leases {
            let filled = world.fill(origin, key, lease);
            let expected = if touched(origin, key) { Err(NotFilled::Revoked) } else { Ok(()) };
            assert_eq!(filled, expected, "{origin} {key}, {scope:?} of {written}, {end:?}");
        }
    }
    for (origin, key) in of_all() {
        let answer = world.ask(origin, key);
        let is_right = match (touched(origin, key), end) {
            (false, _) | (true, End::Refused) => answer == Answer::Hit,
            (true, End::Applied) => matches!(answer, Answer::Miss(Ok(_))),
            (true, End::Lost) => answer == Answer::Miss(Err(Refusal::Closed(Closed::Quarantine))),
        };
        assert!(is_right, "{origin} {key}, {scope:?} of {written}, {end:?}: {answer:?}");
    }
}

#[test]
fn a_write_closes_and_drops_what_it_touches_for_all_workers_and_nothing_of_other_origins() {
    for written in ORIGINS {
        // Of the leased keys and of the stored ones.
        for number in [7, KEYS + 7] {
            for scope in scopes(written, number) {
                for end in [End::Applied, End::Refused, End::Lost] {
                    check(written, number, scope, end);
                }
            }
        }
    }
}

/// What is compared with the origin counts the writes since the request, and those of other origins
/// explain no difference.
#[test]
fn a_write_to_one_origin_is_not_counted_by_another() {
    let mut world = World::new(ORIGINS.map(portion).to_vec());
    for (written, writes) in [("one", 1), ("other", 0)] {
        for scope in scopes(written, 7) {
            let bytes = 7_u64.to_le_bytes();
            let key = Key::new(namespace("one"), &bytes);
            let lease = world.storage.lease(key).expect("nothing is under way");
            let write = world.storage.write_sent(scope);
            world.storage.write_settled(write, Outcome::Applied);
            let question = Question { key, variant: b"", principal: Some(&world.principal) };
            let seen = world.storage.compare(lease, question, Duration::ZERO, |_| {});
            assert_eq!(seen, writes, "{scope:?} of {written}");
        }
    }
}
