//! Readiness of sockets: one epoll for each loop.
//!
//! Edge-triggered and registered once: the kernel reports when a socket becomes ready, and a
//! [`Socket`](crate::Socket) keeps that state until a call returns "would block". A request costs
//! one wait, one read and one write, and no other system call.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, Event, EventData, EventFlags},
    },
};

/// Time to poll before sleeping: an answer from the same host arrives within it, and a wake-up
/// would take about as long again.
const POLL_LIMIT: Duration = Duration::from_micros(100);

/// Whether polling pays off. After an unsuccessful attempt it is not tried again until an answer
/// arrives within [`POLL_LIMIT`].
#[derive(Debug, Default)]
pub struct BusyPolling {
    pays: bool,
}

/// Waits for many sockets.
#[derive(Debug)]
pub struct Reactor {
    epoll: OwnedFd,
}

impl Reactor {
    /// A reactor that watches nothing yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `source` until it is closed; its events carry `token`.
    ///
    /// # Errors
    /// The system cannot watch it.
    pub fn watch(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags)?)
    }

    /// The same for input alone, level-triggered: for a source that can be written nearly always,
    /// and whose every other change would be an event too.
    ///
    /// # Errors
    /// The system cannot watch it.
    pub fn watch_input(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Waits until there are `events`, at most for `limit`.
    ///
    /// # Errors
    /// The wait fails.
    #[inline]
    pub fn wait(&self, events: &mut Events, limit: Option<Duration>) -> io::Result<()> {
        events.0.clear();
        let limit = limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match epoll::wait(&self.epoll, spare_capacity(&mut events.0), limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Reactor::wait`], but polls before it sleeps while `polling` pays off.
    ///
    /// # Errors
    /// The wait fails.
    pub fn wait_polling(
        &self,
        events: &mut Events,
        limit: Duration,
        polling: &mut BusyPolling,
    ) -> io::Result<()> {
        let begun = Instant::now();
        if polling.pays {
            while begun.elapsed() < POLL_LIMIT.min(limit) {
                self.wait(events, Some(Duration::ZERO))?;
                if !events.0.is_empty() {
                    return Ok(());
                }
                // The process it waits for may need this core.
                thread::yield_now();
            }
        }
        self.wait(events, Some(limit.saturating_sub(begun.elapsed())))?;
        polling.pays = begun.elapsed() < POLL_LIMIT;
        Ok(())
    }
}

/// The events found by the end of a wait.
pub struct Events(Vec<Event>);

impl Events {
    /// Room for `count` events: more are taken the next time.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Whether there are no events.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tokens, and the readiness of each.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u64, Possible)> {
        self.0.iter().map(|event| {
            let Event { flags, data } = *event;
            let failed = flags.contains(EventFlags::ERR);
            let broken = failed || flags.contains(EventFlags::HUP);
            let end = broken || flags.contains(EventFlags::RDHUP);
            let possible = Possible {
                read: end || flags.contains(EventFlags::IN),
                write: broken || flags.contains(EventFlags::OUT),
                end,
                broken,
                failed,
            };
            (data.u64(), possible)
        })
    }
}

/// Readiness of a socket.
#[derive(Debug, Clone, Copy)]
pub struct Possible {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// The other end has closed, or the connection is broken.
    pub(crate) end: bool,
    /// It was reset, or closed by both ends.
    pub(crate) broken: bool,
    failed: bool,
}

impl Possible {
    /// Something to read, or the end.
    #[inline]
    pub const fn is_read(self) -> bool {
        self.read
    }

    /// The connection was reset, or could not be made.
    #[inline]
    pub const fn is_failure(self) -> bool {
        self.failed
    }

    /// Room to write; for a connection that is being established, also that this has ended.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.write
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_in_vain_is_not_repeated() {
        let (reactor, mut events) = (Reactor::new().expect("an epoll"), Events::with_capacity(1));
        let mut polling = BusyPolling { pays: true };
        reactor.wait_polling(&mut events, POLL_LIMIT * 10, &mut polling).expect("a wait");
        assert!(!polling.pays);
    }
}
