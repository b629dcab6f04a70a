//! Frees memory by eviction, compaction, expiry and shrinking, each in bounded portions.

use std::time::Duration;

use super::{Memory, is_expired};
use crate::error::Refused;
use crate::item::Item;
use crate::item::Location;
use crate::log::SEGMENT_BYTES;
use crate::mapping::PAGE_BYTES;

/// Bytes kept free below the limit: for pages that index, segment table and compaction may start
/// before the next insert checks.
pub(crate) const MARGIN_BYTES: usize = 6 * PAGE_BYTES;
/// Bytes that compaction examines for every byte inserted. If an eighth of all bytes is dead,
/// compacting a segment frees about a quarter of it, so compaction ends well before the space is
/// needed.
const COMPACTED_PER_INSERTED: usize = 8;
/// Items' worth of shrinking done by every insert.
const SHRINK_WORK_PER_INSERT: usize = 16;
/// Bytes compacted that count as one item's worth of work.
const BYTES_PER_WORK: usize = 256;
/// Items' worth of work that one portion of retired memory counts.
const WORK_PER_PORTION: usize = 16;
/// Homes of the index moved as one item's worth of work.
const HOMES_PER_WORK: usize = 4;

/// A policy that refuses items is asked from 1/N of the bytes below the limit on, because evicting
/// one item may take several others with it: memory is freed by the page and by the segment.
const NEARLY_FULL: usize = 64;
/// Compaction starts when more than 1/N of the bytes are dead. A smaller N wastes memory, a larger
/// one copies more: with uniformly random deaths each byte is copied about three times at 8, and
/// twice at 5.
const DEAD_SHARE: usize = 8;
/// The same if hardly any item is evicted: an evicted item then costs half a megabyte to be copied.
const DEAD_SHARE_STEADY: usize = 128;

impl Memory {
    pub(crate) fn accounted_bytes(&self) -> usize {
        self.log.charge() + self.index.bytes() + self.policy.bytes() + self.retired.bytes()
    }

    /// Items that fit: the limit, or as many of the present mean size as the bytes hold.
    pub(super) fn capacity(&self) -> usize {
        let items = self.index.len();
        if items == 0 {
            return self.items_limit;
        }
        let mean = (self.log.live() + self.index.bytes()) / items;
        self.items_limit.min(self.bytes_limit / mean.max(1))
    }

    /// Whether items must be evicted for one of `bytes`, or soon will be.
    pub(super) fn is_nearly_full(&self, bytes: usize) -> bool {
        let bytes = self.accounted_bytes() + self.log.cost(bytes) + MARGIN_BYTES;
        self.index.len() >= self.items_limit
            || bytes + self.bytes_limit / NEARLY_FULL > self.bytes_limit
    }

    /// Makes room for an item of `bytes`; returns the number of evicted items.
    pub(super) fn make_room_for_bytes(
        &mut self,
        bytes: usize,
        now: Duration,
    ) -> Result<usize, Refused> {
        let refused = Refused::NoRoom { got: bytes, limit: self.bytes_limit };
        if bytes + MARGIN_BYTES > self.bytes_limit {
            return Err(refused);
        }
        let mut evicted = 0;
        while self.accounted_bytes() + self.log.cost(bytes) + MARGIN_BYTES > self.bytes_limit {
            if self.retired.release_some() || self.reclaim(SEGMENT_BYTES, now) || self.trim() {
                continue;
            }
            if !self.evict() {
                return Err(refused);
            }
            evicted += 1;
        }
        Ok(evicted)
    }

    /// Makes room for one more item under the limit of items.
    pub(super) fn make_room_for_one(&mut self) -> usize {
        let mut evicted = 0;
        while self.index.len() >= self.items_limit && self.evict() {
            evicted += 1;
        }
        evicted
    }

    /// Appends an item; evicts more items while the free addresses of the arena are too fragmented
    /// for a large item.
    pub(super) fn append(
        &mut self,
        item: &Item<'_>,
        now: Duration,
    ) -> Result<(Location, usize), Refused> {
        let mut evicted = 0;
        loop {
            if let Some(location) = self.log.append(item) {
                return Ok((location, evicted));
            }
            if !self.reclaim(SEGMENT_BYTES, now) && !self.evict() {
                return Err(Refused::NoRoom { got: item.shape().bytes(), limit: self.bytes_limit });
            }
            evicted += 1;
        }
    }

