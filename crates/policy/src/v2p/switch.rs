//! One switch: its cache, and what it does with a packet.

use alloc::{boxed::Box, sync::Arc};
use core::ops::Range;

use super::{Admission, Cache, Learning, Mapping, Role, Rules, Special, vip_hash};

/// The packet fields that a switch reads and may rewrite.
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    /// Outer source: where the packet was (last) sent from.
    pub source_pip: u32,
    /// Outer destination: a gateway while unresolved.
    pub destination_pip: u32,
    /// Inner source.
    pub source_vip: u32,
    /// Inner destination.
    pub destination_vip: u32,
    /// [`vip_hash`] of the inner source.
    pub source_hash: u32,
    /// [`vip_hash`] of the inner destination.
    pub destination_hash: u32,
    /// An evicted or promoted entry travelling along.
    pub tag: Mapping,
    /// Misdelivery tag: the physical address that was wrong, or 0.
    pub misdelivered_from: u32,
    /// Hit tag: 1 + the identifier of the switch that resolved the packet, or 0.
    pub hit: u16,
    /// Switches passed since `source_pip` sent it.
    pub hops: u8,
    /// The outer destination is not a gateway.
    pub resolved: bool,
    /// The tag is a promotion (§3.2.2), not a spilled entry.
    pub promotion: bool,
}

/// Further packets that a switch sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// A learning packet to the ToR of the packet's first sender.
    Learning(Mapping),
    /// An invalidation packet for this stale mapping, to the switch of this identifier.
    Invalidation(Mapping, u16),
}

/// Result of a packet at one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The cache resolved it.
    pub hit: bool,
    /// An additional packet to send.
    pub emit: Option<Emit>,
}

/// A SwitchV2P switch: one line of a processor's cache, and its own lines.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Switch {
    id: u16,
    role: Role,
    rules: Arc<Rules>,
    cache: Cache,
    /// The physical addresses of its pod; promotion is for packets that leave it.
    pod: Range<u32>,
    /// §3.3: when each switch was last sent an invalidation packet, as time + 1; empty until used.
    invalidated: Box<[u64]>,
}

const _: () = assert!(size_of::<Switch>() == 64, "a switch is a cache line");

impl Switch {
    /// A switch with an empty cache. `pod` is the range of physical addresses of its pod.
    #[must_use]
    pub fn new(id: u16, role: Role, entries: u32, pod: Range<u32>, rules: Arc<Rules>) -> Self {
        Self { id, role, rules, cache: Cache::new(entries), pod, invalidated: Box::default() }
    }

    /// Returns the switch's cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// A packet passes. `draw` yields uniform numbers from 0 to 1; it is asked only when a learning
    /// packet is to be decided on.
    pub fn process(
        &mut self,
        packet: &mut Header,
        draw: impl FnOnce() -> f64,
        now_ns: u64,
    ) -> Outcome {
        if packet.misdelivered_from != 0 {
            return Outcome { hit: false, emit: self.correct(packet, now_ns) };
        }
        let promotes = self.rules.promotion && self.role.features().special == Special::Promotions;
        if promotes && self.rules.quirks.spines_only_promote && self.promote_unresolved(packet) {
            return Outcome::default();
        }
        let emit = self.learn(packet, draw);
        let hit = !packet.resolved && self.resolve(packet, promotes);
        Outcome { hit, emit }
    }

    /// A learning packet addressed to this switch (§3.2.2).
    pub fn learn_from_packet(&mut self, mapping: Mapping) {
        self.cache.put(mapping, vip_hash(mapping.vip));
    }

    /// An invalidation packet passes or arrives (§3.3).
    pub fn invalidate(&mut self, stale: Mapping) {
        self.cache.invalidate(stale, vip_hash(stale.vip));
    }

