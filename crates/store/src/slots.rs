//! Allocation of segment-sized slots of the arena.

/// A bitmap of slots, lowest free slot first, so that used slots stay together.
pub(crate) struct Slots {
    words: Vec<u64>,
    len: usize,
    /// No slot below this one is free.
    first: usize,
}

impl Slots {
    pub(crate) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len, first: 0 }
    }

    /// Takes the lowest `run` neighbouring free slots and returns the first of them.
    pub(crate) fn claim(&mut self, run: usize) -> Option<usize> {
        let start = self.find(run)?;
        for slot in start..start + run {
            self.words[slot / 64] |= 1 << (slot % 64);
        }
        if start == self.first {
            self.first = start + run;
        }
        Some(start)
    }

    /// Frees slots claimed before.
    pub(crate) fn free(&mut self, start: usize, run: usize) {
        for slot in start..start + run {
            self.words[slot / 64] &= !(1 << (slot % 64));
        }
        self.first = self.first.min(start);
    }

    fn find(&self, run: usize) -> Option<usize> {
        let mut start = self.first;
        let mut at = start;
        while at < self.len {
            let word = self.words[at / 64] >> (at % 64);
            if word == 0 && at.is_multiple_of(64) {
                at = (at + 64).min(self.len);
            } else if word & 1 == 0 {
                at += 1;
            } else {
                at += (!word).trailing_zeros().max(1) as usize;
                start = at;
                continue;
            }
            if at - start >= run {
                return Some(start);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_the_lowest_run_that_fits() {
        let mut slots = Slots::new(200);
        assert_eq!(slots.claim(1), Some(0));
        assert_eq!(slots.claim(3), Some(1));
        assert_eq!(slots.claim(1), Some(4));
        slots.free(1, 3);
        assert_eq!(slots.claim(4), Some(5));
        assert_eq!(slots.claim(2), Some(1));
        assert_eq!(slots.claim(1), Some(3));
        assert_eq!(slots.claim(190), Some(9));
        assert_eq!(slots.claim(2), None);
        assert_eq!(slots.claim(1), Some(199));
        assert_eq!(slots.claim(1), None);
    }

    #[test]
    fn finds_runs_across_words() {
        let mut slots = Slots::new(256);
        assert_eq!(slots.claim(60), Some(0));
        assert_eq!(slots.claim(130), Some(60));
        assert_eq!(slots.claim(67), None);
        assert_eq!(slots.claim(66), Some(190));
        slots.free(60, 130);
        assert_eq!(slots.claim(130), Some(60));
    }
}
