//! Every operation, with its sender and receiver: the single table of the protocol.
//!
//! The build script of `switch` includes this file and generates the C constants of the data plane
//! from it, and a test compares it with `docs/protocols/netcache.md`. It therefore uses only `std`.

/// Senders and receivers of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// Reads and writes keys.
    Client,
    /// The program on the path.
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
    /// Sets the value of the key.
    Put = 2, Client => Agent;
    /// Deletes the key.
    Delete = 3, Client => Agent;
    /// [`Op::Put`] of a cached key: tagged by the data plane, with the client's address as its
    /// source.
    PutCached = 4, DataPlane => Agent;
    /// [`Op::Delete`] of a cached key: tagged by the data plane, with the client's address as its
    /// source.
    DeleteCached = 5, DataPlane => Agent;
    /// The value, if [`Flags::FOUND`](super::Flags::FOUND) is set. The data plane sends it in place
    /// of the agent on a hit.
    GetReply = 6, Agent => Client;
    /// Applied.
    PutReply = 7, Agent => Client;
    /// Applied.
    DeleteReply = 8, Agent => Client;
    /// The value of the write with this version.
    Update = 9, Agent => DataPlane;
    /// The value is served from now on if [`Flags::STORED`](super::Flags::STORED) is set; otherwise
    /// a later write has superseded it.
    UpdateAck = 10, DataPlane => Agent;
    /// The agent received a write without a tag; the message has the newest version that it knows.
    Invalidate = 11, Agent => DataPlane;
    /// The tag for that write, if [`Flags::CACHED`](super::Flags::CACHED) is set; otherwise the
    /// version of the request.
    InvalidateAck = 12, DataPlane => Agent;
    /// Requests to hold writes to this key and to send its value, to be cached under this version.
    Fetch = 13, Controller => Agent;
    /// The requested value.
    Fetched = 14, Agent => Controller;
    /// The value is in the switch: release the writes.
    Installed = 15, Controller => Agent;
    /// The value will not be cached: release the writes.
    Abandoned = 16, Controller => Agent;
    /// Requests permission to serve the agent's keys.
    Lease = 17, Controller => Agent;
    /// Permission for the agreed time from the request on, if the controller knows the agent by
    /// this generation.
    Leased = 18, Agent => Controller;
}

impl Op {
    /// The operation with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }
}
