//! Limit of concurrent operations per target.

use std::collections::HashMap;

use parking_lot::{Condvar, Mutex};
use state::Node;

/// Sources that one target takes slots from at once: the keys of each wait for those of the others,
/// and a source serves no client while it waits in MIGRATE.
const SOURCES_MAX: usize = 16;

/// Limits the moves to each target.
#[derive(Default)]
pub(super) struct Gates {
    busy: Mutex<HashMap<Node, usize>>,
    left: Condvar,
}

impl Gates {
    /// Runs `act` when the target is below the limit.
    pub(super) fn pass<T>(&self, target: Node, act: impl FnOnce() -> T) -> T {
        let mut busy = self.busy.lock();
        while busy.get(&target).is_some_and(|busy| *busy >= SOURCES_MAX) {
            self.left.wait(&mut busy);
        }
        *busy.entry(target).or_default() += 1;
        drop(busy);
        let outcome = act();
        if let Some(busy) = self.busy.lock().get_mut(&target) {
            *busy -= 1;
        }
        self.left.notify_all();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        thread,
    };

    use super::*;

    #[test]
    fn no_more_than_a_few_are_at_a_target_at_once() {
        let (gates, at_once, most) = (Gates::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        // The limit is reached at both targets before any operation ends.
        let full = Barrier::new(2 * SOURCES_MAX);
        thread::scope(|scope| {
            for number in 0..6 * SOURCES_MAX {
                let (gates, at_once, most, full) = (&gates, &at_once, &most, &full);
                scope.spawn(move || {
                    gates.pass(Node((number % 2) as u16), || {
                        most.fetch_max(at_once.fetch_add(1, SeqCst) + 1, SeqCst);
                        full.wait();
                        at_once.fetch_sub(1, SeqCst);
                    });
                });
            }
        });
        assert_eq!((most.into_inner(), at_once.into_inner()), (2 * SOURCES_MAX, 0));
    }
}
