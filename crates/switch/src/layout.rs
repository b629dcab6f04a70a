//! Memory shared by kernel and user space, as in `bpf/layout.h`. Everything is atomic: both sides
//! access it at the same time.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::atomic::{
        AtomicU8, AtomicU16, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed},
    },
};

/// Longest key in bytes: memcached's limit.
pub const KEY_BYTES_MAX: usize = 250;
/// Longest value in bytes, NetCache's long key or memcached's reply line included. A slot's last
/// word stays unused.
pub const VALUE_BYTES_MAX: usize = 1_400;
/// Words of a slot, or of all units of a row.
pub const VALUE_WORDS: usize = 176;
/// Words of one register array's element.
pub const UNIT_WORDS: usize = 16;
/// Bytes of one register array's element.
pub const UNIT_BYTES: usize = UNIT_WORDS * 8;
/// Register arrays.
pub const UNITS_MAX: usize = VALUE_WORDS / UNIT_WORDS;
/// Servers that may hold a lease.
pub const LEASES_MAX: usize = 1024;

/// The name of a key in the lookup table: the key itself, or two hashes of it.
pub type Name = [u8; 16];

/// The protocol of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// NetCache's own.
    NetCache = 1,
    /// memcached's.
    Memcache = 2,
}

/// One cached key; `struct entry` says what the fields mean.
#[repr(C, align(64))]
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "documented in bpf/layout.h, once")]
pub struct Entry {
    pub version: AtomicU64,
    pub valid_version: AtomicU64,
    pub name: [AtomicU64; 2],
    pub server: [AtomicU64; 2],
    pub place: AtomicU32,
    pub bitmap: AtomicU16,
    pub lease: AtomicU16,
    pub value_bytes: AtomicU16,
    pub value_sum: AtomicU16,
    pub port: AtomicU16,
    pub key_bytes: AtomicU8,
    pub kind: AtomicU8,

    pub epoch: AtomicU64,
    pub expires_ns: AtomicU64,
    pub writing: AtomicU64,
    pub ask_from_ns: AtomicU64,
    pub key: KeyWords,
    pub leaves: AtomicU64,
    pub unused: [AtomicU64; 3],
}

/// In [`Entry::kind`], beside the protocol: the key is absent (NetCache).
pub const KIND_ABSENT: u8 = 4;

impl Entry {
    /// The protocol of the key.
    pub fn protocol(&self) -> Protocol {
        if self.kind.load(Relaxed) & !KIND_ABSENT == Protocol::Memcache as u8 {
            Protocol::Memcache
        } else {
            Protocol::NetCache
        }
    }

    /// Returns the name of the key in the lookup table.
    pub fn name(&self) -> Name {
        let mut name = [0; 16];
        for (bytes, word) in name.chunks_mut(8).zip(&self.name) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        name
    }

    /// The key itself; empty if the name is the key.
    pub fn key(&self) -> Vec<u8> {
        let bytes = self.key.0.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        bytes.take(self.key_bytes.load(Relaxed).into()).collect()
    }
}

/// A key, padded with zero bytes.
#[repr(C)]
#[derive(Debug)]
pub struct KeyWords(pub [AtomicU64; 32]);

impl Default for KeyWords {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// 64 bytes of counters or bits.
pub type Line = [AtomicU64; 8];
/// The keys of one hash's first bits, in the lookup table.
pub type Bucket = Line;
/// A value in the fixed layout.
pub type Slot = [AtomicU64; VALUE_WORDS];
/// A part of a value in register arrays.
pub type Unit = [AtomicU64; UNIT_WORDS];

/// State of a connection to a memcached that waits for answers; `struct flow` describes the words.
pub type Flow = [AtomicU64; 69];
/// Maximum number of connections.
pub const FLOWS: usize = 1 << 15;
/// The keys that a connection's writes hold; `struct holds` says how.
pub type Holds = [AtomicU64; 16];
/// Number of hold counters, indexed by the first bits of a key's name.
pub const HOLDS: u32 = 1 << 15;
/// Answers that a connection is taken to wait for when its beginning was not seen (decision 0033).
pub const UNSEEN_MAX: usize = 64;

/// Interfaces towards servers that may be named.
pub const SERVER_INTERFACES_MAX: usize = 8;
/// Delayed `flush_all` that are recorded individually; further ones are merged into one that lasts
/// from the first to the last.
pub const FLUSHES_MAX: usize = 8;

/// A `flush_all` that takes effect later, in nanoseconds of the monotonic clock.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Flush {
    /// No sooner.
    pub from_ns: AtomicU64,
    /// And no later; over, or none, if that has passed.
    pub until_ns: AtomicU64,
}

