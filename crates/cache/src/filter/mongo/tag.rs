//! State of a request until its reply.

use super::{check, identity};
use crate::filter::Form;

/// State of a request that is kept until its reply.
#[derive(Debug, Clone, Default)]
pub struct Tag {
    pub(super) request_id: i32,
    /// Came as OP_QUERY; its reply is an OP_REPLY.
    pub(super) legacy: bool,
    /// The client accepts a stream of replies.
    pub(super) exhaust: bool,
    /// The origin answers only after something has changed.
    pub(super) waits: bool,
    /// A request whose reply is the same for every client.
    pub(super) greets: Option<Form>,
    /// Its step of authentication.
    pub(super) step: Option<identity::Step>,
    /// An identity check sent by the cache itself.
    pub(super) asked: Option<check::Asked>,
    /// Number of documents that it states, if they may be stored.
    pub(super) stated: Option<usize>,
    /// The unique field it reads by, as an index into the settings; none for `_id`.
    pub(super) field: Option<u16>,
}
