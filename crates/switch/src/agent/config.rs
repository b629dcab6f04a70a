//! Settings and counters of an agent.

use std::time::Duration;

use wire::netcache::TAGS_AHEAD_MAX;

/// Limits and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Config {
    /// Lease: how long the switch may serve this server's keys after its request.
    pub lease: Duration,
    /// Safety margin after the lease: clock differences, and a packet in processing.
    pub margin: Duration,
    /// Without an answer of the switch, it is asked again after this time, then each time after
    /// twice the previous time,
    pub resend: Duration,
    /// but never longer.
    pub resend_max: Duration,
    /// Keys cached at most.
    pub cached_max: usize,
    /// Writes held for one key at most; more are dropped, and their clients ask again.
    pub held_max: usize,
    /// Times the switch is asked for one thing before the agent begins anew with it, as after a
    /// restart.
    pub tries_max: u32,
    /// Maximum distance of a tag from the newest version known of its key. A tag further ahead was
    /// not assigned by the switch and is ignored.
    pub tags_ahead_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(5),
            margin: Duration::from_millis(500),
            resend: Duration::from_millis(5),
            resend_max: Duration::from_millis(160),
            cached_max: 65_536,
            held_max: 64,
            tries_max: 64,
            tags_ahead_max: TAGS_AHEAD_MAX,
        }
    }
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Reads answered: misses of the switch.
    pub reads: u64,
    /// Writes applied.
    pub writes: u64,
    /// Writes that had to wait for the switch.
    pub held: u64,
    /// Writes dropped because too many were held, or nothing is known of the switch yet.
    pub dropped: u64,
    /// Writes that arrived again after they were applied.
    pub repeated: u64,
    /// Values sent to the switch, again included.
    pub updates: u64,
    /// Number of times the lease ended, or the switch did not answer, and every key was dropped.
    pub lapses: u64,
    /// Messages dropped that their senders may not send.
    pub forged: u64,
}