    /// Lookup (§3.1).
    fn resolve(&mut self, packet: &mut Header, promotes: bool) -> bool {
        let in_use = promotes && self.cache.accessed(packet.destination_hash);
        let Some(pip) = self.cache.get(packet.destination_vip, packet.destination_hash) else {
            return false;
        };
        packet.destination_pip = pip;
        packet.resolved = true;
        packet.hit = self.id + 1;
        let leaves_pod = !self.pod.contains(&pip);
        let promotes = promotes && !self.rules.quirks.spines_only_promote && leaves_pod;
        if promotes && (in_use || self.rules.quirks.promote_without_access_bit) {
            packet.tag = Mapping { vip: packet.destination_vip, pip };
            packet.promotion = true;
        }
        true
    }

    /// The code's only hit action of an ordinary spine: the core above is to serve the packet.
    fn promote_unresolved(&mut self, packet: &mut Header) -> bool {
        if packet.resolved {
            return false;
        }
        let in_use = self.cache.accessed(packet.destination_hash);
        let Some(pip) = self.cache.get(packet.destination_vip, packet.destination_hash) else {
            return false;
        };
        if in_use || self.rules.quirks.promote_without_access_bit {
            packet.tag = Mapping { vip: packet.destination_vip, pip };
            packet.promotion = true;
        }
        true
    }

    fn learn(&mut self, packet: &mut Header, draw: impl FnOnce() -> f64) -> Option<Emit> {
        match (self.role.features().learning, self.rules.quirks.one_tag) {
            (Learning::SourceAndLearningPackets, _) => self.learn_at_tor(packet),
            (Learning::Promotions, true) => self.learn_at_core_as_published(packet),
            (Learning::Promotions, false) => self.learn_promotion(packet),
            (Learning::Destination, true) => return self.learn_tag_or_destination(packet, draw),
            (Learning::Destination, false) => {
                self.take_spilled(packet);
                return self.learn_destination(packet, draw);
            }
        }
        None
    }

    fn learn_at_tor(&mut self, packet: &mut Header) {
        if !self.rules.quirks.tors_ignore_spillover {
            self.take_spilled(packet);
        }
        if packet.hops >= 2 || !self.rules.quirks.tors_learn_sources_from_fabric_only {
            let source = Mapping { vip: packet.source_vip, pip: packet.source_pip };
            let evicted = self.cache.put(source, packet.source_hash);
            if !self.rules.quirks.tors_ignore_spillover {
                self.spill(packet, evicted);
            }
        } else if packet.resolved && self.rules.quirks.tors_fill_empty_lines {
            self.cache.put_if_free(destination(packet), packet.destination_hash);
        }
    }

    /// Learns the destination under the role's admission policy; a spilled entry of the packet is
    /// unchanged.
    fn learn_destination(
        &mut self,
        packet: &mut Header,
        draw: impl FnOnce() -> f64,
    ) -> Option<Emit> {
        if !packet.resolved {
            return None;
        }
        let mapping = destination(packet);
        let known = self.cache.peek(mapping.vip, packet.destination_hash) == Some(mapping.pip);
        if !known && self.admits(mapping.vip, packet.destination_hash) {
            let evicted = self.cache.put(mapping, packet.destination_hash);
            self.spill(packet, evicted);
        }
        self.announce(mapping, known, draw)
    }

    /// A spilled entry is installed where it displaces nothing in use.
    fn take_spilled(&mut self, packet: &mut Header) {
        if !packet.tag.is_some() || packet.promotion {
            return;
        }
        let hash = vip_hash(packet.tag.vip);
        if !self.cache.accessed(hash) {
            let spilled = core::mem::take(&mut packet.tag);
            let evicted = self.cache.put(spilled, hash);
            self.spill(packet, evicted);
        }
    }

    fn learn_promotion(&mut self, packet: &mut Header) {
        if !packet.promotion {
            return;
        }
        let promoted = core::mem::take(&mut packet.tag);
        packet.promotion = false;
        let hash = vip_hash(promoted.vip);
        if self.admits(promoted.vip, hash) {
            let evicted = self.cache.put(promoted, hash);
            self.spill(packet, evicted);
        }
    }

