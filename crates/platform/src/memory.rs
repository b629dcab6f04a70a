//! What the process takes of the machine's memory, for the services that keep within a budget.
//!
//! Decision: `docs/decisions/0058-process-memory-limits.md`.

use std::{fs::File, os::unix::fs::FileExt, sync::OnceLock};

mod budget;
mod clients;
pub mod heap;
pub mod transit;

pub use budget::{Budget, CLIENTS_BYTES, Stored, process_bytes};
pub use clients::{COUNTED_BYTES, Clients};
pub use policy::Overhead;

/// Longer than the seven numbers of `/proc/self/statm`.
const STATM_BYTES: usize = 192;

/// Resident memory of the process, in bytes; `None` if the system does not report it.
///
/// The services call it many times a second: the file stays open, and a reading is one system call.
pub fn resident_bytes() -> Option<u64> {
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut text = [0; STATM_BYTES];
    let count = file.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(text.get(..count)?).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
