//! Memory of a cleared tier, released in portions: releasing a gigabyte at once takes 60 ms.

use crate::mapping::Mapping;

/// Bytes of addresses released at a time, in about 15 microseconds.
const PORTION_BYTES: usize = 256 << 10;

struct Part {
    mapping: Mapping<u8>,
    /// Memory from this offset on is no longer resident.
    end: usize,
    /// Resident bytes before `end`, assuming that they are spread evenly.
    resident_bytes: usize,
}

/// Unused mappings.
#[derive(Default)]
pub(crate) struct Retired {
    parts: Vec<Part>,
}

impl Retired {
    /// Takes a mapping of which `resident_bytes` are resident, all before `end`.
    pub(crate) fn add(&mut self, mapping: Mapping<u8>, end: usize, resident_bytes: usize) {
        self.parts.push(Part { mapping, end, resident_bytes });
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.resident_bytes).sum()
    }

    /// Returns one portion to the system; false if there was none.
    pub(crate) fn release_some(&mut self) -> bool {
        let Some(part) = self.parts.last_mut() else { return false };
        let start = part.end.saturating_sub(PORTION_BYTES);
        part.mapping.release(start..part.end);
        part.resident_bytes =
            (part.resident_bytes as u128 * start as u128 / part.end.max(1) as u128) as usize;
        part.end = start;
        if start == 0 {
            self.parts.pop();
        }
        true
    }
}
