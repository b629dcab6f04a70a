//! A direct-mapped cache of (virtual address, physical address, access bit).

use alloc::{boxed::Box, vec};

/// The location of a virtual address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapping {
    /// The virtual address; 0 also reads as "empty line" and is never reported as evicted.
    pub vip: u32,
    /// The physical address, 1 to [`Mapping::PIP_MAX`]; 0 is none.
    pub pip: u32,
}

impl Mapping {
    /// No mapping.
    pub const NONE: Self = Self { vip: 0, pip: 0 };
    /// The largest physical address: the top bit is the access bit's.
    pub const PIP_MAX: u32 = ACCESSED - 1;

    /// Whether there is one.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.pip != 0
    }
}

const ACCESSED: u32 = 1 << 31;

/// The lines of one switch (§3.2, "cache structure").
#[derive(Debug, Clone, Default)]
pub struct Cache {
    lines: Box<[Line]>,
    reciprocal: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Line {
    vip: u32,
    pip_and_access: u32,
}

impl Line {
    fn holds(self, vip: u32) -> bool {
        self.vip == vip && self.pip_and_access & !ACCESSED != 0
    }

    fn mapping(self) -> Mapping {
        Mapping { vip: self.vip, pip: self.pip_and_access & !ACCESSED }
    }
}

impl Cache {
    /// A cache of this many empty lines; one of none never holds anything.
    #[must_use]
    pub fn new(entries: u32) -> Self {
        let reciprocal =
            if entries == 0 { 0 } else { (u64::MAX / u64::from(entries)).wrapping_add(1) };
        Self { lines: vec![Line::default(); entries as usize].into_boxed_slice(), reciprocal }
    }

    /// The line of a hash: its remainder by the number of lines, without a division.
    fn index(&self, hash: u32) -> usize {
        let fraction = self.reciprocal.wrapping_mul(u64::from(hash));
        ((u128::from(fraction) * self.lines.len() as u128) >> 64) as usize
    }

    fn line(&self, hash: u32) -> Line {
        self.lines.get(self.index(hash)).copied().unwrap_or_default()
    }

    /// The mapping of `vip`. A hit sets the line's access bit, a miss clears it, whichever mapping
    /// it holds.
    pub fn get(&mut self, vip: u32, hash: u32) -> Option<u32> {
        let index = self.index(hash);
        let line = self.lines.get_mut(index)?;
        if line.holds(vip) {
            line.pip_and_access |= ACCESSED;
            return Some(line.pip_and_access & !ACCESSED);
        }
        line.pip_and_access &= !ACCESSED;
        None
    }

    /// Whether `vip` is held; touches nothing.
    #[must_use]
    pub fn holds(&self, vip: u32, hash: u32) -> bool {
        self.line(hash).holds(vip)
    }

    /// The mapping of `vip`, if held; touches nothing.
    #[must_use]
    pub fn peek(&self, vip: u32, hash: u32) -> Option<u32> {
        let line = self.line(hash);
        line.holds(vip).then(|| line.mapping().pip)
    }

    /// The access bit of the line that `hash` falls on.
    #[must_use]
    pub fn accessed(&self, hash: u32) -> bool {
        self.line(hash).pip_and_access & ACCESSED != 0
    }

    /// Installs a mapping and clears the line's access bit. Returns what it evicted, or
    /// [`Mapping::NONE`].
    pub fn put(&mut self, mapping: Mapping, hash: u32) -> Mapping {
        let index = self.index(hash);
        let Some(line) = self.lines.get_mut(index) else { return Mapping::NONE };
        let evicted =
            if line.vip != 0 && line.vip != mapping.vip { line.mapping() } else { Mapping::NONE };
        *line = Line { vip: mapping.vip, pip_and_access: mapping.pip };
        evicted
    }

    /// Installs a mapping if its line is empty or already its own; leaves the access bit alone.
    pub fn put_if_free(&mut self, mapping: Mapping, hash: u32) {
        let index = self.index(hash);
        let Some(line) = self.lines.get_mut(index) else { return };
        if line.vip == 0 || line.vip == mapping.vip {
            line.vip = mapping.vip;
            line.pip_and_access = mapping.pip | (line.pip_and_access & ACCESSED);
        }
    }

    /// Empties the line of `vip` if it maps to `pip`. As every lookup, a miss clears the bit.
    pub fn invalidate(&mut self, stale: Mapping, hash: u32) -> bool {
        let found = self.get(stale.vip, hash) == Some(stale.pip);
        if found {
            let index = self.index(hash);
            self.lines[index] = Line::default();
        }
        found
    }

    /// Everything it holds.
    pub fn mappings(&self) -> impl Iterator<Item = Mapping> + '_ {
        self.lines.iter().map(|line| line.mapping()).filter(|mapping| mapping.is_some())
    }
}
