//! The end of a loop.

use std::time::{Duration, Instant};

/// Time limit of a loop after shutdown is requested, in which clients read the remaining output.
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

    /// Begins it; returns false if it had begun before.
    pub fn begin(&mut self) -> bool {
        let begins = self.until.is_none();
        self.until.get_or_insert_with(|| Instant::now() + self.limit);
        begins
    }

    /// Returns the time left until the drain deadline, once the drain has begun.
    #[inline]
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether the time has elapsed.
    pub fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}
