//! Keeps the process within its memory: `memory` for items, and a stated base for all else.
//!
//! What clients keep waiting is counted as it changes and has a share of its own. Beyond half of it each
//! client has less room; beyond all of it nothing is read until the client that keeps the most is
//! closed. Everything else is measured, and storage gives way to what passes the base.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{info, warn};

use super::Shards;
use crate::{
    logging::Seldom,
    memory::{self, Overhead, heap},
};

/// What all clients together may keep waiting: requests that are not whole, replies not taken.
const CLIENTS_BYTES: usize = 64 << 20;
/// The base beside `memory`: what clients keep waiting, code, threads, connections, tables.
const BASE_BYTES: u64 = (CLIENTS_BYTES as u64) + (32 << 20);
/// The base grows by this part of `memory`.
const BASE_PART: u64 = 16;

/// From here on much is kept.
const TIGHT_BYTES: usize = CLIENTS_BYTES / 2;
/// Room of each client's buffers while much is kept.
const TIGHT_ROOM_BYTES: usize = 64 << 10;
/// A client that keeps less than this is not closed while another one may keep more.
const GREEDY_BYTES: usize = CLIENTS_BYTES / 64;
/// A client that keeps less than this is not counted, and never closed.
pub(super) const COUNTED_BYTES: usize = 4 << 10;

/// Time between two lines about clients that were closed.
const TOLD_PAUSE: Duration = Duration::from_secs(10);
/// Time between two times that the heap gives back what it has free.
const TRIM_PAUSE: Duration = Duration::from_secs(1);

/// What the process takes at most with `memory` bytes for items.
pub fn process_bytes(memory: u64) -> u64 {
    memory.saturating_add(memory / BASE_PART).saturating_add(BASE_BYTES)
}

/// What clients keep waiting, all together.
pub(super) struct Clients {
    bytes: AtomicUsize,
    told: Mutex<Seldom>,
}

impl Default for Clients {
    fn default() -> Self {
        Self { bytes: AtomicUsize::new(0), told: Mutex::new(Seldom::new(TOLD_PAUSE)) }
    }
}

impl Clients {
    /// A client that kept `before` bytes now keeps `now`.
    pub(super) fn count(&self, before: usize, now: usize) {
        self.bytes.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Room of the buffers of each client now; 0 while nothing may be read.
    pub(super) fn room(&self) -> usize {
        match self.bytes() {
            ..TIGHT_BYTES => usize::MAX,
            TIGHT_BYTES..CLIENTS_BYTES => TIGHT_ROOM_BYTES,
            _ => 0,
        }
    }

    /// What a client must keep to be closed, where others were looked at before or not.
    pub(super) fn greedy(&self, others_are_not: bool) -> usize {
        if others_are_not { COUNTED_BYTES } else { GREEDY_BYTES }
    }

    /// Says that a client was closed which kept `bytes`; not for each, if there are many.
    pub(super) fn tell(&self, peer: std::net::SocketAddr, bytes: usize) {
        if let Some(closed) = self.told.lock().note(Instant::now()) {
            let all = self.bytes();
            warn!(
                %peer, closed,
                "closing the client that keeps the most: {bytes} of the {all} bytes that all clients \
                 keep waiting, and {CLIENTS_BYTES} may be; it should read replies sooner or ask for \
                 less at once"
            );
        }
    }
}

/// Measures the process, and lets storage give way.
pub(super) struct Budget {
    overhead: Overhead,
    trimmed: Instant,
    gives_way: bool,
}

impl Budget {
    /// For a process that has not begun to serve.
    pub(super) fn new() -> Self {
        let resident = memory::resident_bytes().unwrap_or(0);
        let overhead = Overhead::new(resident, CLIENTS_BYTES as u64);
        Self { overhead, trimmed: Instant::now(), gives_way: false }
    }

    /// Looks at what is resident; call it often.
    pub(super) fn keep(&mut self, shards: &Shards, clients: &Clients) {
        let Some(resident) = memory::resident_bytes() else { return };
        let wanted = shards.limits().bytes_max as u64;
        let process = process_bytes(wanted);
        if resident > process && self.trimmed.elapsed() >= TRIM_PAUSE {
            self.trimmed = Instant::now();
            heap::trim();
        }
        let held = shards.memory().accounted_bytes as u64;
        self.overhead.measure(resident, held, clients.bytes() as u64);
        let granted = self.overhead.for_shards(process).min(wanted);
        let gives_way = granted < wanted;
        if gives_way && !self.gives_way {
            info!(
                resident,
                granted, wanted, "storage gives way: all else takes more than its base"
            );
        }
        self.gives_way = gives_way;
        shards.grant(granted as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_shrinks_and_ends_before_the_share_is_spent() {
        let clients = Clients::default();
        assert_eq!(clients.room(), usize::MAX);
        clients.count(0, TIGHT_BYTES);
        assert_eq!(clients.room(), TIGHT_ROOM_BYTES);
        clients.count(100, TIGHT_BYTES + 100);
        assert_eq!(clients.room(), 0);
        clients.count(CLIENTS_BYTES, 0);
        assert_eq!((clients.bytes(), clients.room()), (0, usize::MAX));
    }

    #[test]
    fn an_idle_process_gives_storage_all_it_asks_for() {
        for memory in [1 << 20, 64 << 20, 8 << 30, 1 << 40] {
            let overhead = Overhead::new(24 << 20, CLIENTS_BYTES as u64);
            let granted = overhead.for_shards(process_bytes(memory));
            assert!(granted >= memory, "{granted} of {memory}");
        }
    }
}
