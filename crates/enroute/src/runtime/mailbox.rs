//! How one connection's task is woken from outside: by a fill it waits for, or to drain.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    task::Context,
};

use atomic_waker::AtomicWaker;
use cache::lease::Ticket;
use parking_lot::Mutex;

/// What is left for one connection.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    waker: AtomicWaker,
    filled: AtomicBool,
}

impl Mailbox {
    /// The task of this connection is the one to wake.
    pub(super) fn register(&self, context: &Context<'_>) {
        self.waker.register(context.waker());
    }

    /// Is the fill this connection waited for over?
    pub(super) fn take_filled(&self) -> bool {
        // Looked at on every wake of the task; the swap only when there is something.
        self.filled.load(Relaxed) && self.filled.swap(false, SeqCst)
    }

    fn fill(&self) {
        self.filled.store(true, SeqCst);
        self.waker.wake();
    }
}

/// The mailboxes of all connections, by ticket.
#[derive(Debug, Default)]
pub(super) struct Post {
    next: AtomicU64,
    boxes: Mutex<HashMap<Ticket, Arc<Mailbox>>>,
}

impl Post {
    /// A mailbox under a ticket that was never used.
    pub(super) fn open(&self) -> (Ticket, Arc<Mailbox>) {
        let ticket = Ticket(self.next.fetch_add(1, Relaxed));
        let mailbox = Arc::new(Mailbox::default());
        self.boxes.lock().insert(ticket, Arc::clone(&mailbox));
        (ticket, mailbox)
    }

    /// The connection is gone.
    pub(super) fn close(&self, ticket: Ticket) {
        self.boxes.lock().remove(&ticket);
    }

    /// Tells the connections of `tickets` that the fill they waited for is over.
    pub(super) fn deliver(&self, tickets: &mut Vec<Ticket>) {
        if tickets.is_empty() {
            return;
        }
        let boxes = self.boxes.lock();
        for ticket in tickets.drain(..) {
            if let Some(mailbox) = boxes.get(&ticket) {
                mailbox.fill();
            }
        }
    }

    /// Wakes every connection, so that it sees what has changed around it.
    pub(super) fn wake_all(&self) {
        for mailbox in self.boxes.lock().values() {
            mailbox.waker.wake();
        }
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.boxes.lock().len()
    }
}
