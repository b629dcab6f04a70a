//! Two faults at a time, drawn from a seed ([`seeds`](super::seeds)).

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Maximum delay before a fault begins.
const DELAY_MAX_MS: u64 = 300;
/// Maximum duration of a fault.
pub const LASTS_MAX_MS: u64 = 1_500;

/// Maximum factor by which a busy machine may exceed the requested number of rounds.
const TIMES_MAX: usize = 4;

/// The number of rounds until every ordered pair of `faults` faults has occurred.
pub const fn rounds(faults: usize) -> usize {
    faults * (faults - 1)
}

/// Numbers of the `rounds` rounds, and of further ones while the history does not prove enough: on
/// a busy machine clients do little in a round.
pub fn rounds_until(rounds: usize, says_enough: impl Fn() -> bool) -> impl Iterator<Item = usize> {
    (0..rounds * TIMES_MAX).take_while(move |&round| round < rounds || !says_enough())
}

/// The two faults of a round: every pair in turn.
pub fn pair<F: Copy>(faults: &[F], round: usize) -> [F; 2] {
    let first = round % faults.len();
    let second = (first + 1 + round / faults.len() % (faults.len() - 1)) % faults.len();
    [faults[first], faults[second]]
}

/// The delay before a fault, and its duration.
pub fn times(random: &mut Pcg64Mcg) -> (Duration, Duration) {
    let mut millis = |most: u64| Duration::from_millis(random.random_range(0..most));
    (millis(DELAY_MAX_MS), millis(LASTS_MAX_MS))
}

/// Runs two of the faults, every pair in turn, each in its own thread: the second often begins
/// during the first. Returns when both are over.
pub fn two_at_once<F: Copy + Debug + Send>(
    faults: &[F],
    round: usize,
    random: &mut Pcg64Mcg,
    suffer: impl Fn(F, Duration) + Sync,
) {
    thread::scope(|scope| {
        for fault in pair(faults, round) {
            let ((delay, lasts), suffer) = (times(random), &suffer);
            scope.spawn(move || {
                thread::sleep(delay);
                suffer(fault, lasts);
            });
        }
    });
}
