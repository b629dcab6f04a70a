//! Installing values in the data plane, and evicting keys, in an order in which no processor sees
//! a partial change.

use std::{
    hint,
    net::SocketAddr,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use crate::{
    frame::ones_complement,
    layout::{
        Entry, KIND_ABSENT, Name, Protocol, UNIT_BYTES, UNIT_WORDS, UNITS_MAX, VALUE_BYTES_MAX,
        address_bytes,
    },
    plane::{DataPlane, Values},
};

/// A key to be cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name in the lookup table.
    pub name: Name,
    /// The key itself; empty if the name is the key.
    pub bytes: Vec<u8>,
    /// The server that stores it.
    pub server: SocketAddr,
    /// The protocol of the key.
    pub protocol: Protocol,
    /// The server whose lease covers it (NetCache).
    pub lease: u32,
}

/// Location of a value's units: the row, and the register arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Row, or slot.
    pub place: u32,
    /// Bit for each array; not used with slots.
    pub bitmap: u32,
}

impl Room {
    /// Returns the number of bytes that fit.
    pub fn bytes(self, values: Values) -> usize {
        match values {
            Values::Slots => VALUE_BYTES_MAX,
            Values::Registers { .. } => {
                (self.bitmap.count_ones() as usize * UNIT_BYTES).min(VALUE_BYTES_MAX)
            }
        }
    }
}

/// The value that is served for a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Value {
    /// NetCache: what follows the header; memcached: reply line, data, line end.
    pub bytes: Vec<u8>,
    /// NetCache: the key is absent, and that is the reply.
    pub absent: bool,
    /// No longer served from then on, in nanoseconds of the monotonic clock.
    pub expires_ns: u64,
    /// memcached: the epoch of the request.
    pub epoch: u64,
}

impl DataPlane {
    /// Assigns entry `number` to `key`: the data plane knows it but does not serve it yet. Writes
    /// from now on raise its version above `version`. The entry must be empty. False if the lookup
    /// table has no room for this key: it is not found, and not cached.
    pub fn admit(&self, number: u32, key: &Key, room: Room, version: u64) -> bool {
        let Some(entry) = self.entries.get(number as usize) else { return false };
        claim(entry);
        entry.valid_version.store(0, Relaxed);
        entry.version.store(version, Release);
        entry.ask_from_ns.store(0, Relaxed);
        entry.leaves.store(0, Relaxed);
        entry.lease.store(key.lease as u16, Relaxed);
        entry.place.store(room.place, Relaxed);
        entry.bitmap.store(room.bitmap as u16, Relaxed);
        entry.key_bytes.store(key.bytes.len() as u8, Relaxed);
        entry.port.store(key.server.port().to_be(), Relaxed);
        entry.kind.store(key.protocol as u8, Relaxed);
        for (word, bytes) in entry.name.iter().zip(key.name.chunks(8)) {
            word.store(word_of(bytes), Relaxed);
        }
        for (word, bytes) in entry.server.iter().zip(address_bytes(key.server.ip()).chunks(8)) {
            word.store(word_of(bytes), Relaxed);
        }
        let mut bytes = key.bytes.chunks(8);
        for word in &entry.key.0 {
            word.store(bytes.next().map_or(0, word_of), Relaxed);
        }
        entry.writing.store(0, Release);
        self.lookup.show(&key.name, number)
    }

