//! What the process takes of the machine's memory, for the services that keep within a budget.
//!
//! Decision: `docs/decisions/0058-process-memory-limits.md`.

use std::fs;

mod budget;
mod clients;
pub mod heap;
pub mod transit;

pub use budget::{Budget, CLIENTS_BYTES, Stored, process_bytes};
pub use clients::{COUNTED_BYTES, Clients};
pub use policy::Overhead;

/// Resident memory of the process, in bytes; `None` if the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