/// State common to all entries; all fields but the last concern memcached's entries.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Shared {
    /// Incremented to drop everything.
    pub epoch: AtomicU64,
    /// No fill before, in nanoseconds of the monotonic clock.
    pub fills_blocked_ns: AtomicU64,
    /// Time since which every segment was seen, on the same clock; 0: none was seen yet.
    pub watched_ns: AtomicU64,
    /// 1: a datagram that may be a write was taken up, since the maps are there.
    pub datagrams: AtomicU64,
    /// Difference between the wall clock and the monotonic clock.
    pub wall_ns: AtomicU64,
    /// Flushes with a time in the future.
    pub flushes: [Flush; FLUSHES_MAX],
    /// Numbers of the interfaces where agents' messages come in; 0: none.
    pub server_interfaces: [AtomicU32; SERVER_INTERFACES_MAX],
}

impl Shared {
    /// Time from which no value may be served that a server sent at `asked_ns`: that of a
    /// `flush_all` which the server had not executed then, or may not have.
    pub fn flushed_from(&self, asked_ns: u64) -> Option<u64> {
        let to_come = self.flushes.iter().filter(|flush| flush.until_ns.load(Acquire) > asked_ns);
        to_come.map(|flush| flush.from_ns.load(Acquire)).min()
    }
}

const _: () = assert!(size_of::<Entry>() == 384);
const _: () = assert!(Report::BYTES == 320);
const _: () = assert!(size_of::<Processor>() == 136);
const _: () = assert!(size_of::<Shared>() == 200);

/// State of one processor's sampling, and its counters in the order of [`COUNTERS`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Processor {
    /// The last random number of the sampling.
    pub drawn: u64,
    /// The counters.
    pub counts: [u64; COUNTERS.len()],
}

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for Processor {}

/// Why the data plane reports a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    /// Not cached, and asked for often.
    Hot,
    /// Cached, and a write made it invalid (memcached only: NetCache's agent updates it).
    Stale,
}

/// `struct report`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Why.
    pub kind: ReportKind,
    /// The name of the key in the lookup table.
    pub name: Name,
    /// Its hash, as the sketch sees it.
    pub hash: u64,
    /// The sketch's estimate.
    pub estimate: u32,
    /// Stale: which entry.
    pub place: u32,
    /// The server that stores it.
    pub server: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The key; empty for NetCache's long ones, of which only the hash is known.
    pub key: Vec<u8>,
}

impl Report {
    const BYTES: usize = 320;

    /// `None` if these bytes are no report.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let array = |at: usize| bytes.get(at..at + 16)?.try_into().ok();
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let key_bytes = usize::from(u16_at(38)?);
        Some(Self {
            kind: match u32_at(24)? {
                1 => ReportKind::Hot,
                2 => ReportKind::Stale,
                _ => return None,
            },
            name: array(0)?,
            hash: u64::from_ne_bytes(bytes.get(16..24)?.try_into().ok()?),
            estimate: u32_at(28)?,
            place: u32_at(32)?,
            server: address(array(48)?, u16::from_be(u16_at(36)?)),
            protocol: match bytes.get(40)? {
                1 => Protocol::NetCache,
                2 => Protocol::Memcache,
                _ => return None,
            },
            key: bytes.get(64..64 + key_bytes.min(KEY_BYTES_MAX))?.to_vec(),
        })
    }
}

/// An address from the bytes both sides keep it in.
pub fn address(bytes: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(bytes).to_canonical(), port)
}

/// The bytes both sides keep an address in.
pub fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Counters of the data plane, in the order of `enum counter`: name and meaning.
pub const COUNTERS: [(&str, &str); 16] = [
    ("packets", "to a configured port"),
    ("hit", "reads answered"),
    ("miss", "reads of keys that are not cached"),
    ("invalid", "cached, but a write is in progress"),
    ("expired", "cached, but the lease or lifetime has ended"),
    ("write", "made a cached key invalid"),
    ("update", "values stored by update packets"),
    ("superseded", "update packets older than a later write"),
    ("flush", "all memcached items dropped"),
    ("opaque", "not understood, passed unchanged"),
    ("torn", "a write arrived while the value was copied"),
    ("report", "keys reported to the controller"),
    ("report-lost", "reports lost because the ring buffer was full"),
    ("answered", "replies to writes that passed"),
    ("no-room", "the driver left no room after the packet for the answer"),
    ("forged", "NetCache messages from a side that may not send them: dropped"),
];