    fn learn_at_core_as_published(&mut self, packet: &mut Header) {
        if !packet.tag.is_some() {
            if packet.resolved && self.rules.quirks.cores_fill_empty_lines {
                self.cache.put_if_free(destination(packet), packet.destination_hash);
            }
            return;
        }
        let hash = packet.destination_hash;
        let wanted = packet.tag.vip == packet.destination_vip;
        if wanted && !self.cache.accessed(hash) && !self.cache.holds(packet.tag.vip, hash) {
            let promoted = core::mem::take(&mut packet.tag);
            let evicted = self.cache.put(promoted, hash);
            self.spill(packet, evicted);
        }
    }

    /// The code learns one pair from a packet: the tag's, if there is one, else the destination.
    fn learn_tag_or_destination(
        &mut self,
        packet: &mut Header,
        draw: impl FnOnce() -> f64,
    ) -> Option<Emit> {
        let tagged = packet.tag.is_some();
        if !tagged && !packet.resolved {
            return None;
        }
        let (pair, hash) = if tagged {
            (packet.tag, vip_hash(packet.tag.vip))
        } else {
            (destination(packet), packet.destination_hash)
        };
        if !self.admits(pair.vip, hash) {
            return None;
        }
        let known = self.cache.peek(pair.vip, hash) == Some(pair.pip);
        let emit = self.announce(pair, known, draw);
        packet.tag = Mapping::NONE;
        let evicted = self.cache.put(pair, hash);
        self.spill(packet, evicted);
        emit
    }

    /// The admission policy (§3.2.1).
    fn admits(&self, vip: u32, hash: u32) -> bool {
        match self.role.features().admission {
            Admission::All => true,
            Admission::BitClear => !self.cache.accessed(hash) || self.cache.holds(vip, hash),
        }
    }

    fn announce(&self, mapping: Mapping, known: bool, draw: impl FnOnce() -> f64) -> Option<Emit> {
        let wanted = self.role.features().special == Special::LearningPackets
            && self.rules.learn_probability > 0.0
            && (!known || self.rules.quirks.learning_packet_for_any);
        (wanted && draw() <= self.rules.learn_probability).then_some(Emit::Learning(mapping))
    }

    fn spill(&self, packet: &mut Header, evicted: Mapping) {
        if evicted.is_some() && self.rules.spillover {
            packet.tag = evicted;
            packet.promotion = false;
        }
    }

    /// A packet with a misdelivery tag (§3.3): drop the stale entry, or use a newer one.
    fn correct(&mut self, packet: &mut Header, now_ns: u64) -> Option<Emit> {
        let stale = Mapping { vip: packet.destination_vip, pip: packet.misdelivered_from };
        if let Some(pip) = self.cache.get(stale.vip, packet.destination_hash) {
            if pip == stale.pip {
                self.cache.invalidate(stale, packet.destination_hash);
            } else {
                packet.destination_pip = pip;
                packet.resolved = true;
            }
        }
        if !self.rules.takes_hit_tag(self.role) || packet.hit == 0 {
            return None;
        }
        let culprit = core::mem::take(&mut packet.hit) - 1;
        let wanted = self.rules.invalidation && self.due(culprit, now_ns);
        wanted.then_some(Emit::Invalidation(stale, culprit))
    }

    /// The timestamp vector: whether `culprit` may be sent another invalidation packet.
    fn due(&mut self, culprit: u16, now_ns: u64) -> bool {
        if !self.rules.timestamp_vector {
            return true;
        }
        let index = usize::from(culprit);
        if self.invalidated.len() <= index {
            let mut longer = core::mem::take(&mut self.invalidated).into_vec();
            longer.resize(index + 1, 0);
            self.invalidated = longer.into_boxed_slice();
        }
        let last = &mut self.invalidated[index];
        let due = *last == 0
            || (!self.rules.quirks.one_shot_vector && now_ns + 1 - *last >= self.rules.base_rtt_ns);
        if due {
            *last = now_ns + 1;
        }
        due
    }
}

fn destination(packet: &Header) -> Mapping {
    Mapping { vip: packet.destination_vip, pip: packet.destination_pip }
}
