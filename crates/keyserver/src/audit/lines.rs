//! Lines between the chain and the file: chained, and not yet written.

use std::{mem, time::Duration};

use super::{Chain, Entry};
use crate::Result;

/// Maximum number of bytes that wait for the next write.
const UNWRITTEN_BYTES_MAX: usize = 1 << 20;

/// The chained lines.
pub struct Lines {
    chain: Chain,
    /// Whole lines.
    unwritten: Vec<u8>,
    /// State of the chain after the last line in the file.
    written: Chain,
    /// State of the chain after the last line that was taken.
    taken: Chain,
    /// The buffer of written lines, for the next ones.
    spare: Vec<u8>,
    /// The last write failed. Then no line is added before one succeeds.
    failing: bool,
}

impl Lines {
    /// Continues a file whose last line left the chain so.
    #[must_use]
    pub fn new(chain: Chain) -> Self {
        Self {
            written: chain.clone(),
            taken: chain.clone(),
            chain,
            unwritten: Vec::new(),
            spare: Vec::new(),
            failing: false,
        }
    }

    /// State of the chain after the last line.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Whether the lines so far must be written before another is added.
    #[must_use]
    pub fn must_write_first(&self) -> bool {
        self.failing || self.unwritten.len() >= UNWRITTEN_BYTES_MAX
    }

    /// Adds a line; returns its number.
    pub fn append(&mut self, entry: &Entry<'_>) -> u64 {
        let line = self.chain.append(entry);
        self.unwritten.extend_from_slice(&line);
        self.chain.count
    }

    /// Whether line `number` is in the file.
    #[must_use]
    pub fn is_written(&self, number: u64) -> bool {
        number <= self.written.count
    }

    /// The lines to be written now; [`Lines::note`] takes back those that were not.
    pub fn take(&mut self) -> Vec<u8> {
        self.taken = self.chain.clone();
        mem::replace(&mut self.unwritten, mem::take(&mut self.spare))
    }

    /// Notes that of the lines `taken` the first `whole` bytes, which are whole lines, are in the
    /// file, and whether the write failed.
    pub fn note(&mut self, mut taken: Vec<u8>, whole: usize, failed: bool) {
        self.failing = failed;
        if whole == taken.len() {
            self.written = self.taken.clone();
            taken.clear();
            self.spare = taken;
            return;
        }
        let left = taken.split_off(whole);
        // Nothing written: the chain in the file is what it was.
        self.written = Chain::behind(&taken).unwrap_or_else(|_| self.written.clone());
        self.unwritten.splice(..0, left).for_each(drop);
    }

    /// Starts a new file with the unwritten lines.
    ///
    /// # Errors
    /// A line is invalid.
    pub fn begin_file(&mut self, at: Duration) -> Result<()> {
        let mut chain = self.written.clone();
        let mut unwritten = chain.begin_file(at);
        for line in self.unwritten.split_inclusive(|byte| *byte == b'\n') {
            unwritten.extend_from_slice(&chain.append_again(line)?);
        }
        (self.chain, self.unwritten) = (chain, unwritten);
        Ok(())
    }
}

/// Bytes of `lines` up to the end of the last whole line.
#[must_use]
pub fn whole(lines: &[u8]) -> usize {
    lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}
