//! The end of a loop.

use std::time::{Duration, Instant};

/// The limited time of a loop after its end was asked for, in which clients take what is left for
/// them.
#[derive(Debug)]
pub struct Drain {
    limit: Duration,
    until: Option<Instant>,
}

impl Drain {
    /// At most `limit`, once it has begun.
    pub const fn new(limit: Duration) -> Self {
        Self { limit, until: None }
    }

    /// Begins it; whether it had not begun before.
    pub fn begin(&mut self) -> bool {
        let begins = self.until.is_none();
        self.until.get_or_insert_with(|| Instant::now() + self.limit);
        begins
    }

    /// What is left of the time, once it has begun.
    #[inline]
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Is the time over?
    pub fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}
