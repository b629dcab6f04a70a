//! How a worker is told things from outside its event loop.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use parking_lot::Mutex;
use rustix::event::EventfdFlags;

/// What a worker is told.
pub(super) enum Note {
    /// A client to be served.
    Accepted(TcpStream, SocketAddr),
    /// Something is to be done for this client.
    Look(u64),
}

/// Notes for one worker.
pub(super) struct Inbox {
    notes: Mutex<Vec<Note>>,
    event: OwnedFd,
    /// The event is raised and not yet noticed.
    raised: AtomicBool,
    /// Some answers of the worker wait until what they acknowledge is durable.
    pub(super) holds: AtomicBool,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (raised, holds) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { notes: Mutex::default(), event, raised, holds })
    }

    pub(super) fn send(&self, note: Note) {
        self.notes.lock().push(note);
        self.wake();
    }

    /// Lets the worker look around.
    pub(super) fn wake(&self) {
        if !self.raised.swap(true, SeqCst) {
            // Fails only if the counter would overflow, and then the worker is awake anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// What there is, and is considered noticed.
    pub(super) fn take(&self, notes: &mut Vec<Note>) {
        if self.raised.load(SeqCst) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
            self.raised.store(false, SeqCst);
            std::mem::swap(&mut *self.notes.lock(), notes);
        }
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
