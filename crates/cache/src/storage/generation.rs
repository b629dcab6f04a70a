//! What stored keys begin with.

use crate::key::Key;

/// A generation as encoded before each stored key: seven bits a byte as in [`crate::variants`], so
/// most keys are one byte longer.
pub(super) struct Generation {
    bytes: [u8; GENERATION_BYTES_MAX],
    length: usize,
}

const GENERATION_BYTES_MAX: usize = 10;

impl Generation {
    pub(super) fn new(mut number: u64) -> Self {
        let mut generation = Self { bytes: [0; GENERATION_BYTES_MAX], length: 0 };
        for byte in &mut generation.bytes {
            generation.length += 1;
            *byte = number as u8 & 0x7f;
            number >>= 7;
            if number == 0 {
                break;
            }
            *byte |= 0x80;
        }
        generation
    }

    pub(super) fn before<'a>(&'a self, key: Key<'a>) -> store::Key<'a> {
        let prefix = self.bytes.get(..self.length).unwrap_or(&self.bytes);
        store::Key { prefix, bytes: key.bytes }
    }
}
