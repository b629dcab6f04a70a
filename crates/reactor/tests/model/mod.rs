//! Random thread schedules for the code that wakes sleeping threads: locks and atomics of `shuttle`
//! under the names of the product's, and an event that threads wait for. Files of the product that
//! import from `super::sync` are compiled with these.
//!
//! A missed wake-up occurs once in millions of operations, and never under a debugger. Therefore
//! there is one inbox (`reactor/src/inbox/notes.rs`), one queue (`database/queue.rs`) and one place
//! for the durable position (`database/durable.rs`), and each is tested here. The model runs one
//! thread at a time in a random schedule, half of them with few context switches, and prints how to
//! repeat a run. Orderings weaker than `SeqCst` are not explored. `loom` was rejected: it treats
//! `SeqCst` as release and acquire, and therefore reports correct code.

#![allow(dead_code, unused_imports)]

/// The model's counterpart of the program's `sync`.
pub(crate) mod sync {
    use std::ops::{Deref, DerefMut};

    use shuttle::sync as model;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64};

    #[derive(Default)]
    pub(crate) struct Mutex<T>(model::Mutex<T>);

    /// `None` only while its condition is waited for.
    pub(crate) struct Guard<'a, T>(Option<model::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(model::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().expect("not poisoned")))
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("it is held")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("it is held")
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(model::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            let held = guard.0.take().expect("it is held");
            guard.0 = Some(self.0.wait(held).expect("not poisoned"));
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// An edge-triggered event: a waiting thread is woken once for any number of raises.
#[derive(Default)]
pub(crate) struct Edge {
    raised: sync::Mutex<bool>,
    changed: sync::Condvar,
}

impl Edge {
    pub(crate) fn raise(&self) {
        *self.raised.lock() = true;
        self.changed.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut raised = self.raised.lock();
        while !*raised {
            self.changed.wait(&mut raised);
        }
        *raised = false;
    }
}

/// Number of schedules, unless `ORDERS` sets it.
const ORDERS: usize = 3_000;
/// In half of the schedules threads switch at most this often, at times drawn from the seed: this
/// finds faults that need an unlikely order.
const CHANGES: usize = 3;

/// Runs the threads of `model` one at a time, in many schedules.
pub(crate) fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    let orders = std::env::var("ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders = orders.unwrap_or(ORDERS) / 2;
    shuttle::check_pct(model.clone(), orders, CHANGES);
    shuttle::check_random(model, orders);
}
