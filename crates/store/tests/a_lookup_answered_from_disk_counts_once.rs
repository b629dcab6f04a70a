//! A lookup that waited for the disk finds its entry in memory when its command resumes. This is
//! the same lookup: it is counted once, and is no use of the value for the replacement policy.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::Run;
use store::Faults;
use store::elastic::{Elastic, Load, Stats, Warming};

const KEYS: u64 = 3000;
/// Lower keys share their hashes, and may take two reads.
const FIRST: u64 = 12;
const VALUE_BYTES: usize = 1024;

/// A store whose memory holds only a part of the entries.
fn store() -> Run {
    let mut run =
        Run::with(1, Faults::default(), |config| config.warming = Warming::Off).expect("opens");
    (run.clears, run.frozen) = (false, true);
    run.store.rescale(Elastic::MEMORY_BYTES_MIN);
    for number in FIRST..FIRST + KEYS {
        run.put_value(number, &[number as u8; VALUE_BYTES]);
        run.settle();
    }
    run
}

/// Looks up these keys in turn; returns the counters that changed.
fn look_up(run: &mut Run, keys: impl Iterator<Item = u64>) -> Stats {
    let before = run.store.stats();
    keys.for_each(|number| drop(run.fetch_number(number)));
    let after = run.store.stats();
    Stats {
        hits: after.hits - before.hits,
        record_reads: after.record_reads - before.record_reads,
        ..after
    }
}

#[test]
fn in_the_counters_and_in_the_curve() {
    let mut run = store();
    // A cyclic pattern that is larger than memory.
    let counted = look_up(&mut run, (0..8).flat_map(|_| FIRST..FIRST + KEYS));
    assert!(counted.entries_in_memory < KEYS / 2, "{counted:?}");
    assert_eq!(counted.hits + counted.record_reads, 8 * KEYS, "{counted:?}");
    assert!(counted.record_reads > 4 * KEYS, "{counted:?}");
    let advice = run.store.advice();
    let part = advice.lookups_sampled as f64 / (8 * KEYS) as f64;
    // The curve samples one key in sixteen, chosen by its hash.
    assert!((0.04..0.09).contains(&part), "{part}: {advice:?}");
    let little = advice.fixed_bytes + 100 * VALUE_BYTES;
    assert!(advice.hit_ratio(little) < 0.05, "{advice:?}");
}

#[test]
fn however_many_wait_for_one_read() {
    let mut run = store();
    let rounds = 8;
    for _ in 0..rounds {
        for number in FIRST..FIRST + KEYS {
            let key = elastic::key(number);
            let mut tickets = Vec::new();
            for _ in 0..4 {
                if let Load::Pending(ticket) = run.store.load_to_read(&key, run.now) {
                    tickets.push(ticket);
                }
            }
            run.settle();
            for ticket in tickets {
                assert!(matches!(run.store.load_to_read(&key, run.now), Load::Present));
                run.store.release(ticket);
            }
        }
    }
    let advice = run.store.advice();
    let part = advice.lookups_sampled as f64 / (4 * rounds * KEYS) as f64;
    assert!((0.04..0.09).contains(&part), "{part}: {advice:?}");
}

#[test]
fn and_is_no_use_of_the_value() {
    let mut run = store();
    let in_memory = run.store.stats().entries_in_memory;
    let used = FIRST;
    look_up(&mut run, [used, used].into_iter());
    // All others are read from disk once: SIEVE keeps the one that was used.
    look_up(&mut run, FIRST + 1..FIRST + 1 + in_memory * 3 / 2);
    let again = look_up(&mut run, std::iter::once(used));
    assert_eq!((again.hits, again.record_reads), (1, 0));
}
