//! Replies: how the cache handles them, and the pieces of the origin's stream.

use std::time::Duration;

use crate::lease::Character;

/// The kind of reply that a request gets.
///
/// Its tag takes a word for the same reason as that of [`super::Flow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Reply {
    /// One reply, passed on as it comes.
    Plain,
    /// One reply that [`super::Filter::observe`] must see: it changes the connection's state.
    Observed,
    /// One reply that [`super::Filter::rewrite`] changes before the client sees it.
    Rewritten,
    /// No reply.
    Never,
    /// Unknown: no version of the protocol has this request. An origin without it closes the
    /// connection.
    Unknown,
    /// One reply, after which the origin closes the connection.
    Last,
    /// One reply, after which the client wants different replies or none. The origin is asked by
    /// [`super::Filter::keep_answering`] instead, so that its replies can be matched.
    Hush(Hush),
    /// This many pushes of the origin, which [`super::Filter::confirms`] recognises, or one reply,
    /// which is an error.
    Confirmed(usize),
    /// After this the origin sends messages at any time; replies can no longer be matched.
    Stream,
}

/// Which replies a client wants to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hush {
    /// All.
    Off,
    /// All but the next.
    Next,
    /// No replies.
    On,
}

/// A piece of the origin's byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes that belong to the current message; 0 if more bytes are needed to determine it, or if
    /// it ends here without any more bytes.
    pub bytes: usize,
    /// The message ends with them.
    pub ends: bool,
    /// The message answers a request (otherwise the origin sent it unasked, like a push).
    pub answers: bool,
    /// More messages answer the same request (MongoDB's exhaust).
    pub continues: bool,
}

/// How a reply combines the answers for several keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combines {
    /// In the order of the keys.
    InOrder,
    /// In any order: each answer names its key.
    ByName,
    /// In a form that can be written only when all of them are there.
    Whole,
}

/// A reply that waits for its probe.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    /// The variant that the reply answers, as in [`super::Read`].
    pub variant: &'a [u8],
    /// The output of [`super::Filter::admit`]; empty if the reply will not be stored.
    pub packed: &'a [u8],
}

/// Result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// Time at which the key expires at the origin.
    pub expires_at: Option<Duration>,
    /// The character of the key's namespace, if the probe asked for it.
    pub character: Character,
}
