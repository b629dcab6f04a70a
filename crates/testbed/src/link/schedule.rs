//! Departure times of one direction of a path, as pure arithmetic.
//!
//! ```text
//! enters ──▶ queue ──▶ serialised at the rate ──▶ delay ± jitter ──▶ leaves
//!              │
//!              └ full, lost or cut: never leaves
//! ```
//!
//! It reads no clock, and all randomness comes from its seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Minimum retransmission timeout of Linux, in addition to the round trip (`TCP_RTO_MIN`).
const RETRANSMISSION_TIMEOUT_MIN: Duration = Duration::from_millis(200);

/// Number of segments that must arrive after a lost one before its sender detects the loss without
/// a timeout (RFC 5681, section 3.2: three duplicate acknowledgements).
const FAST_RETRANSMIT_SEGMENTS: usize = 3;

/// One direction of a path. The default is a perfect one.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// The time to cross the path, one way.
    pub delay: Duration,
    /// Maximum deviation from `delay`, in either direction, uniformly distributed.
    pub jitter: Duration,
    /// Bandwidth in bits per second; `None` is unbounded.
    pub bits_per_second: Option<u64>,
    /// Share of lost packets, 0.0 to 1.0.
    pub loss: f64,
    /// Length of the queue before the bottleneck, as the time to drain it. When it is full, a
    /// packet is dropped; a stream is held back instead.
    pub queue: Duration,
    /// Whether jitter may let a later packet overtake an earlier one. Not used for streams.
    pub reorder: bool,
    /// Share of packets that are duplicated, 0.0 to 1.0; the copies are delayed independently. Not
    /// used for streams.
    pub duplicate: f64,
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            bits_per_second: None,
            loss: 0.0,
            queue: Duration::from_millis(50),
            reorder: false,
            duplicate: 0.0,
        }
    }
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves the path at this time.
    Leaves(Duration),
    /// It is lost on the way.
    Lost,
    /// It is dropped, because the queue before the bottleneck is full.
    QueueFull,
}

/// Keeps the departure order equal to the order of entry: of one stream, or of all packets of a
/// direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    last: Duration,
}

impl Order {
    /// The earliest time, not before `at`, which keeps the order.
    pub(super) fn keep(&mut self, at: Duration) -> Duration {
        self.last = self.last.max(at);
        self.last
    }
}

/// State of one direction of a path.
#[derive(Debug)]
pub struct Schedule {
    config: PathConfig,
    random: Pcg64Mcg,
    /// The time at which the bottleneck has sent everything that has entered until now.
    link_free_at: Duration,
}

impl Schedule {
    /// An empty path. The same seed gives the same jitter and losses.
    #[must_use]
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Self { config, random: Pcg64Mcg::seed_from_u64(seed), link_free_at: Duration::ZERO }
    }

    /// The path as configured, live changes included.
    #[must_use]
    pub fn config(&self) -> &PathConfig {
        &self.config
    }

    /// Changes the one-way delay of data that enters from now on.
    pub fn set_delay(&mut self, delay: Duration) {
        self.config.delay = delay;
    }

    /// A packet of `bytes` enters the path.
    pub fn packet(&mut self, order: &mut Order, bytes: usize, now: Duration) -> Fate {
        if self.waiting(now) > self.config.queue {
            return Fate::QueueFull;
        }
        let sent_at = self.serialise(bytes, now);
        // A lost packet has used the bottleneck as well.
        if self.loses() {
            return Fate::Lost;
        }
        let leaves_at = sent_at + self.crossing();
        Fate::Leaves(if self.config.reorder { leaves_at } else { order.keep(leaves_at) })
    }

    /// Number of copies of the next packet.
    pub fn copies(&mut self) -> usize {
        let duplicate = self.config.duplicate;
        1 + usize::from(duplicate > 0.0 && self.random.random_bool(duplicate))
    }

    /// Bytes of a stream enter the path together. Calls `leave(bytes, at)` for each run of them
    /// that leaves together, in order, and returns how many segments were lost.
    ///
    /// A lost segment delays itself and all segments after it by the time of its retransmission:
    /// one `round_trip` when enough segments follow for the sender to detect the loss, else a
    /// timeout. The retransmission itself is never lost.
    pub fn stream(
        &mut self,
        order: &mut Order,
        bytes: usize,
        round_trip: Duration,
        now: Duration,
        mut leave: impl FnMut(usize, Duration),
    ) -> u64 {
        let crossing = self.crossing();
        if self.config.bits_per_second.is_none() && self.config.loss == 0.0 {
            leave(bytes, order.keep(now + crossing));
            return 0;
        }
        let segments = bytes.div_ceil(SEGMENT_BYTES);
        let mut lost = 0;
        for index in 0..segments {
            let segment = SEGMENT_BYTES.min(bytes - index * SEGMENT_BYTES);
            let mut leaves_at = self.serialise(segment, now) + crossing;
            if self.loses() {
                lost += 1;
                leaves_at += retransmission(segments - index - 1, round_trip);
            }
            leave(segment, order.keep(leaves_at));
        }
        lost
    }

    /// Returns the time at which the end of a stream, or a signal with no bytes of its own, leaves
    /// the path.
    pub fn signal(&mut self, order: &mut Order, now: Duration) -> Duration {
        let crossing = self.crossing();
        order.keep(now.max(self.link_free_at) + crossing)
    }

    /// Time at which a stream held back by a full queue may enter again; `None` is now.
    #[must_use]
    pub fn held_back_until(&self, now: Duration) -> Option<Duration> {
        let until = self.link_free_at.saturating_sub(self.config.queue);
        (until > now).then_some(until)
    }

    /// Returns the number of bytes of a stream that fit into the queue now: 0 while the stream is
    /// held back, else at least a segment.
    #[must_use]
    pub fn room_bytes(&self, now: Duration) -> usize {
        let Some(bits_per_second) = self.config.bits_per_second else { return usize::MAX };
        let room = self.config.queue.saturating_sub(self.waiting(now));
        if self.held_back_until(now).is_some() {
            return 0;
        }
        let bytes = room.as_secs_f64() * bits_per_second as f64 / 8.0;
        SEGMENT_BYTES.max(bytes as usize)
    }

    /// Current waiting time at the bottleneck.
    fn waiting(&self, now: Duration) -> Duration {
        self.link_free_at.saturating_sub(now)
    }

    fn serialise(&mut self, bytes: usize, now: Duration) -> Duration {
        let Some(bits_per_second) = self.config.bits_per_second else { return now };
        let nanoseconds = bytes as u128 * 8 * 1_000_000_000 / u128::from(bits_per_second.max(1));
        let sending = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.link_free_at = self.link_free_at.max(now).saturating_add(sending);
        self.link_free_at
    }

    fn loses(&mut self) -> bool {
        self.config.loss > 0.0 && self.random.random_bool(self.config.loss)
    }

    fn crossing(&mut self) -> Duration {
        let PathConfig { delay, jitter, .. } = self.config;
        if jitter.is_zero() {
            return delay;
        }
        let offset = self.random.random_range(0.0..=2.0);
        (delay + jitter.mul_f64(offset)).saturating_sub(jitter)
    }
}

/// Payload of a segment: an Ethernet frame less its IP and TCP headers and options.
pub(super) const SEGMENT_BYTES: usize = 1448;

/// Additional delay of a lost segment.
fn retransmission(segments_behind: usize, round_trip: Duration) -> Duration {
    if segments_behind >= FAST_RETRANSMIT_SEGMENTS {
        round_trip
    } else {
        round_trip + RETRANSMISSION_TIMEOUT_MIN
    }
}

#[cfg(test)]
mod tests;
