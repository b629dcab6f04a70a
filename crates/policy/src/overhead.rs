//! What the process has resident beside its shards, measured: code, threads, connections, and what
//! the heap keeps. The shards get the rest of the budget, so that the whole stays within it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What threads, connections and reads from the disk need, before anything is measured.
const HEAP_BYTES: u64 = 2 << 20;
/// A part of the budget that is set aside: what is measured is always a little late.
const RESERVE: u64 = 32;
/// The shards keep at least this part of the budget.
const SHARDS_LEAST: u64 = 8;
/// Part of a decrease that is applied at once.
const DECAY: u64 = 1_024;

/// Minimum change that is passed to the shards: every growth makes them read ahead.
const STEP_BYTES: u64 = 1 << 20;

/// Memory the process needs beside its shards.
pub struct Overhead {
    /// Current estimate.
    bytes: AtomicU64,
    /// Value last passed to the shards.
    told: AtomicU64,
    /// Kept free for what clients keep waiting, which comes at any moment: shards give memory back
    /// a little later than it is needed.
    clients: u64,
}

impl Overhead {
    /// The process has `resident` bytes before its shards are opened; its clients may keep
    /// `clients`.
    pub fn new(resident: u64, clients: u64) -> Self {
        let bytes = resident + HEAP_BYTES;
        Self { bytes: AtomicU64::new(bytes), told: AtomicU64::new(bytes), clients }
    }

    /// What of `bytes` for the whole process the shards may have.
    pub fn for_shards(&self, bytes: u64) -> u64 {
        let taken = self.told.load(Relaxed) + self.clients + bytes / RESERVE;
        bytes.saturating_sub(taken).max(bytes / SHARDS_LEAST)
    }

    /// Whether the shards could not have `wanted` of `bytes` for the whole process if it had
    /// `measured` resident beside them and what clients keep.
    #[must_use]
    pub fn exceeds(&self, measured: u64, bytes: u64, wanted: u64) -> bool {
        wanted + measured + self.clients + bytes / RESERVE > bytes
    }

    /// The budget for the whole process that gives the shards `bytes`.
    pub fn for_process(&self, bytes: u64) -> u64 {
        (bytes + self.told.load(Relaxed) + self.clients) / (RESERVE - 1) * RESERVE
    }

    /// Notes what the process has resident, and what of it the shards know of and clients keep
    /// waiting, in bytes; true if it has changed by enough to inform the shards.
    pub fn measure(&self, resident: u64, shards: u64, clients: u64) -> bool {
        let before = self.bytes.load(Relaxed);
        let measured = resident.saturating_sub(shards + clients);
        // Increases are applied at once, decreases slowly, because usage varies with the load.
        let now = if measured > before { measured } else { before - (before - measured) / DECAY };
        self.bytes.store(now, Relaxed);
        let tell = now.abs_diff(self.told.load(Relaxed)) >= STEP_BYTES;
        if tell {
            self.told.store(now, Relaxed);
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn shards_get_what_the_process_does_not_need() {
        let overhead = Overhead::new(6 * MIB, 8 * MIB);
        assert_eq!(overhead.for_shards(64 * MIB), 46 * MIB);
        assert!(overhead.measure(60 * MIB, 46 * MIB, 0));
        assert_eq!(overhead.for_shards(64 * MIB), 40 * MIB);
        assert!(overhead.exceeds(14 * MIB + 1, 64 * MIB, 40 * MIB));
        assert!(!overhead.exceeds(14 * MIB, 64 * MIB, 40 * MIB));
        // What clients keep waiting has its place already.
        assert!(!overhead.measure(62 * MIB, 40 * MIB, 8 * MIB));
        // A short decrease is not applied at once.
        assert!(!overhead.measure(46 * MIB, 40 * MIB, 0));
        assert_eq!(overhead.for_shards(64 * MIB), 40 * MIB);
        for _ in 0..20_000 {
            overhead.measure(46 * MIB, 40 * MIB, 0);
        }
        assert!(overhead.for_shards(64 * MIB) >= 46 * MIB);
        // However little there is, the shards keep a part.
        overhead.measure(64 * MIB, 0, 0);
        assert_eq!(overhead.for_shards(64 * MIB), 8 * MIB);
        let overhead = Overhead::new(6 * MIB, 8 * MIB);
        let shards = overhead.for_shards(512 * MIB);
        assert!(overhead.for_process(shards).abs_diff(512 * MIB) < 64);
    }
}
