//! Counters of a path.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one direction of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Bytes delivered.
    pub bytes: u64,
    /// Packets which entered; for a relay, the pieces a stream was read in.
    pub packets: u64,
    /// Packets or segments lost on the way, including losses by a cut.
    pub lost: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Bytes on the way now.
    pub queued_bytes: u64,
}

/// Counters of a path. The caller records the time of the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// From the client to the server, or from side a to side b.
    pub up: DirectionStats,
    /// The other way.
    pub down: DirectionStats,
    /// Connections accepted so far (relay only).
    pub connections: u64,
    /// Connections open now (relay only).
    pub connections_open: u64,
}

impl LinkStats {
    /// One line about the traffic since `earlier`, which was `elapsed` ago.
    pub fn since(&self, earlier: &Self, elapsed: Duration) -> impl fmt::Display + use<> {
        let (now, then) = (*self, *earlier);
        fmt::from_fn(move |f| {
            write!(f, "up {}", Rate(&now.up, &then.up, elapsed))?;
            write!(f, "; down {}", Rate(&now.down, &then.down, elapsed))?;
            if now.connections > 0 {
                write!(f, "; connections {} open", now.connections_open)?;
            }
            Ok(())
        })
    }
}

struct Rate<'a>(&'a DirectionStats, &'a DirectionStats, Duration);

impl fmt::Display for Rate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(now, then, elapsed) = self;
        let bits = (now.bytes - then.bytes) as f64 * 8.0;
        let megabits_per_second = bits / 1e6 / elapsed.as_secs_f64().max(1e-9);
        let packets = now.packets - then.packets;
        write!(f, "{megabits_per_second:.2} Mbit/s, {packets} packets")?;
        write!(f, ", {} lost, {} dropped", now.lost - then.lost, now.dropped - then.dropped)?;
        write!(f, ", {} bytes queued", now.queued_bytes)
    }
}

impl fmt::Display for LinkStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, way) in [("up", &self.up), ("down", &self.down)] {
            writeln!(
                f,
                "{name:<5} {} bytes, {} packets, {} lost, {} dropped, {} bytes queued",
                way.bytes, way.packets, way.lost, way.dropped, way.queued_bytes
            )?;
        }
        if self.connections > 0 {
            writeln!(f, "connections {} ({} open)", self.connections, self.connections_open)?;
        }
        Ok(())
    }
}

/// The counters behind [`DirectionStats`]: written by the thread which moves the bytes, read by
/// any. They are independent of each other, hence relaxed.
#[derive(Debug, Default)]
pub(super) struct DirectionCounters {
    pub(super) bytes: AtomicU64,
    pub(super) packets: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) queued_bytes: AtomicU64,
}

impl DirectionCounters {
    fn snapshot(&self) -> DirectionStats {
        DirectionStats {
            bytes: self.bytes.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            queued_bytes: self.queued_bytes.load(Ordering::Relaxed),
        }
    }
}

/// The counters behind [`LinkStats`].
#[derive(Debug, Default)]
pub(super) struct LinkCounters {
    pub(super) up: DirectionCounters,
    pub(super) down: DirectionCounters,
    pub(super) connections: AtomicU64,
    pub(super) connections_open: AtomicU64,
}

impl LinkCounters {
    pub(super) fn snapshot(&self) -> LinkStats {
        LinkStats {
            up: self.up.snapshot(),
            down: self.down.snapshot(),
            connections: self.connections.load(Ordering::Relaxed),
            connections_open: self.connections_open.load(Ordering::Relaxed),
        }
    }
}

/// Adds to a counter that only one thread writes.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Subtracts from a gauge that only one thread writes.
pub(super) fn take(gauge: &AtomicU64, amount: u64) {
    gauge.fetch_sub(amount, Ordering::Relaxed);
}
