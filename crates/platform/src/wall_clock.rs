//! The wall clock.

use std::time::{Duration, SystemTime};

/// Time since the Unix epoch; zero if the clock is set before it.
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
