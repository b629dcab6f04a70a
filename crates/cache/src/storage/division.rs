//! The limits of storage, divided among the shards of each origin.

use std::time::Duration;

use super::{
    Portion,
    shares::{Bounds, FLOOR_PART, Margin, Shares, Why},
    usage::{Measured, SAMPLED_MIN, Usage},
};

/// Limits of all shards together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageLimits {
    /// Items at most; `usize::MAX` where memory alone is the bound.
    pub items_max: usize,
    /// Memory at most, in bytes.
    pub bytes_max: usize,
}

impl StorageLimits {
    /// The part of shard `index` of `count`. No shard is left without an item unless all are: its
    /// keys would never be stored.
    pub(super) fn share(self, index: usize, count: usize) -> Self {
        let items = self.items_max / count + usize::from(index < self.items_max % count);
        Self { items_max: items.max(self.items_max.min(1)), bytes_max: self.bytes_max / count }
    }
}

/// Maximum number of parts; the last is common to all further origins.
const PARTS_MAX: usize = 64;
/// Time between two reviews of the shares.
const REVIEW: Duration = Duration::from_secs(1);

/// The shards of one origin.
pub(super) struct Part {
    /// The origin; `None`: all that have no part of their own.
    pub(super) origin: Option<u64>,
    /// Its first shard.
    pub(super) first: usize,
    /// Number of its shards.
    pub(super) count: usize,
    /// What its memory is worth; `None` if there is no other part.
    pub(super) usage: Option<Usage>,
}

impl Part {
    /// A part for each portion, with `count` shards of that many parts; one if there is no portion.
    pub(super) fn of(portions: &[Portion], count: impl Fn(usize) -> usize) -> Vec<Self> {
        let parts = portions.len().clamp(1, PARTS_MAX);
        let count = count(parts);
        let part = |number: usize| Self {
            origin: portions.get(number).and_then(|portion| portion.origin),
            first: number * count,
            count,
            usage: (parts > 1).then(Usage::new),
        };
        (0..parts).map(part).collect()
    }

    pub(super) fn measure(&self, memory: &store::Stats, now: Duration) -> Measured {
        self.usage.as_ref().map(|usage| usage.measure(memory, now)).unwrap_or_default()
    }
}

/// Memory of one of several origins, and why it has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its memory, in bytes; what it holds follows in bounded steps.
    pub bytes: u64,
    /// The bounds.
    pub bounds: Bounds,
    /// What it holds.
    pub accounted_bytes: usize,
    /// Items.
    pub items: usize,
    /// Lookups per second that were hits or were filled.
    pub lookups_per_second: f64,
    /// Those that were hits.
    pub hits_per_second: f64,
    /// What it would gain and lose.
    pub margin: Margin,
}

/// Limits of all shards together, and the part of each origin.
pub(super) struct Division {
    limits: StorageLimits,
    /// The part of the memory that may be used.
    granted_bytes: usize,
    portions: Vec<Portion>,
    shares: Shares,
    measured: Vec<Measured>,
    reviewed: Duration,
    /// What each part was given.
    given: Vec<StorageLimits>,
    /// Every part was given what it is to have.
    is_done: bool,
}

impl Division {
    pub(super) fn new(limits: StorageLimits, portions: &[Portion]) -> Self {
        let mut portions = portions.get(..PARTS_MAX).unwrap_or(portions).to_vec();
        if portions.is_empty() {
            portions.push(Portion::default());
        }
        let total = limits.bytes_max as u64;
        let shares = Shares::new(total, bounds(&portions, total));
        let mut division = Self {
            limits,
            granted_bytes: usize::MAX,
            measured: vec![Measured::default(); portions.len()],
            portions,
            shares,
            reviewed: Duration::ZERO,
            given: Vec::new(),
            is_done: true,
        };
        division.given = division.wanted();
        division
    }

    pub(super) fn limits(&self) -> StorageLimits {
        self.limits
    }

    /// The limits of each part, when nothing has been changed yet.
    pub(super) fn limits_of_parts(&self) -> &[StorageLimits] {
        &self.given
    }

    pub(super) fn resize(&mut self, limits: StorageLimits) {
        self.limits = limits;
        self.rebound();
    }

    /// Changes the bounds of the shares.
    pub(super) fn bound(&mut self, portions: &[Portion]) {
        for (present, portion) in self.portions.iter_mut().zip(portions) {
            (present.floor, present.ceiling) = (portion.floor, portion.ceiling);
        }
        self.rebound();
    }

    fn rebound(&mut self) {
        let total = self.limits.bytes_max as u64;
        self.shares.resize(total, bounds(&self.portions, total));
        self.is_done = false;
    }

