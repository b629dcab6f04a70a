//! Keeps a process within its memory: `memory` for stored data, and a documented base for
//! everything else.
//!
//! Waiting data of clients are counted as they change and have their own limit ([`Clients`]).
//! Everything else is measured, and storage shrinks by the amount that exceeds the base.

use std::time::Instant;

use tracing::info;

use super::{Clients, Overhead, heap, resident_bytes};

/// Maximum of data that all clients together may keep waiting: incomplete requests, unsent replies.
pub const CLIENTS_BYTES: usize = 64 << 20;
/// The base beside `memory`: what clients keep waiting, code, threads, connections, tables.
const BASE_BYTES: u64 = (CLIENTS_BYTES as u64) + (32 << 20);
/// The base grows by this part of `memory`.
const BASE_PART: u64 = 16;

/// Returning free heap memory takes at most one part in this many of the time, because other
/// threads wait while it runs.
const TRIM_PART: u32 = 50;

/// Maximum memory of a process with `memory` bytes of storage.
pub fn process_bytes(memory: u64) -> u64 {
    memory.saturating_add(memory / BASE_PART).saturating_add(BASE_BYTES)
}

/// Storage that can shrink.
pub trait Stored {
    /// Bytes that it was asked to keep at most.
    fn wanted(&self) -> u64;
    /// Bytes that it has.
    fn held(&self) -> u64;
    /// Limits it to `bytes` of the configured memory.
    fn grant(&self, bytes: u64);
}

/// Measures the process, and shrinks storage if needed.
pub struct Budget {
    overhead: Overhead,
    /// Time of the next attempt to return free heap memory.
    trims: Instant,
    gives_way: bool,
}

impl Budget {
    /// Creates the budget of a process that does not serve `clients` yet.
    pub fn new(clients: &Clients) -> Self {
        let overhead = Overhead::new(resident_bytes().unwrap_or(0), clients.share() as u64);
        Self { overhead, trims: Instant::now(), gives_way: false }
    }

    /// Measures resident memory, of which `process` bytes are allowed; call it often.
    pub fn keep(&mut self, stored: &impl Stored, clients: &Clients, process: u64) {
        let Some(mut resident) = resident_bytes() else { return };
        let (wanted, held, kept) = (stored.wanted(), stored.held(), clients.bytes() as u64);
        // Otherwise storage would shrink for free heap memory, which the next burst would occupy
        // again if it allocates other sizes.
        let is_tight = self.overhead.exceeds(resident.saturating_sub(held + kept), process, wanted);
        if is_tight && self.trims <= Instant::now() {
            resident = self.trim().unwrap_or(resident);
        }
        self.overhead.measure(resident, held, kept);
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

    /// Returns free heap memory to the system; gives the resident memory after that.
    fn trim(&mut self) -> Option<u64> {
        let began = Instant::now();
        heap::trim();
        self.trims = Instant::now() + began.elapsed() * TRIM_PART;
        resident_bytes()
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