    /// Serves `value` from entry `number`, if nothing was written since `version`. False if
    /// something was, or the value does not fit.
    pub fn fill(&self, number: u32, version: u64, value: &Value) -> bool {
        let Some(entry) = self.entries.get(number as usize) else { return false };
        let room =
            Room { place: entry.place.load(Relaxed), bitmap: entry.bitmap.load(Relaxed).into() };
        if value.bytes.len() > room.bytes(self.config().values) {
            return false;
        }
        claim(entry);
        let mut version = version;
        let mut current = entry.version.load(Acquire) == version;
        if current && entry.valid_version.load(Acquire) == version {
            // There is a value. If its epoch is over, or it expires sooner, it may be replaced in
            // the way of a write, so that no processor that is reading it mixes the two.
            let over = entry.epoch.load(Acquire) != value.epoch
                || entry.expires_ns.load(Acquire) < value.expires_ns;
            current = over
                && entry.version.compare_exchange(version, version + 1, AcqRel, Relaxed).is_ok();
            version += 1;
        }
        if current {
            self.store(room, &value.bytes);
            entry.value_bytes.store(value.bytes.len() as u16, Relaxed);
            // In memory order, as the data plane sums.
            entry.value_sum.store(ones_complement(&value.bytes).to_be(), Relaxed);
            let absent = if value.absent { KIND_ABSENT } else { 0 };
            entry.kind.store(entry.protocol() as u8 | absent, Relaxed);
            entry.expires_ns.store(value.expires_ns, Relaxed);
            entry.epoch.store(value.epoch, Relaxed);
            entry.valid_version.store(version, Release);
        }
        entry.writing.store(0, Release);
        current && entry.version.load(Acquire) == version
    }

    fn store(&self, room: Room, bytes: &[u8]) {
        let words = bytes.chunks(8).map(word_of);
        match self.config().values {
            Values::Slots => {
                let slot = &self.slots[room.place as usize];
                slot.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
            }
            Values::Registers { rows } => {
                self.words(room, rows).zip(words).for_each(|(to, word)| to.store(word, Relaxed));
            }
        }
    }

    /// The words of a room in register arrays, in order.
    fn words(&self, room: Room, rows: u32) -> impl Iterator<Item = &AtomicU64> {
        let arrays = (0..UNITS_MAX as u32).filter(move |array| room.bitmap >> array & 1 == 1);
        let units = arrays.map(move |array| &self.units[(array * rows + room.place) as usize]);
        units.flat_map(|unit| &unit[..UNIT_WORDS])
    }

    /// Moves the value of entry `number` to `room`, which is as large (section 4.4.2). A value that
    /// is served moves as if it were written again, so that a processor that is reading it sees
    /// that it changed; one that a write has made invalid is not copied. The old room must not be
    /// given to another key until every processor has finished its current packet.
    pub fn relocate(&self, number: u32, room: Room) {
        let Some(entry) = self.entries.get(number as usize) else { return };
        let Values::Registers { rows } = self.config().values else { return };
        claim(entry);
        let version = entry.version.load(Acquire);
        let served = entry.valid_version.load(Acquire) == version
            && entry.version.compare_exchange(version, version + 1, AcqRel, Acquire).is_ok();
        if served {
            let old = Room {
                place: entry.place.load(Relaxed),
                bitmap: entry.bitmap.load(Relaxed).into(),
            };
            for (to, from) in self.words(room, rows).zip(self.words(old, rows)) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
        entry.place.store(room.place, Release);
        entry.bitmap.store(room.bitmap as u16, Release);
        if served {
            entry.valid_version.store(version + 1, Release);
        }
        entry.writing.store(0, Release);
    }

    /// Removes a key. Its room must not be given to another key until every processor has finished
    /// its current packet: the controller waits for one period.
    pub fn evict(&self, number: u32, name: &Name) {
        self.lookup.hide(name, number);
        if let Some(entry) = self.entries.get(number as usize) {
            claim(entry);
            // No update has this version, and increments from here never overflow.
            entry.version.store(1 << 63, Release);
            entry.valid_version.store(0, Release);
            entry.writing.store(0, Release);
        }
    }

    /// The version of entry `number`, and whether no write prevents serving it.
    pub fn version(&self, number: u32) -> Option<(u64, bool)> {
        let entry = self.entries.get(number as usize)?;
        let version = entry.version.load(Acquire);
        Some((version, entry.valid_version.load(Acquire) == version))
    }
}

/// The data plane holds a claim for as long as it copies one value, on another processor.
fn claim(entry: &Entry) {
    while entry.writing.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        hint::spin_loop();
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
