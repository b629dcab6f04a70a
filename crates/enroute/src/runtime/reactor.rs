//! Which sockets can be read and written: one epoll for each worker.
//!
//! Edge-triggered and registered once: the kernel says when something became possible, a [`Socket`]
//! remembers it until the kernel says that it no longer is. A request costs one wait, one read and one
//! write, and no other system call.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
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

/// Events taken at once; more are taken the next time.
pub(crate) const EVENTS_MAX: usize = 256;

/// How long to poll before sleeping: an answer from the same host takes no longer, and to be woken for
/// it would take about as long again.
const POLL_LIMIT: Duration = Duration::from_micros(100);

/// Whether polling is worth its while. It is not tried again after it was in vain until an answer
/// has come within [`POLL_LIMIT`] by itself.
#[derive(Default)]
pub(crate) struct BusyPolling {
    pays: bool,
}

/// Waits for many sockets.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Watches `source` until it is closed; its events carry `token`.
    pub(crate) fn watch(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags)?)
    }

    /// Waits until something happens, at most for `limit`.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        let limit = limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Reactor::wait`], but polls as long as `polling` thinks it worth its while before it sleeps.
    pub(crate) fn wait_polling(
        &mut self,
        limit: Duration,
        polling: &mut BusyPolling,
    ) -> io::Result<()> {
        let begun = Instant::now();
        if polling.pays {
            while begun.elapsed() < POLL_LIMIT.min(limit) {
                self.wait(Some(Duration::ZERO))?;
                if !self.events.is_empty() {
                    return Ok(());
                }
                // Whom it waits for may need this core.
                thread::yield_now();
            }
        }
        self.wait(Some(limit.saturating_sub(begun.elapsed())))?;
        polling.pays = begun.elapsed() < POLL_LIMIT;
        Ok(())
    }

    /// What has happened: tokens, and what became possible.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u64, Possible)> {
        self.events.iter().map(|event| {
            let Event { flags, data } = *event;
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let possible = Possible {
                read: ended || flags.contains(EventFlags::IN),
                write: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
                end: ended,
            };
            (data.u64(), possible)
        })
    }
}

/// What became possible with a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Possible {
    read: bool,
    write: bool,
    /// The other end has closed, or the connection is broken.
    end: bool,
}

impl Possible {
    /// Room to write; of a connection that is being made, also that this has come to an end.
    pub(crate) fn is_write(self) -> bool {
        self.write
    }
}

/// A connection that never blocks.
pub(crate) struct Socket {
    stream: TcpStream,
    readable: bool,
    writable: bool,
    ended: bool,
}

impl Socket {
    /// Watches `stream` under `token`.
    pub(crate) fn new(stream: TcpStream, reactor: &Reactor, token: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        reactor.watch(&stream, token)?;
        // What has come before is reported as new.
        Ok(Self { stream, readable: false, writable: true, ended: false })
    }

    pub(crate) fn notice(&mut self, possible: Possible) {
        self.readable |= possible.read;
        self.writable |= possible.write;
        self.ended |= possible.end;
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Reads what is there; 0 bytes are the end, `None` is nothing yet.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        while self.readable {
            match self.stream.read(buffer) {
                Ok(count) => {
                    // Less than there was room for is all there was; but an end is reported once.
                    self.readable = count == buffer.len() || self.ended;
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Writes what there is room for; 0 bytes until there is room again.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.writable {
            match self.stream.write(bytes) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.writable = false;
                    return Err(error);
                }
            }
        }
        Ok(0)
    }

    /// What went wrong while it was being made.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream.take_error()
    }

    /// Ends it both ways; what went wrong with it, nothing waits for any more.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Tells the other end that nothing more comes.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_in_vain_is_not_repeated() {
        let mut reactor = Reactor::new().expect("an epoll");
        let mut polling = BusyPolling { pays: true };
        reactor.wait_polling(POLL_LIMIT * 10, &mut polling).expect("a wait");
        assert!(!polling.pays);
    }
}
