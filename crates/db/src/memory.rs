//! Division of the memory of the whole process.

/// Minimum memory budget of the whole process: code, threads, log buffers and a small part for
/// everything else.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;

/// Maximum of data that all clients together may keep waiting if the whole process may use
/// `memory_bytes`: incomplete requests, commands queued by MULTI, unsent replies. No single reply
/// is longer than half of it, and no command reads more than half of it from disk.
pub fn clients_bytes_max(memory_bytes: u64) -> usize {
    CLIENTS_BYTES_MIN + usize::try_from(memory_bytes / CLIENTS_SHARE).unwrap_or(usize::MAX / 2)
}

/// Twice the longest value.
const CLIENTS_BYTES_MIN: usize = 8 << 20;
const CLIENTS_SHARE: u64 = 32;
