//! Coherent copies of data that many hosts read, by CLIENT TRACKING.
//!
//! Slots that the placer has selected ([`crate::replicas`]) are read over a separate connection to
//! their node, on which the node reports every change of a key that was read there. Reports and
//! replies arrive in order, so a reply is stored at its place among the changes, and a later change
//! drops it. A change drops all copies of its slot: the slot is the unit here too.
//!
//! **Writes through this agent** use the same connection where possible, and drop the copies of
//! their slot when they are answered, before the reply is forwarded: reads answered before precede
//! the write, and reads answered after follow it. Other writes (transactions, scripts, pipelines,
//! answers that differ between versions of the protocol) drop the copies when they are sent, and
//! nothing of their slot is copied or answered from a copy until they are answered. A client that
//! knows of a completed write therefore reads its result here.
//!
//! **Copies have a lease.** The agent pings on that connection with a query of the cluster state;
//! after a positive reply, all changes at the node before the query was sent have been received. A
//! copy is used only while the last such query was sent less than [`COPY_LEASE`] ago: an agent that
//! is partitioned from the cluster, alone or together with a node, stops using copies, and its
//! answers are never older than that.
//!
//! Only existing keys are copied: for a missing key no change is reported when its slot moves and
//! it is written at the new node. Only commands whose answer follows from strings, lists and sets
//! are copied, and the same for both versions of the protocol: fields of hashes may expire without
//! a report.

use std::{collections::HashMap, time::Duration};

use wire::resp::{Frame, Limits, Version, frame};

use crate::slot::{SLOTS, Slot};

/// Validity of copies, from the time at which an answered ping was sent.
pub const COPY_LEASE: Duration = Duration::from_secs(1);
/// A longer answer is not copied.
const COPY_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of all copies unless granted otherwise.
const COPIES_BYTES_MAX: usize = 64 << 20;
/// Memory overhead of a copy, besides its request and its answer.
const ENTRY_BYTES: usize = 256;
/// A node no longer reports changes of keys that were read before.
pub(super) const FORGET_ALL: &[u8] = b">2\r\n$10\r\ninvalidate\r\n_\r\n";
/// Commands whose answers are copied: of one key, in its first argument.
const COPIED: &[&str] =
    &["get", "strlen", "getrange", "llen", "lindex", "lrange", "scard", "sismember", "exists"];
/// Writes whose answers are the same in both versions of the protocol, but for null: of one key.
const IN_ORDER: &[&str] = &[
    "append",
    "decr",
    "decrby",
    "del",
    "expire",
    "expireat",
    "getdel",
    "getset",
    "incr",
    "incrby",
    "incrbyfloat",
    "linsert",
    "lpush",
    "lpushx",
    "lrem",
    "lset",
    "ltrim",
    "persist",
    "pexpire",
    "pexpireat",
    "psetex",
    "rpush",
    "rpushx",
    "sadd",
    "set",
    "setex",
    "setnx",
    "setrange",
    "srem",
    "unlink",
];
/// `cluster_state` of a node that is connected to the cluster.
const WELL: &[u8] = b"cluster_state:ok";
/// Reply of PTTL for a key that does not exist.
const NOT_THERE: i64 = -2;
const NULL_3: &[u8] = b"_\r\n";
const NULL_2: &[u8] = b"$-1\r\n";

/// Whether a command may use the connection of the copies: a read whose answer is copied, or a
/// write.
pub(super) fn is_in_order(command: &str) -> bool {
    COPIED.contains(&command) || IN_ORDER.contains(&command)
}

#[derive(Debug)]
struct Copy {
    answer: Vec<u8>,
    expires: Expires,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expires {
    /// The expiry is not known yet; not used for answers.
    Unknown,
    Never,
    At(Duration),
}

/// A slot that is to be copied.
#[derive(Debug, Default)]
struct Copied {
    /// The connection over which its copies arrived.
    link: Option<usize>,
    /// Incremented when another connection is used: an answer on the former one is not stored.
    generation: u64,
    /// By request.
    copies: HashMap<Vec<u8>, Copy>,
}

/// The place where an answer will be stored, if nothing changes before it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fill {
    pub(super) slot: Slot,
    generation: u64,
}

/// What an unanswered write may change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Slot(Slot),
    /// Every key.
    All,
}

