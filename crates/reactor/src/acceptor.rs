//! Accepting connections, and the one rule for an accept that fails.

use std::{
    fmt::Display,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tracing::warn;

use crate::{Reactor, Seldom};

/// Connections that may wait to be accepted; `net.core.somaxconn` bounds it further. With the 128
/// of the standard library, connections that arrive together would be dropped and retried a second
/// later.
const BACKLOG: i32 = 4_096;
/// Rest after an accept that failed because the process or the machine lacks something, usually
/// file descriptors.
const REST: Duration = Duration::from_millis(50);
/// Interval between two log lines about failed accepts.
const TOLD_PERIOD: Duration = Duration::from_secs(10);

/// The rule for a failed accept. Every listener applies it, event loops through an [`Acceptor`].
#[derive(Debug)]
pub struct Failures {
    told: Seldom,
}

impl Default for Failures {
    fn default() -> Self {
        Self { told: Seldom::new(TOLD_PERIOD) }
    }
}

impl Failures {
    /// Returns the time for which `listener` pauses before its next accept; the log reports it from
    /// time to time. Zero if `error` concerns only the connection that was to be accepted
    /// (accept(2)): the next one is accepted at once.
    pub fn rest_after(&mut self, listener: impl Display, error: &io::Error) -> Duration {
        #[rustfmt::skip]
        let concerns_one = matches!(
            Errno::from_io_error(error),
            Some(
                Errno::CONNABORTED | Errno::CONNRESET | Errno::INTR | Errno::PERM | Errno::PROTO
                | Errno::NOPROTOOPT | Errno::NETDOWN | Errno::NETUNREACH | Errno::NONET
                | Errno::HOSTDOWN | Errno::HOSTUNREACH
            )
        );
        if concerns_one {
            return Duration::ZERO;
        }
        if self.told.note(Instant::now()).is_some() {
            warn!(
                listen = %listener,
                "cannot accept a connection, retrying every {REST:?}: {error}; raise `ulimit -n` if the limit \
                 of open files is reached"
            );
        }
        REST
    }
}

/// A listening socket of an event loop. It never blocks its loop: while accepting rests,
/// [`Acceptor::patience`] says how long the loop may wait.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    address: SocketAddr,
    /// Connections may wait to be accepted.
    ready: bool,
    rests_until: Option<Instant>,
    failures: Failures,
}

impl Acceptor {
    /// Accepts what connects to `listener`; its events carry `token`.
    ///
    /// # Errors
    /// The socket cannot be set up.
    pub fn new(listener: TcpListener, reactor: &Reactor, token: u64) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        reactor.watch(&listener, token)?;
        let (address, failures) = (listener.local_addr()?, Failures::default());
        // Connections made before the registration are reported as new.
        Ok(Self { listener, address, ready: false, rests_until: None, failures })
    }

    /// Records a readiness event.
    pub fn notice(&mut self) {
        self.ready = true;
    }

    /// The next connection, unless none waits or accepting rests.
    pub fn accept(&mut self) -> Option<(TcpStream, SocketAddr)> {
        while self.ready {
            if self.rests_until.is_some_and(|until| Instant::now() < until) {
                return None;
            }
            self.rests_until = None;
            match self.listener.accept() {
                Ok(accepted) => return Some(accepted),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ready = false,
                Err(error) => {
                    let rest = self.failures.rest_after(self.address, &error);
                    self.rests_until = Some(Instant::now() + rest);
                }
            }
        }
        None
    }

    /// Returns the delay after which to call [`Acceptor::accept`] again although no event arrives.
    #[inline]
    pub fn patience(&self) -> Option<Duration> {
        let rest = |until: Instant| until.saturating_duration_since(Instant::now());
        self.ready.then(|| self.rests_until.map_or(Duration::ZERO, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_process_lacks_costs_a_rest() {
        let mut failures = Failures::default();
        for gone in [Errno::CONNABORTED, Errno::PROTO, Errno::PERM, Errno::INTR] {
            assert_eq!(failures.rest_after("a test", &gone.into()), Duration::ZERO, "{gone}");
        }
        for lacking in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::INVAL] {
            assert_eq!(failures.rest_after("a test", &lacking.into()), REST, "{lacking}");
        }
    }
}