    /// Sets what may be used of the memory; returns whether that changes anything.
    pub(super) fn grant(&mut self, bytes: usize) -> bool {
        let most = self.limits.bytes_max;
        let changes = bytes.min(most) != self.granted_bytes.min(most);
        self.granted_bytes = bytes;
        self.is_done &= !changes;
        changes
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.portions.len() > 1 && now >= self.reviewed + REVIEW
    }

    /// Moves the shares by what was measured.
    pub(super) fn review(&mut self, measured: Vec<Measured>, now: Duration) {
        (self.measured, self.reviewed) = (measured, now);
        let sampled = self.measured.iter().map(|measured| measured.curve.lookups_sampled);
        if sampled.sum::<u64>() >= SAMPLED_MIN {
            let measured = &self.measured;
            self.is_done &= !self.shares.review(&|origin, bytes| measured[origin].hits_with(bytes));
        }
    }

    /// What each part is to have.
    fn wanted(&self) -> Vec<StorageLimits> {
        let StorageLimits { items_max, bytes_max } = self.limits;
        let usable = bytes_max.min(self.granted_bytes);
        let shares = self.shares.within(usable as u64);
        let limits = |bytes: u64| {
            let items = items_max as u128 * u128::from(bytes) / (usable as u128).max(1);
            let items =
                usize::try_from(items).unwrap_or(usize::MAX).clamp(items_max.min(1), items_max);
            let items_max = if items_max == usize::MAX { items_max } else { items };
            StorageLimits { items_max, bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX) }
        };
        shares.into_iter().map(limits).collect()
    }

    /// Lets every part have what it is to have, by `give`, which returns what the part may hold
    /// now: more than it was given, while it shrinks. A part grows only by what is free, so that
    /// all together never may hold more than the limits.
    pub(super) fn share_out(
        &mut self,
        mut give: impl FnMut(usize, StorageLimits) -> StorageLimits,
    ) {
        if self.is_done {
            return;
        }
        let wanted = self.wanted();
        let mut free = StorageLimits {
            bytes_max: self.limits.bytes_max.min(self.granted_bytes),
            ..self.limits
        };
        let mut held = Vec::new();
        for (part, (given, wanted)) in self.given.iter_mut().zip(&wanted).enumerate() {
            given.items_max = given.items_max.min(wanted.items_max);
            given.bytes_max = given.bytes_max.min(wanted.bytes_max);
            let holds = give(part, *given);
            free.items_max = free.items_max.saturating_sub(holds.items_max);
            free.bytes_max = free.bytes_max.saturating_sub(holds.bytes_max);
            held.push(holds);
        }
        self.is_done = true;
        for (part, (given, wanted)) in self.given.iter_mut().zip(&wanted).enumerate() {
            let holds = held[part];
            let grown = StorageLimits {
                items_max: wanted.items_max.min(holds.items_max.saturating_add(free.items_max)),
                bytes_max: wanted.bytes_max.min(holds.bytes_max.saturating_add(free.bytes_max)),
            };
            free.items_max -= grown.items_max.saturating_sub(holds.items_max).min(free.items_max);
            free.bytes_max -= grown.bytes_max.saturating_sub(holds.bytes_max).min(free.bytes_max);
            if grown != *given {
                *given = grown;
                give(part, grown);
            }
            self.is_done &= grown == *wanted;
        }
    }

    /// The share of a part with this memory; `None` if it is the only one.
    pub(super) fn share(&self, part: usize, memory: &store::Stats) -> Option<Share> {
        let (&bytes, &bounds) = (self.shares.bytes().get(part)?, self.shares.bounds().get(part)?);
        let measured = self.measured.get(part).filter(|_| self.portions.len() > 1)?;
        let mut margin = self.shares.margin(part, &|_, bytes| measured.hits_with(bytes));
        if measured.curve.lookups_sampled < SAMPLED_MIN {
            margin.why = Why::Measuring;
        }
        Some(Share {
            bytes,
            bounds,
            accounted_bytes: memory.accounted_bytes,
            items: memory.items,
            lookups_per_second: measured.lookups,
            hits_per_second: measured.hits,
            margin,
        })
    }
}

/// The bounds of the shares of `total` bytes. An origin without a floor has a part of an equal
/// share, if the floors of others leave that.
fn bounds(portions: &[Portion], total: u64) -> Vec<Bounds> {
    let floors = || portions.iter().map(|portion| portion.floor);
    let stated: u64 = floors().flatten().fold(0, u64::saturating_add);
    let others = floors().filter(Option::is_none).count().max(1) as u64;
    let equal = total / (FLOOR_PART * portions.len().max(1) as u64);
    let default = equal.min(total.saturating_sub(stated) / others);
    let of = |portion: &Portion| {
        let ceiling = portion.ceiling.unwrap_or(u64::MAX).min(total);
        Bounds { floor: portion.floor.unwrap_or(default).min(ceiling), ceiling }
    };
    portions.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
