//! What the process takes of the machine's memory, for the services that keep within a budget.
//!
//! Decision: `docs/decisions/0058-process-memory-limits.md`.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    sync::OnceLock,
};

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

/// Error if the machine has less memory than this process of `bytes`; `None` if it has enough, or
/// if the system does not report it.
pub fn lacks(bytes: u64) -> Option<String> {
    let machine = machine_bytes()?;
    (bytes > machine).then(|| {
        format!(
            "the process would use up to {bytes} bytes with this value, the machine has {machine}; \
             reduce it"
        )
    })
}

/// Memory of the machine, in bytes; `None` if the system does not report it.
fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_larger_than_the_machine_is_named_with_both_sizes() {
        let machine = machine_bytes().expect("Linux says");
        assert!(machine > 1 << 20, "{machine}");
        assert_eq!(lacks(machine), None);
        let told = lacks(machine + 1).expect("too large");
        let sizes = [machine + 1, machine].map(|bytes| bytes.to_string());
        assert!(sizes.iter().all(|size| told.contains(size)), "{told}");
    }
}
