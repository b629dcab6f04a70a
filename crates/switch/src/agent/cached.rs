//! A key that may be in the switch, and what it waits for.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use wire::netcache::Flags;

/// A write, as it arrived.
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

/// What the switch, or the controller, has to answer before the key's writes go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Waiting {
    Nothing,
    /// The value was told; is it installed?
    Installed,
    /// The value was sent; was it taken?
    Ack,
    /// A tag was asked for, with this sequence number.
    Tag(u32),
}

/// A key that may be in the switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cached {
    /// Newest version the switch was sent a value of.
    pub(super) version: u64,
    pub(super) flags: Flags,
    pub(super) waiting: Waiting,
    /// When it is asked for again, and how long that is after the last time.
    pub(super) again: Duration,
    pub(super) pause: Duration,
    pub(super) held: VecDeque<Write>,
    /// Somebody wrote around the agent since the switch was sent a value.
    pub(super) changed: bool,
}
