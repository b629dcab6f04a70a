//! Memory for transfers past the page cache.
//!
//! The disk receives memory in pieces: each page separately, unless consecutive pages are also
//! consecutive in physical memory. A read into two pieces takes a fifth longer than a read into one
//! (docs/decisions/0010). Short transfers therefore use places in one huge page, every part of
//! which is one piece. If the system has no huge page, ordinary pages are used.

use std::ops::{Deref, DerefMut};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::blocks::BLOCK_BYTES;
use crate::mapping::{HUGE_BYTES, Mapping};

/// Length of a place in the huge page: enough for a value of a few pages with its header.
const PLACE_BYTES: usize = 8 << 10;

/// Unused places, all in one huge page of the process, which is resident from its first use.
static PLACES: LazyLock<Mutex<Vec<&'static mut [u8]>>> = LazyLock::new(|| {
    // Twice as long, as it may begin anywhere.
    let mapping = Box::leak(Box::new(Mapping::<u8>::reserve(2 * HUGE_BYTES)));
    mapping.ask_for_huge_pages();
    let start = mapping.as_ptr().align_offset(HUGE_BYTES);
    Mutex::new(mapping[start..start + HUGE_BYTES].chunks_exact_mut(PLACE_BYTES).collect())
});

/// Aligned memory of one transfer.
#[derive(Debug)]
pub(crate) enum Aligned {
    /// A place in the huge page; `Some` until it is dropped.
    Place(Option<&'static mut [u8]>),
    /// A buffer of its own, and the offset of its aligned part.
    Own(Vec<u8>, usize),
}

impl Aligned {
    /// A place in the huge page for `bytes` bytes, if there is one.
    pub(crate) fn place(bytes: usize) -> Option<Self> {
        if bytes > PLACE_BYTES {
            return None;
        }
        let place = PLACES.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Self::Place(Some(place)))
    }

    /// Returns a buffer of at least `bytes` bytes.
    pub(crate) fn lend(bytes: usize) -> Self {
        Self::place(bytes).unwrap_or_else(|| {
            let memory = vec![0; bytes + BLOCK_BYTES];
            let start = memory.as_ptr().align_offset(BLOCK_BYTES);
            Self::Own(memory, start)
        })
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if let Self::Place(place) = self {
            PLACES.lock().unwrap_or_else(PoisonError::into_inner).extend(place.take());
        }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Place(place) => place.as_deref().unwrap_or_default(),
            Self::Own(memory, start) => &memory[*start..],
        }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Place(place) => place.as_deref_mut().unwrap_or_default(),
            Self::Own(memory, start) => &mut memory[*start..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_not_shared_also_when_all_places_are_lent() {
        let count = HUGE_BYTES / PLACE_BYTES + 2;
        let mut lent: Vec<Aligned> = (0..count).map(|_| Aligned::lend(8192)).collect();
        assert!(matches!(lent[count - 1], Aligned::Own(..)));
        for (number, memory) in lent.iter_mut().enumerate() {
            assert_eq!(memory.as_ptr().align_offset(BLOCK_BYTES), 0);
            memory[..8192].fill(number as u8);
        }
        for (number, memory) in lent.iter().enumerate() {
            assert!(memory[..8192].iter().all(|byte| *byte == number as u8), "{number}");
        }
        drop(lent);
        assert!(matches!(Aligned::lend(PLACE_BYTES), Aligned::Place(_)));
        assert!(Aligned::lend(PLACE_BYTES + 1).len() > PLACE_BYTES);
    }
}
