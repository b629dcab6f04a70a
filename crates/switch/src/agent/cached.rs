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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Waiting {
    Nothing,
    /// The value was told; is it installed?
    Installed {
        since: Duration,
    },
    /// The value was sent; was it taken?
    Ack {
        since: Duration,
    },
    /// A tag was asked for, with this sequence number.
    Tag {
        sequence: u32,
        since: Duration,
    },
}

/// A key that may be in the switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cached {
    /// Newest version the switch was sent a value of.
    pub(super) version: u64,
    pub(super) flags: Flags,
    pub(super) waiting: Waiting,
    pub(super) held: VecDeque<Write>,
}

impl Cached {
    /// Since when it waits; `None` if it does not.
    pub(super) fn waiting_since(&self) -> Option<Duration> {
        match self.waiting {
            Waiting::Nothing => None,
            Waiting::Installed { since } | Waiting::Ack { since } | Waiting::Tag { since, .. } => {
                Some(since)
            }
        }
    }
}
