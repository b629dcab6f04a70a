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
    /// Without a reply of the switch, the request is repeated after this time, then each time after
    /// twice the previous time,
    pub resend: Duration,
    /// up to this maximum.
    pub resend_max: Duration,
    /// Maximum number of cached keys.
    pub cached_max: usize,
    /// Maximum number of writes held for one key; more are dropped, and their clients retry.
    pub held_max: usize,
    /// Number of retries of one request before the agent starts a new generation, as after a
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
    /// Answered reads, which are misses of the switch.
    pub reads: u64,
    /// Writes applied.
    pub writes: u64,
    /// Writes that had to wait for the switch.
    pub held: u64,
    /// Writes dropped because too many were held, or before the first reply of the switch.
    pub dropped: u64,
    /// Retransmitted writes that were applied before.
    pub repeated: u64,
    /// Values sent to the switch, retries included.
    pub updates: u64,
    /// Number of times that every key was dropped: the lease ended, or the switch did not reply.
    pub lapses: u64,
    /// Messages dropped because their senders may not send them.
    pub forged: u64,
}