#[derive(Debug)]
pub(super) struct Copies {
    slots: HashMap<Slot, Copied>,
    bytes: usize,
    bytes_max: usize,
    /// Of all slots.
    generation: u64,
    /// Writes of this agent's clients over other connections that are not answered, by slot.
    writes: Box<[u32]>,
    /// Those that may change every slot.
    writes_to_all: u32,
    /// By connection: time at which the last query with a positive answer was sent.
    proofs: HashMap<usize, Duration>,
    /// A node does not report changes: nothing is copied.
    refused: bool,
}

impl Copies {
    pub(super) fn new() -> Self {
        Self {
            slots: HashMap::new(),
            bytes: 0,
            bytes_max: COPIES_BYTES_MAX,
            generation: 0,
            writes: vec![0; SLOTS].into(),
            writes_to_all: 0,
            proofs: HashMap::new(),
            refused: false,
        }
    }

    /// Returns the memory used by all copies.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the memory that copies may use from now on.
    pub(super) fn grant(&mut self, bytes: usize) {
        self.bytes_max = bytes;
        for copied in self.slots.values_mut() {
            if self.bytes <= bytes {
                return;
            }
            self.bytes -= size(copied);
            copied.copies = HashMap::new();
        }
    }

    /// A node refuses to report changes.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        self.choose(&[]);
    }

    /// From now on these slots are copied, and no others.
    pub(super) fn choose(&mut self, slots: &[Slot]) {
        let (mut before, bytes) =
            (std::mem::take(&mut self.slots), std::mem::take(&mut self.bytes));
        for &slot in slots.iter().filter(|_| !self.refused) {
            self.generation += 1;
            let new = Copied { generation: self.generation, ..Copied::default() };
            self.slots.insert(slot, before.remove(&slot).unwrap_or(new));
        }
        self.bytes = bytes - before.values().map(size).sum::<usize>();
    }

    /// Whether reads of `slot` are to leave copies now.
    pub(super) fn wants(&self, slot: Slot) -> bool {
        self.slots.contains_key(&slot) && !self.is_written(slot)
    }

    /// The answer to `request`, if a copy is valid. `link` is the connection to the present owner
    /// of the slot.
    pub(super) fn read(
        &mut self,
        slot: Slot,
        link: Option<usize>,
        request: &[u8],
        version: Version,
        now: Duration,
    ) -> Option<&[u8]> {
        let proven = *self.proofs.get(&link?)?;
        if now >= proven + COPY_LEASE || self.is_written(slot) {
            return None;
        }
        let copied = self.slots.get(&slot).filter(|copied| copied.link == link)?;
        let copy = copied.copies.get(request)?;
        let lives = match copy.expires {
            Expires::Unknown => false,
            Expires::Never => true,
            Expires::At(at) => now < at,
        };
        lives.then(|| in_version(&copy.answer, version))
    }

    /// A read of `slot` is sent over `link`.
    pub(super) fn begin(&mut self, slot: Slot, link: usize) -> Option<Fill> {
        if self.slots.get(&slot)?.link != Some(link) {
            self.begin_anew(slot);
        }
        let copied = self.slots.get_mut(&slot)?;
        copied.link = Some(link);
        Some(Fill { slot, generation: copied.generation })
    }

    /// Processes the answer to a read. The copy is used once [`Self::expires`] has been called too.
    pub(super) fn fill(&mut self, fill: Fill, request: &[u8], answer: &[u8]) {
        let bytes = taken(request, answer);
        let room = bytes <= COPY_BYTES_MAX && self.bytes + bytes <= self.bytes_max;
        if !room || !is_same_in_both_versions(answer) || self.is_written(fill.slot) {
            return;
        }
        if let Some(copied) = self.current(fill) {
            let copy = Copy { answer: answer.to_vec(), expires: Expires::Unknown };
            let before = copied.copies.insert(request.to_vec(), copy);
            self.bytes += bytes;
            self.bytes -= before.map_or(0, |before| taken(request, &before.answer));
        }
    }

    /// Processes the reply to the PTTL sent after `request` at `since`: `milliseconds`; -1 for
    /// never, -2 if the key does not exist.
    pub(super) fn expires(
        &mut self,
        fill: Fill,
        request: &[u8],
        milliseconds: i64,
        since: Duration,
    ) {
        let Some(copied) = self.current(fill) else { return };
        if milliseconds == NOT_THERE {
            let copy = copied.copies.remove(request);
            self.bytes -= copy.map_or(0, |copy| taken(request, &copy.answer));
        } else if let Some(copy) = copied.copies.get_mut(request) {
            let milliseconds = u64::try_from(milliseconds).map(Duration::from_millis);
            copy.expires = milliseconds.map_or(Expires::Never, |left| Expires::At(since + left));
        }
    }

    /// A write is sent over another connection.
    pub(super) fn write_begins(&mut self, held: Held) {
        if let Some(writes) = self.writes_of(held) {
            *writes += 1;
        }
        match held {
            Held::Slot(slot) => self.begin_anew(slot),
            Held::All => {
                let slots: Vec<Slot> = self.slots.keys().copied().collect();
                slots.into_iter().for_each(|slot| self.begin_anew(slot));
            }
        }
    }

    /// Ends such a write: it is answered, or never will be.
    pub(super) fn write_ends(&mut self, held: Held) {
        if let Some(writes) = self.writes_of(held) {
            *writes = writes.saturating_sub(1);
        }
    }

    fn writes_of(&mut self, held: Held) -> Option<&mut u32> {
        match held {
            Held::Slot(slot) => self.writes.get_mut(slot.number()),
            Held::All => Some(&mut self.writes_to_all),
        }
    }

    /// Drops the copies of `slot`; answers that arrive from now on may be stored.
    pub(super) fn changed(&mut self, slot: Slot) {
        if let Some(copied) = self.slots.get_mut(&slot) {
            self.bytes -= size(copied);
            copied.copies.clear();
        }
    }

    /// A node reports changed keys over `link`; null: all keys.
    pub(super) fn told(&mut self, link: usize, push: &[u8]) {
        let Ok(Some((push, _))) = frame::decode(push, &Limits::default()) else { return };
        let mut parts = push.elements();
        if parts.next().and_then(|kind| kind.payload()) != Some(b"invalidate") {
            return;
        }
        match parts.next() {
            Some(keys) if !keys.is_null() => {
                let keys: Vec<Frame<'_>> = keys.elements().collect();
                for key in keys.iter().filter_map(Frame::payload) {
                    self.changed(Slot::of(key));
                }
            }
            _ => self.of_link(link).into_iter().for_each(|slot| self.changed(slot)),
        }
    }

    /// Processes the answer to the query of the cluster state that was sent over `link` at `since`.
    pub(super) fn proven(&mut self, link: usize, answer: &[u8], since: Duration) {
        if answer.windows(WELL.len()).any(|words| words == WELL) {
            self.proofs.insert(link, since);
        }
    }

    /// A connection was lost.
    pub(super) fn lost(&mut self, link: usize) {
        self.proofs.remove(&link);
        self.of_link(link).into_iter().for_each(|slot| self.begin_anew(slot));
    }

    fn is_written(&self, slot: Slot) -> bool {
        let writes = self.writes.get(slot.number());
        self.writes_to_all > 0 || writes.is_none_or(|&writes| writes > 0)
    }

    fn current(&mut self, fill: Fill) -> Option<&mut Copied> {
        self.slots.get_mut(&fill.slot).filter(|copied| copied.generation == fill.generation)
    }

    /// Outstanding answers are not stored either.
    fn begin_anew(&mut self, slot: Slot) {
        self.changed(slot);
        if let Some(copied) = self.slots.get_mut(&slot) {
            self.generation += 1;
            copied.generation = self.generation;
        }
    }

    fn of_link(&self, link: usize) -> Vec<Slot> {
        let of_it = |(slot, copied): (&Slot, &Copied)| (copied.link == Some(link)).then_some(*slot);
        self.slots.iter().filter_map(of_it).collect()
    }
}

/// Memory of a copy.
fn taken(request: &[u8], answer: &[u8]) -> usize {
    ENTRY_BYTES + request.len() + answer.len()
}

fn size(copied: &Copied) -> usize {
    copied.copies.iter().map(|(request, copy)| taken(request, &copy.answer)).sum()
}

/// Whether a whole answer in RESP3 is the same in RESP2, or null.
fn is_same_in_both_versions(answer: &[u8]) -> bool {
    let starts = |kinds: &[u8]| answer.first().is_some_and(|first| kinds.contains(first));
    answer == NULL_3 || starts(b"$:+") || starts(b"*")
}

/// Converts an answer in RESP3 that [`is_same_in_both_versions`] for a client of `version`.
pub(super) fn in_version(answer: &[u8], version: Version) -> &[u8] {
    if answer == NULL_3 && version == Version::Resp2 { NULL_2 } else { answer }
}

#[cfg(test)]
mod tests;
