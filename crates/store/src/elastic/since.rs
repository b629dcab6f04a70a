//! Pauses measured by a clock that may be set back.

use std::time::Duration;

/// The moment a pause began.
///
/// The times of a store are wall-clock times, because expiries outlive the process. If the clock is
/// set back by an hour, a write must not be delayed by an hour, so a pause that begins in the
/// future has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Since(Duration);

impl Since {
    pub(super) fn new(now: Duration) -> Self {
        Self(now)
    }

    /// True once `pause` has passed, or the clock was set back.
    pub(super) fn is_over(self, pause: Duration, now: Duration) -> bool {
        now < self.0 || now >= self.0 + pause
    }

    /// Time at which `pause` will have passed, unless the clock is set.
    pub(super) fn end(self, pause: Duration) -> Duration {
        self.0 + pause
    }

    /// Time that has passed; zero if the clock was set back.
    pub(super) fn elapsed(self, now: Duration) -> Duration {
        now.saturating_sub(self.0)
    }
}
