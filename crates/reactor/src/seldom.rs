//! Log lines about what may happen often.

use std::time::{Duration, Instant};

/// A log line that is written once per interval, however often there is a reason for it.
#[derive(Debug)]
pub struct Seldom {
    pause: Duration,
    at: Option<Instant>,
    since: u64,
}

impl Seldom {
    /// A line that is written at most once in `pause`.
    #[must_use]
    pub const fn new(pause: Duration) -> Self {
        Self { pause, at: None, since: 0 }
    }

    /// Counts a reason; how many there were since the last line, if another is due.
    pub fn note(&mut self, now: Instant) -> Option<u64> {
        self.since += 1;
        let due = self.at.is_none_or(|at| now.saturating_duration_since(at) >= self.pause);
        due.then(|| {
            self.at = Some(now);
            std::mem::take(&mut self.since)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_were_left_out() {
        let start = Instant::now();
        let mut seldom = Seldom::new(Duration::from_secs(10));
        let noted =
            [0, 1, 9, 10, 11, 30].map(|second| seldom.note(start + Duration::from_secs(second)));
        assert_eq!(noted, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
