//! Every operation, with its sender and receiver: the single table of the protocol.
//!
//! The build script of `switch` includes this file and writes the same for the data plane in C, and
//! a test holds `docs/protocols/netcache.md` against it. It uses nothing but `std`, therefore.

/// Senders and receivers of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// Reads and writes keys.
    Client,
    /// The program on the way.
    DataPlane,
    /// The server's side of coherence.
    Agent,
    /// Decides what the data plane caches.
    Controller,
}

/// Maximum distance of a write's tag from the newest version that the agent knows: at most this
/// many consecutive writes of one key may pass the data plane and be lost. A tag further ahead was
/// not assigned by the data plane.
pub const TAGS_AHEAD_MAX: u64 = 1 << 24;

macro_rules! operations {
    ($($(#[$meaning:meta])* $name:ident = $number:literal, $from:ident => $to:ident;)*) => {
        /// The type of a message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op {
            $($(#[$meaning])* $name = $number,)*
        }

        impl Op {
            /// All of them, in the order of their numbers, which begin at 1.
            pub const ALL: &[Op] = &[$(Op::$name),*];

            /// Its only permitted sender.
            pub fn sender(self) -> Party {
                match self { $(Op::$name => Party::$from,)* }
            }

            /// Its receiver.
            pub fn receiver(self) -> Party {
                match self { $(Op::$name => Party::$to,)* }
            }
        }
    };
}

operations! {
    /// Requests the value of the key.
    Get = 1, Client => Agent;
    /// This is its value.
    Put = 2, Client => Agent;
    /// It has none.
    Delete = 3, Client => Agent;
    /// [`Op::Put`], of a cached key: tagged on its way, and still from the client's address.
    PutCached = 4, DataPlane => Agent;
    /// [`Op::Delete`], of a cached key: tagged on its way, and still from the client's address.
    DeleteCached = 5, DataPlane => Agent;
    /// The value, if [`Flags::FOUND`](super::Flags::FOUND); the data plane answers so for the
    /// agent.
    GetReply = 6, Agent => Client;
    /// Applied.
    PutReply = 7, Agent => Client;
    /// Applied.
    DeleteReply = 8, Agent => Client;
    /// The value of the write with this version.
    Update = 9, Agent => DataPlane;
    /// Served now if [`Flags::STORED`](super::Flags::STORED); else overtaken by a later write.
    UpdateAck = 10, DataPlane => Agent;
    /// A write is here that has no tag; the newest version known is this one.
    Invalidate = 11, Agent => DataPlane;
    /// Its tag, if the key is [`Flags::CACHED`](super::Flags::CACHED); else the version that was
    /// asked with.
    InvalidateAck = 12, DataPlane => Agent;
    /// Requests to hold writes to this key and to send its value, to be cached under this version.
    Fetch = 13, Controller => Agent;
    /// The value asked for.
    Fetched = 14, Agent => Controller;
    /// It is in the switch, release the writes.
    Installed = 15, Controller => Agent;
    /// It will not be, release the writes.
    Abandoned = 16, Controller => Agent;
    /// Requests permission to serve the agent's keys.
    Lease = 17, Controller => Agent;
    /// Yes, for the agreed time after you asked, if you know me by this generation.
    Leased = 18, Agent => Controller;
}

impl Op {
    /// The operation with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }
}
