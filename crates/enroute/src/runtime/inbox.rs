//! What other threads have to say to a worker.

use std::{io, net::TcpStream};

use cache::lease::Ticket;
use reactor::Token;

use super::worker::Accepted;

/// One thing said to a worker.
pub(super) enum Note {
    /// A client to serve.
    Accepted(Box<Accepted>),
    /// The way to an origin, for the connection of this ticket.
    Connected(Ticket, io::Result<TcpStream>),
    /// The watch has looked at the origin since the connection of this ticket was made.
    Confirmed(Ticket),
    /// The fill is over that the connection of this ticket waited for.
    Filled(Ticket),
}

/// The notes for one worker. What is in it is bounded by the connections there may be, and by what
/// each can wait for: one client, one origin, one fill.
pub(super) type Inbox = reactor::Inbox<Note>;

/// The inboxes of all workers.
pub(super) type Post = reactor::Post<Note>;

/// Tells the connections of `tickets` that the fill they waited for is over.
pub(super) fn deliver(post: &Post, tickets: &mut Vec<Ticket>) {
    for ticket in tickets.drain(..) {
        let worker = worker_of(ticket);
        if worker < post.len() {
            post.inbox(worker).send(Note::Filled(ticket));
        }
    }
}

/// The ticket of the connection with this token, and its worker in it. A connection with the same
/// ticket, sixteen million later, that is told of a fill which another one waited for asks storage
/// once too often.
pub(super) fn ticket(worker: u16, token: Token) -> Ticket {
    Ticket(token.tagged(worker))
}

/// The worker that serves the connection of this ticket.
pub(super) fn worker_of(Ticket(bits): Ticket) -> usize {
    usize::from(Token::of(bits).1)
}
