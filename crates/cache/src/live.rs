//! Settings that are replaced while sessions use them.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;

/// Settings of a listener, which can be replaced at any time.
///
/// A session keeps what it has [`Seen`] and asks with each request only whether the version is
/// still the same, which no other thread writes: a lock would pass between the processors with
/// every read.
#[derive(Debug, Default)]
pub struct Live<T> {
    /// Changes with the settings, while they are locked.
    version: AtomicU64,
    value: RwLock<Arc<T>>,
}

impl<T> From<T> for Live<T> {
    fn from(value: T) -> Self {
        Self { version: AtomicU64::new(0), value: RwLock::new(Arc::new(value)) }
    }
}

impl<T> Live<T> {
    /// The settings now in force.
    #[must_use]
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.value.read())
    }

    /// Replaces them: the next request of every session is judged by `value`.
    pub fn set(&self, value: T) {
        self.change(|before| *before = Arc::new(value));
    }

    /// Replaces them by what `next` makes of them; if that is nothing, they stay.
    pub fn update(&self, next: impl FnOnce(&T) -> Option<T>) {
        self.change(|before| {
            if let Some(next) = next(before) {
                *before = Arc::new(next);
            }
        });
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Arc<T>) -> R) -> R {
        let mut value = self.value.write();
        let result = change(&mut value);
        self.version.fetch_add(1, Ordering::Release);
        result
    }
}

/// Settings as one session has seen them last.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    version: u64,
    value: Arc<T>,
}

impl<T> Seen<T> {
    pub(crate) fn of(live: &Live<T>) -> Self {
        let value = live.value.read();
        Self { version: live.version.load(Ordering::Acquire), value: Arc::clone(&value) }
    }

    /// Takes over the settings of `live` if they were changed, and returns whether they were. Call
    /// it with each request.
    #[inline]
    pub(crate) fn refresh(&mut self, live: &Live<T>) -> bool {
        let is_changed = self.version != live.version.load(Ordering::Acquire);
        if is_changed {
            *self = Self::of(live);
        }
        is_changed
    }
}

impl<T> Deref for Seen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
