//! State that is kept of each request until its reply.

use wire::resp::Version;

use super::{Asked, Topology};
use crate::filter::Form;

/// State of a request that is kept until its reply.
///
/// Its tag takes a word for the same reason as that of [`Flow`](super::Flow).
#[derive(Debug, Clone)]
#[repr(u64)]
pub enum Tag {
    /// No state.
    Plain,
    /// A command that blocks until another client acts.
    Blocking,
    /// A read of several keys.
    Many,
    /// A PTTL sent by the cache itself.
    Probe,
    /// An identity check sent by the cache itself.
    Check(Asked),
    /// SELECT, and the database it asks for; none if that is no number.
    Select(Option<u32>),
    /// AUTH or HELLO, and its arguments.
    Identify {
        /// The protocol version, if it changes.
        version: Option<Version>,
        /// The user, if it changes.
        user: Option<Box<[u8]>>,
        /// The reply is the same for every client, because the command asks for nothing else.
        greets: Option<Form>,
    },
    /// A HELLO sent by the cache itself.
    Restore,
    /// RESET.
    Reset,
    /// MULTI.
    Multi,
    /// EXEC.
    Exec,
    /// DISCARD.
    Discard,
    /// (P|S)(UN)SUBSCRIBE in the new protocol, by what its confirmations are called.
    Subscribe(&'static str),
    /// Code that runs at the origin: its errors are its own.
    Script {
        /// The command, if the connection may lack the right to it.
        doubted: Option<&'static str>,
    },
    /// A call of an empty script, sent by the cache after such a command.
    Proof,
    /// A command that no table has.
    Unknown,
    /// Asks for the nodes of a cluster.
    Topology(Topology),
}
