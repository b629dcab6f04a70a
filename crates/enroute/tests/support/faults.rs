//! Two faults at a time, drawn from a seed ([`seeds`](super::seeds)).

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Longest wait before a fault begins.
const DELAY_MAX_MS: u64 = 300;
/// Longest time that one lasts.
pub const LASTS_MAX_MS: u64 = 1_500;

/// How many times as many rounds as asked a busy machine is given.
const TIMES_MAX: usize = 4;

/// Returns the number of rounds until every ordered pair of `faults` faults has occurred.
pub const fn rounds(faults: usize) -> usize {
    faults * (faults - 1)
}

/// Numbers of the `rounds` rounds, and of more while the history of them does not say enough: on a
/// busy machine clients do little in a round.
pub fn rounds_until(rounds: usize, says_enough: impl Fn() -> bool) -> impl Iterator<Item = usize> {
    (0..rounds * TIMES_MAX).take_while(move |&round| round < rounds || !says_enough())
}

/// Two of them: every pair in turn.
pub fn pair<F: Copy>(faults: &[F], round: usize) -> [F; 2] {
    let first = round % faults.len();
    let second = (first + 1 + round / faults.len() % (faults.len() - 1)) % faults.len();
    [faults[first], faults[second]]
}

/// After what time a fault begins, and how long it lasts.
pub fn times(random: &mut Pcg64Mcg) -> (Duration, Duration) {
    let mut millis = |most: u64| Duration::from_millis(random.random_range(0..most));
    (millis(DELAY_MAX_MS), millis(LASTS_MAX_MS))
}

/// Two of them, every pair in turn, each in a thread of its own: the second often begins while the
/// first lasts. Returns when both are over.
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
