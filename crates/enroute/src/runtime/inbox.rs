//! What other threads have to say to a worker.

use std::{io, net::TcpStream, sync::Arc};

use cache::lease::Ticket;

use super::worker::Accepted;
use crate::inbox;

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
pub(super) type Inbox = inbox::Inbox<Note>;

/// The inboxes of all workers.
pub(super) struct Post(Vec<Arc<Inbox>>);

impl Post {
    pub(super) fn new(workers: usize) -> io::Result<Self> {
        Ok(Self((0..workers).map(|_| Inbox::new().map(Arc::new)).collect::<io::Result<_>>()?))
    }

    pub(super) fn inbox(&self, worker: usize) -> &Arc<Inbox> {
        &self.0[worker]
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells the connections of `tickets` that the fill they waited for is over.
    pub(super) fn deliver(&self, tickets: &mut Vec<Ticket>) {
        for ticket in tickets.drain(..) {
            if let Some(inbox) = self.0.get(Seat::of(ticket).worker) {
                inbox.send(Note::Filled(ticket));
            }
        }
    }

    /// Makes every worker look around.
    pub(super) fn wake_all(&self) {
        self.0.iter().for_each(|inbox| inbox.wake());
    }
}

/// Where a connection is served. Its ticket says so, and how many sat there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) worker: usize,
    pub(super) number: usize,
}

const WORKER_SHIFT: u32 = 48;
const NUMBER_BITS: u32 = 24;

impl Seat {
    pub(super) fn of(Ticket(bits): Ticket) -> Self {
        let number = bits as usize & ((1 << NUMBER_BITS) - 1);
        Self { worker: (bits >> WORKER_SHIFT) as usize, number }
    }

    /// The ticket of who sits here after `before` others. It comes again after sixteen million; who
    /// is then told of a fill that another waited for asks storage once too often.
    pub(super) fn ticket(self, before: u64) -> Ticket {
        let before = before & ((1 << (WORKER_SHIFT - NUMBER_BITS)) - 1);
        Ticket((self.worker as u64) << WORKER_SHIFT | before << NUMBER_BITS | self.number as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_says_where_its_connection_sits() {
        let seat = Seat { worker: 3, number: 70_000 };
        assert_eq!(Seat::of(seat.ticket(u64::MAX)), seat);
        assert_ne!(seat.ticket(1), seat.ticket(2));
    }
}
