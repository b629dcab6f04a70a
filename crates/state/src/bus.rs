//! Messages published to find out whether a node's messages have arrived at another node over the
//! cluster bus (`docs/decisions/0102-slot-ownership-handover.md`).

use wire::resp::Reply;

use crate::{
    Node,
    query::{Query, done, words},
};

/// Prefix of the channels.
pub const CHANNELS: &str = "enroute:bus:";

/// The channel of one turn.
#[must_use]
pub fn channel(turn: u64) -> String {
    format!("{CHANNELS}{turn}")
}

/// Subscribes a connection to the channel.
#[must_use]
pub fn subscribe(channel: &str) -> Query<'_, ()> {
    Query::new(words!["SUBSCRIBE", channel], done)
}

/// Publishes at `source` that it is the sender.
#[must_use]
pub fn publish(channel: &str, source: Node) -> Query<'_, ()> {
    Query::new(words!["PUBLISH", channel, u64::from(source.0)], done)
}

/// The sender of a message on a channel.
#[must_use]
pub fn source(message: &Reply) -> Option<Node> {
    Some(Node(message.list().last()?.text()?.parse().ok()?))
}
