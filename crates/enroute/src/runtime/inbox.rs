//! Messages from other threads to a worker.

use std::io;

use cache::lease::Ticket;
use reactor::Token;

use super::{reached::Parts, worker::Accepted};

/// A connection to a server that a session has asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Identifies the session.
    pub(super) ticket: Ticket,
    /// Distinguishes its connections if its origin is several servers; otherwise 0.
    pub(super) number: u32,
}

/// A message to a worker.
pub(super) enum Note {
    /// A client to serve.
    Accepted(Box<Accepted>),
    /// The connection to an origin, for a session.
    Connected(Wanted, io::Result<Parts>),
    /// The watch has confirmed the origin after this connection was made.
    Confirmed(Wanted),
    /// The fill that the connection of this ticket waited for has ended.
    Filled(Ticket),
}

/// The messages to one worker. Their number is bounded by the number of connections, as each can
/// wait for one client, one fill, and one connection to each server of its origin.
pub(super) type Inbox = reactor::Inbox<Note>;

/// The inboxes of all workers.
pub(super) type Post = reactor::Post<Note>;

/// Notifies the connections of `tickets` that the fill they waited for has ended.
pub(super) fn deliver(post: &Post, tickets: &mut Vec<Ticket>) {
    for ticket in tickets.drain(..) {
        let worker = worker_of(ticket);
        if worker < post.len() {
            post.inbox(worker).send(Note::Filled(ticket));
        }
    }
}

/// The ticket of the connection with this token; it contains its worker. The sixteen-millionth
/// connection after it has the same ticket, and may be notified of a fill that it did not wait for:
/// it then queries storage once more than needed.
pub(super) fn ticket(worker: u16, token: Token) -> Ticket {
    Ticket(token.tagged(worker))
}

/// The worker that serves the connection of this ticket.
pub(super) fn worker_of(Ticket(bits): Ticket) -> usize {
    usize::from(Token::of(bits).1)
}
