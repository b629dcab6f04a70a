//! Properties of a command, in Redis's terms, and further ones that a cache needs.

/// Set of properties beside the effect: the flags of COMMAND INFO that affect how a command is
/// handled, and two of our own.
///
/// They agree with Redis 7.0 for each command that Redis 7.0 has, except
/// [`BLOCKING`](Self::BLOCKING) of WAIT, which is of 7.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The reply may wait for other clients, and with it every reply after it.
    pub const BLOCKING: Self = Self(1);
    /// Runs code on the server. It should access its declared keys only, but no server enforces
    /// that: a caller may treat the call as a write to everything.
    pub const SCRIPT: Self = Self(1 << 1);
    /// May write its keys in a database other than the selected one (COPY, MOVE, scripts).
    pub const OTHER_DATABASE: Self = Self(1 << 2);
    /// May change values. Some commands with this flag do not have a write as their
    /// [effect](super::Effect), and some without it do.
    pub const WRITE: Self = Self(1 << 3);
    /// Reads values.
    pub const READONLY: Self = Self(1 << 4);
    /// Refused when memory is full.
    pub const DENYOOM: Self = Self(1 << 5);
    /// An administrative command.
    pub const ADMIN: Self = Self(1 << 6);
    /// Publishes or subscribes.
    pub const PUBSUB: Self = Self(1 << 7);
    /// Not allowed in scripts.
    pub const NOSCRIPT: Self = Self(1 << 8);
    /// Answered while the server loads its data.
    pub const LOADING: Self = Self(1 << 9);
    /// Answered by a replica that lost its master.
    pub const STALE: Self = Self(1 << 10);
    /// Takes constant or logarithmic time.
    pub const FAST: Self = Self(1 << 11);
    /// Answered before the client has logged in.
    pub const NO_AUTH: Self = Self(1 << 12);
    /// Refused inside MULTI.
    pub const NO_MULTI: Self = Self(1 << 13);

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the flags that Redis has too, in its order, as COMMAND INFO shows them.
    ///
    /// [`BLOCKING`](Self::BLOCKING) is not among them: here it means any wait for other clients.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(flag, _)| self.contains(*flag)).map(|&(_, name)| name)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The flags that Redis has too.
const NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MULTI, "no_multi"),
];
