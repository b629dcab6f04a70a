//! Storage that is larger than the processor's caches prefetches, and gives the same answers.

use std::{sync::Arc, time::Duration};

use crate::{
    key::{Key, Namespace},
    principal::{Finding, Principal, Proof, Standing},
    stats::Stats,
    storage::{
        Answer, Config, Given, Question, Storage,
        shards::{Handle, Shards},
    },
};

const NOW: Duration = Duration::from_secs(1);
const VALUE_BYTES: usize = 64 << 10;
/// With `VALUE_BYTES` each: 80 MiB.
const ITEMS: u32 = 1_280;

fn key(bytes: &[u8]) -> Key<'_> {
    Key::new(Namespace::new(0, "origin", b"shop", b"users"), bytes)
}

/// Returns the stored answer; on a miss, fills with `filled` or releases the lease.
fn read(
    storage: &mut Handle,
    principal: &Principal,
    number: u32,
    filled: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let bytes = number.to_le_bytes();
    let mut stored = None;
    let question = Question { key: key(&bytes), variant: b"", principal: Some(principal) };
    let answer = storage.read(question, None, NOW, |answer| stored = Some(answer.to_vec()));
    if let Answer::Miss(Ok(grant)) = answer {
        let Some(answer) = filled else {
            storage.release(grant.lease);
            return None;
        };
        let (key, variant, asked_at) = (key(&bytes), &b""[..], NOW);
        let given = Given { key, variant, principal, answer, asked_at, expires_at: None };
        storage.fill(grant.lease, given, NOW).expect("it is stored");
    }
    stored
}

#[test]
fn answers_are_the_same_with_keys_that_are_stored_and_that_are_not() {
    let mut config = Config::default();
    config.memory.bytes_max = 256 << 20;
    let shards = Arc::new(Shards::new(&config, 1));
    let mut storage = Handle::new(Arc::clone(&shards), Arc::new(Stats::default()));
    let mut standing = Standing::new(NOW);
    standing.settle(Finding::Proven(Proof::Unrestricted), NOW);
    let principal = standing.receiver().expect("proven").clone();

    shards.advance(NOW);
    assert!(!storage.prefetches(), "empty storage does not prefetch");
    let value = |number: u32| [number.to_le_bytes()[0]].repeat(VALUE_BYTES);
    for number in 0..ITEMS {
        assert_eq!(read(&mut storage, &principal, number, Some(&value(number))), None);
    }
    shards.advance(NOW);
    assert!(storage.prefetches(), "80 MiB of storage prefetch");
    // Every second key is absent.
    let numbers: Vec<u32> = (0..ITEMS).flat_map(|number| [number, number + ITEMS]).collect();
    for numbers in numbers.chunks(16) {
        let hashes: Vec<u64> =
            numbers.iter().map(|number| key(&number.to_le_bytes()).hash).collect();
        storage.prefetch(key(b"").namespace.origin, &hashes);
        for &number in numbers {
            let expected = (number < ITEMS).then(|| value(number));
            assert!(read(&mut storage, &principal, number, None) == expected, "{number}");
        }
    }
    shards.clear();
    shards.advance(NOW);
    assert!(!storage.prefetches(), "emptied storage does not prefetch");
}
