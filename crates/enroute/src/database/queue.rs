//! Work queue of a pool of threads.

use std::collections::VecDeque;

use super::sync::{Condvar, Mutex};

/// Work in the order in which it came.
pub(crate) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

struct Waiting<T> {
    work: VecDeque<T>,
    ended: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { work: VecDeque::new(), ended: false };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Adds work. If it is the only piece, a thread that serves the queue and will look at it next
    /// (`serves`) takes it, and no other is woken for it.
    pub(crate) fn push(&self, work: T, serves: bool) {
        let mut waiting = self.waiting.lock();
        waiting.work.push_back(work);
        if !serves || waiting.work.len() > 1 {
            self.changed.notify_one();
        }
    }

    /// Waits for the next piece; `None` once the queue has ended and is empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(next) = waiting.work.pop_front() {
                return Some(next);
            }
            if waiting.ended {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
    }

    /// Ends the queue after the queued work is done.
    pub(crate) fn end(&self) {
        self.waiting.lock().ended = true;
        self.changed.notify_all();
    }
}
