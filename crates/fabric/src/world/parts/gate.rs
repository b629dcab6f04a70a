//! Where the parts of a run wait for one another.

use std::{
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

/// Number of looks before a waiting part lets others have its core.
const LOOKS: u32 = 2_000;

/// A barrier for waits of microseconds.
#[derive(Debug, Default)]
pub(super) struct Gate {
    arrived: AtomicU64,
    closed: AtomicBool,
}

/// A part has failed.
pub(super) struct Closed;

impl Gate {
    /// Waits until all `parts` have arrived for the `turn`-th time, counted from 1.
    pub(super) fn wait(&self, parts: usize, turn: u64) -> Result<(), Closed> {
        let all = parts as u64 * turn;
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0;
        while self.arrived.load(Ordering::Acquire) < all {
            if self.closed.load(Ordering::Acquire) {
                return Err(Closed);
            }
            looks += 1;
            if looks < LOOKS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// Ends all waiting.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
