//! What other threads have to say to a worker.

use std::{
    io, mem,
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use cache::lease::Ticket;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

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
pub(super) struct Inbox {
    notes: Mutex<Vec<Note>>,
    /// Wakes the worker.
    event: OwnedFd,
    /// It was woken and has not looked yet.
    woken: AtomicBool,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { notes: Mutex::default(), event, woken: AtomicBool::new(false) })
    }

    /// Leaves a note.
    pub(super) fn leave(&self, note: Note) {
        self.notes.lock().push(note);
        self.wake();
    }

    /// Makes the worker look around.
    pub(super) fn wake(&self) {
        if !self.woken.swap(true, SeqCst) {
            // It fails only when the counter is full, and then the worker is awake.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// All notes left since the last call.
    pub(super) fn take(&self) -> Vec<Note> {
        self.woken.store(false, SeqCst);
        mem::take(&mut *self.notes.lock())
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

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
                inbox.leave(Note::Filled(ticket));
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

    #[test]
    fn notes_wake_and_are_taken_once() {
        let inbox = Inbox::new().unwrap();
        inbox.leave(Note::Filled(Ticket(1)));
        inbox.leave(Note::Filled(Ticket(2)));
        let mut wakes = [0; 8];
        assert_eq!(rustix::io::read(&inbox, &mut wakes), Ok(8));
        assert_eq!(u64::from_ne_bytes(wakes), 1);
        assert_eq!(inbox.take().len(), 2);
        assert!(inbox.take().is_empty());
    }
}
