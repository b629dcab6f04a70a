//! Runs an operation for many nodes, with limited concurrency.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Number of nodes contacted at once, with a thread and a connection each. Requests are short and
/// mostly waiting, so there are more threads than cores.
const AT_ONCE_MAX: usize = 64;

/// Runs `act` for all `items`, [`AT_ONCE_MAX`] at once; returns the results in order.
pub(super) fn wave<T: Sync, R: Send>(items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, act(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let more = 1..items.len().min(AT_ONCE_MAX);
        let more: Vec<_> = more.map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for thread in more {
            done.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn many_are_done_at_once_and_answers_keep_their_order() {
        let all: Vec<usize> = (0..AT_ONCE_MAX * 3).collect();
        // A barrier: all must be running at once.
        let barrier = Barrier::new(AT_ONCE_MAX);
        let doubled = wave(&all, |number| {
            barrier.wait();
            number * 2
        });
        assert_eq!(doubled, all.iter().map(|number| number * 2).collect::<Vec<_>>());
        assert!(wave(&[] as &[usize], |number| *number).is_empty());
    }
}
