//! Notes for one thread, and the event that wakes it.

use std::{mem, sync::atomic::Ordering::SeqCst};

use super::sync::{AtomicBool, Mutex};

/// Wakes a thread that sleeps, or is about to.
pub(crate) trait Event {
    fn raise(&self);
}

/// Notes for one thread.
pub(crate) struct Notes<N, E> {
    notes: Mutex<Vec<N>>,
    event: E,
    /// The event was raised, and the thread has not looked since.
    raised: AtomicBool,
}

impl<N, E: Event> Notes<N, E> {
    pub(crate) fn with(event: E) -> Self {
        Self { notes: Mutex::default(), event, raised: AtomicBool::new(false) }
    }

    pub(crate) fn event(&self) -> &E {
        &self.event
    }

    /// Leaves a note.
    pub(crate) fn send(&self, note: N) {
        self.notes.lock().push(note);
        self.wake();
    }

    /// Makes the thread look around.
    pub(crate) fn wake(&self) {
        if !self.raised.swap(true, SeqCst) {
            self.event.raise();
        }
    }

    /// Moves what there is to `notes`, which is empty. The thread calls this whenever it was woken.
    pub(crate) fn take(&self, notes: &mut Vec<N>) {
        if self.raised.load(SeqCst) {
            // Before looking, so that a note left behind that raises the event again.
            self.raised.store(false, SeqCst);
            mem::swap(&mut *self.notes.lock(), notes);
        }
    }
}
