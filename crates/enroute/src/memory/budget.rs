//! Keeps a process within its memory: `memory` for what is stored, and a stated base for all else.
//!
//! Waiting data of clients are counted as they change and have their own limit ([`Clients`]).
//! Everything else is measured, and storage shrinks by the amount that exceeds the base.

use std::time::{Duration, Instant};

use tracing::info;

use super::{Clients, Overhead, heap, resident_bytes};

/// What all clients together may keep waiting: requests that are not whole, replies not taken.
pub(crate) const CLIENTS_BYTES: usize = 64 << 20;
/// The base beside `memory`: what clients keep waiting, code, threads, connections, tables.
const BASE_BYTES: u64 = (CLIENTS_BYTES as u64) + (32 << 20);
/// The base grows by this part of `memory`.
const BASE_PART: u64 = 16;

/// Time between two times that the heap gives back what it has free.
const TRIM_PAUSE: Duration = Duration::from_secs(1);

/// What a process takes at most with `memory` bytes for what it stores.
pub(crate) fn process_bytes(memory: u64) -> u64 {
    memory.saturating_add(memory / BASE_PART).saturating_add(BASE_BYTES)
}

/// Storage that can shrink.
pub(crate) trait Stored {
    /// Bytes that it was asked to keep at most.
    fn wanted(&self) -> u64;
    /// Bytes that it has.
    fn held(&self) -> u64;
    /// Limits it to `bytes` of the configured memory.
    fn grant(&self, bytes: u64);
}

/// Measures the process, and shrinks storage if needed.
pub(crate) struct Budget {
    overhead: Overhead,
    trimmed: Instant,
    gives_way: bool,
}

impl Budget {
    /// For a process that has not begun to serve `clients`.
    pub(crate) fn new(clients: &Clients) -> Self {
        let overhead = Overhead::new(resident_bytes().unwrap_or(0), clients.share() as u64);
        Self { overhead, trimmed: Instant::now(), gives_way: false }
    }

    /// Looks at what is resident, of which there may be `process`; call it often.
    pub(crate) fn keep(&mut self, stored: &impl Stored, clients: &Clients, process: u64) {
        let Some(resident) = resident_bytes() else { return };
        if resident > process && self.trimmed.elapsed() >= TRIM_PAUSE {
            self.trimmed = Instant::now();
            heap::trim();
        }
        let wanted = stored.wanted();
        self.overhead.measure(resident, stored.held(), clients.bytes() as u64);
        let granted = self.overhead.for_shards(process).min(wanted);
        let gives_way = granted < wanted;
        if gives_way && !self.gives_way {
            info!(
                resident,
                granted,
                wanted,
                "storage shrinks: the rest of the process exceeds its share of the memory"
            );
        }
        self.gives_way = gives_way;
        stored.grant(granted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_process_gives_storage_all_it_asks_for() {
        for memory in [1 << 20, 64 << 20, 8 << 30, 1 << 40] {
            let overhead = Overhead::new(24 << 20, CLIENTS_BYTES as u64);
            let granted = overhead.for_shards(process_bytes(memory));
            assert!(granted >= memory, "{granted} of {memory}");
        }
    }
}
