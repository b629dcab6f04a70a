//! A key that may be in the switch, and the reply that it waits for.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use wire::netcache::Flags;

/// A write as received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Write {
    pub(super) client: SocketAddr,
    pub(super) sequence: u32,
    pub(super) flags: Flags,
    /// 0: none.
    pub(super) tag: u64,
    /// `None` deletes.
    pub(super) value: Option<Vec<u8>>,
}

/// The reply of the switch or the controller that the key's writes wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Waiting {
    #[default]
    Nothing,
    /// The value was sent with this sequence number; a reply on its installation is awaited. The
    /// version is the one before; 0: there was none.
    Installed { before: u64, sequence: u32 },
    /// The value was sent; whether the switch stored it is unknown.
    Ack,
    /// A tag was requested, with this sequence number.
    Tag(u32),
}

/// A key that may be in the switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Cached {
    /// Newest version whose value was sent to the switch.
    pub(super) version: u64,
    pub(super) flags: Flags,
    pub(super) waiting: Waiting,
    /// Time of the next retry, and the interval since the last.
    pub(super) again: Duration,
    pub(super) pause: Duration,
    pub(super) tries: u32,
    pub(super) held: VecDeque<Write>,
    /// A write bypassed the agent after a value was sent to the switch.
    pub(super) changed: bool,
}

impl Cached {
    /// Whether the tag is that of a write that passed the switch after the newest known one.
    pub(super) fn precedes(&self, tag: u64, ahead_max: u64) -> bool {
        (1..=ahead_max).contains(&tag.wrapping_sub(self.version))
    }
}
