//! Notes for one thread, and the event that wakes it.

use std::{mem, sync::atomic::Ordering::SeqCst};

use super::sync::{AtomicBool, Mutex};

/// Wakes a thread that sleeps, or is about to.
pub trait Event {
    /// Wakes it.
    fn raise(&self);
}

/// Notes for one thread.
pub struct Notes<N, E> {
    notes: Mutex<Vec<N>>,
    event: E,
    /// The event was raised, and the thread has not looked since.
    raised: AtomicBool,
}

impl<N, E: Event> Notes<N, E> {
    /// No notes yet; `event` wakes the thread.
    pub fn with(event: E) -> Self {
        Self { notes: Mutex::default(), event, raised: AtomicBool::new(false) }
    }

    /// Returns the event that wakes the thread.
    pub fn event(&self) -> &E {
        &self.event
    }

    /// Adds a note.
    #[inline]
    pub fn send(&self, note: N) {
        self.notes.lock().push(note);
        self.wake();
    }

    /// Wakes the thread without a note.
    #[inline]
    pub fn wake(&self) {
        if !self.raised.swap(true, SeqCst) {
            self.event.raise();
        }
    }

    /// Moves all notes to `notes`, which is empty. The thread calls this after every wake-up.
    #[inline]
    pub fn take(&self, notes: &mut Vec<N>) {
        if self.raised.load(SeqCst) {
            // Before taking the notes, so that a note added later raises the event again.
            self.raised.store(false, SeqCst);
            mem::swap(&mut *self.notes.lock(), notes);
        }
    }
}