    /// Additional work of every insert: a share of compacting and shrinking.
    pub(super) fn tidy(&mut self, inserted_bytes: usize, now: Duration) {
        self.retired.release_some();
        if self.is_compacting() {
            self.compact((inserted_bytes * COMPACTED_PER_INSERTED).min(SEGMENT_BYTES), now);
        }
        if self.is_over() {
            self.shrink(&mut { SHRINK_WORK_PER_INSERT }, now);
        }
    }

    pub(super) fn upkeep(&mut self, work: usize, now: Duration) -> bool {
        let mut work = work;
        let stretching = self
            .index
            .stretch_some(work.saturating_mul(HOMES_PER_WORK), |at| self.log.header(at).hash);
        while work > 0 && self.retired.release_some() {
            work = work.saturating_sub(WORK_PER_PORTION);
        }
        let shrinking = self.shrink(&mut work, now);
        self.expire_due(&mut work, now);
        while work > 0 && self.reclaim(BYTES_PER_WORK, now) {
            work -= 1;
        }
        let reclaiming = self.is_compacting();
        stretching
            || self.retired.bytes() > 0
            || shrinking
            || reclaiming
            || self.log.due(now).is_some()
    }

    pub(super) fn lower_limits(&mut self) {
        self.items_limit = self.config.items_max.max(self.index.len());
        self.bytes_limit = self.config.bytes_max.max(self.accounted_bytes());
    }

    fn is_over(&self) -> bool {
        self.index.len() > self.config.items_max || self.accounted_bytes() > self.config.bytes_max
    }

    /// Returns true while there is more to do.
    fn shrink(&mut self, work: &mut usize, now: Duration) -> bool {
        let mut is_done = false;
        while *work > 0 && self.is_over() {
            let bytes_over = self.accounted_bytes() > self.config.bytes_max;
            if !(bytes_over && (self.reclaim(BYTES_PER_WORK, now) || self.trim()) || self.evict()) {
                // Only tables that shrink with the index are left.
                is_done = true;
                break;
            }
            *work -= 1;
        }
        self.lower_limits();
        !is_done && self.is_over()
    }

    /// Removes expired items, a segment at a time.
    fn expire_due(&mut self, work: &mut usize, now: Duration) {
        while *work > 0
            && let Some(slot) = self.log.due(now)
        {
            let mut offset = 0;
            while let Some(location) = self.log.next_in(slot, &mut offset) {
                *work = work.saturating_sub(1);
                if is_expired(&self.log.item(location), now) {
                    self.expire(location);
                }
            }
            self.log.renew_due(slot);
        }
    }

    /// Continues or begins compaction; returns false if it would free too little.
    fn reclaim(&mut self, bytes: usize, now: Duration) -> bool {
        let worth_it = self.is_compacting();
        if worth_it {
            self.compact(bytes, now);
        }
        worth_it
    }

    /// Lets the policy release state for more items than fit now.
    fn trim(&mut self) -> bool {
        self.policy.set_capacity(self.capacity(), self.config.bytes_max);
        self.policy.trim()
    }

    /// Whether a segment is being compacted; begins with one if enough is dead.
    fn is_compacting(&mut self) -> bool {
        let dead_share = if self.policy.is_steady() { DEAD_SHARE_STEADY } else { DEAD_SHARE };
        self.log.is_compacting() || self.log.begin_compaction(dead_share)
    }

    fn compact(&mut self, bytes: usize, now: Duration) {
        let mut budget = bytes;
        while let Some(from) = self.log.survivor(&mut budget) {
            let item = self.log.item(from);
            let hash = item.hash;
            if is_expired(&item, now) {
                self.expire(from);
                continue;
            }
            self.stats.compacted_bytes += item.shape().bytes() as u64;
            if let Some(to) = self.log.relocate(from) {
                self.index.replace(hash, from, to);
                self.policy.on_move(&mut self.log, from, to);
            } else {
                self.stats.evictions += 1;
                self.drop_item(from);
            }
        }
    }

    fn evict(&mut self) -> bool {
        let victim = self.policy.victim(&mut self.log);
        if let Some(location) = victim {
            self.forget(location);
            self.stats.evictions += 1;
        }
        victim.is_some()
    }
}
