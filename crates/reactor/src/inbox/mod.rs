//! Messages from other threads to a thread that sleeps until its sockets are ready.

mod notes;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::event::{EventfdFlags, eventfd};

use crate::sync;
use notes::{Event, Notes};

/// Notes for one thread, which watches the inbox like a socket, edge-triggered. The event counter
/// is never reset, because every increment is an edge of its own.
pub type Inbox<N> = Notes<N, EventFd>;

/// A counter that the kernel can wait for.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl Event for EventFd {
    fn raise(&self) {
        // It fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl<N> Inbox<N> {
    /// An empty inbox.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::with(EventFd(event)))
    }
}

impl<N> AsFd for Inbox<N> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event().0.as_fd()
    }
}

/// The inboxes of all workers of a service.
pub struct Post<N>(Vec<Arc<Inbox<N>>>);

impl<N> Post<N> {
    /// An inbox for each of `workers`.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(workers: usize) -> io::Result<Self> {
        Ok(Self((0..workers).map(|_| Inbox::new().map(Arc::new)).collect::<io::Result<_>>()?))
    }

    /// The inbox of a worker.
    #[inline]
    pub fn inbox(&self, worker: usize) -> &Arc<Inbox<N>> {
        &self.0[worker]
    }

    /// Number of workers.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a service has workers")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Wakes every worker.
    pub fn wake_all(&self) {
        self.0.iter().for_each(|inbox| inbox.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_wake_and_are_taken_once() {
        let inbox = Inbox::new().unwrap();
        inbox.send(1);
        inbox.send(2);
        let mut wakes = [0; 8];
        assert_eq!(rustix::io::read(&inbox, &mut wakes), Ok(8));
        assert_eq!(u64::from_ne_bytes(wakes), 1);
        let mut notes = Vec::new();
        inbox.take(&mut notes);
        assert_eq!(notes, [1, 2]);
        notes.clear();
        inbox.take(&mut notes);
        assert!(notes.is_empty());
    }
}
