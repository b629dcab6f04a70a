//! Several memcached servers as one origin: requests are split by their keys, replies joined in the
//! order of the requests.
//!
//! A [`Fanout`] stands between one session and its connections to the servers. To the session it is
//! one origin: what the session would send to it goes to [`Fanout::send`], and [`Fanout::replies`]
//! are the bytes that the origin would send back. [`wire::memcache::ring`] chooses the server of a
//! key; `docs/protocols/memcached.md` states what is done with each command.
//!
//! A server replies in the order of its requests. What it sends waits unchanged until the requests
//! before that of the session are answered.

use std::{collections::VecDeque, sync::Arc};

use wire::memcache::{
    Limits, Ring,
    reply::{FENCE, NO_LOGIN, Scanner},
    request::{self, Passing},
};

use crate::{Error, output::Output};

mod join;
mod route;
#[cfg(test)]
mod tests;

use join::Expected;

/// Bytes that may wait to be sent to a server; no request is accepted beyond them.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// Bytes received from a server that may wait for their turn. More than the longest line.
const RECEIVED_BYTES_MAX: usize = 256 << 10;
/// Bytes of joined replies that may wait for the session.
const JOINED_BYTES_MAX: usize = 256 << 10;

/// The servers of one session.
#[derive(Debug)]
pub struct Fanout {
    ring: Arc<Ring>,
    limits: Limits,
    servers: Vec<Server>,
    /// The beginning of an incomplete request.
    begun: Vec<u8>,
    /// The request whose value is being passed on.
    passing: Option<Passed>,
    /// Requests whose replies have not been joined yet: the session limits their number.
    expected: VecDeque<Expected>,
    /// Bytes of the keys in them.
    reading_bytes: usize,
    /// Position in the reply that has its turn.
    scanner: Scanner,
    /// A part of that reply is in `joined`.
    partial: bool,
    joined: Output,
    /// The error of a request without a reply, for the next `mn`.
    silenced: Option<Vec<u8>>,
    ended: bool,
}

/// A request whose value is being passed on.
#[derive(Debug)]
struct Passed {
    passing: Passing,
    /// `None` if the value is discarded.
    server: Option<u16>,
    fenced: bool,
}

/// What is known of one server.
#[derive(Debug, Default)]
struct Server {
    stage: Stage,
    /// Requests that wait to be sent.
    unsent: Output,
    /// Replies that wait for their turn.
    received: Output,
    /// Number of requests of which it has a part.
    pending: usize,
}

/// The connection to a server.
#[derive(Debug, Default)]
enum Stage {
    /// There is none.
    #[default]
    Down,
    /// The server is asked for its version before it gets a request.
    Greeting(Output),
    /// Requests may have been sent.
    Open,
    /// It was lost, and replies that it owes have not had their turn.
    Lost {
        /// What clients are told.
        why: String,
        /// Requests may have reached the server.
        sent: bool,
    },
}

impl Fanout {
    /// No connection to any of the `servers` of `ring`.
    #[must_use]
    pub fn new(ring: Arc<Ring>, servers: usize, limits: Limits) -> Self {
        Self {
            ring,
            limits,
            servers: (0..servers).map(|_| Server::default()).collect(),
            begun: Vec::new(),
            passing: None,
            expected: VecDeque::new(),
            reading_bytes: 0,
            scanner: Scanner::default(),
            partial: false,
            joined: Output::default(),
            silenced: None,
            ended: false,
        }
    }

    /// Whether [`Self::send`] may be called.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.servers.iter().all(|server| server.unsent.len() < UNSENT_BYTES_MAX)
    }

    /// Takes bytes of the session.
    ///
    /// # Errors
    /// They are no requests; give up the session's connections.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut all = std::mem::take(&mut self.begun);
        let rest = if all.is_empty() {
            self.take(bytes)?
        } else {
            all.extend_from_slice(bytes);
            self.take(&all)?
        };
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    /// Takes the complete requests and the parts of values in `rest`; returns what is left.
    fn take<'a>(&mut self, mut rest: &'a [u8]) -> Result<&'a [u8], Error> {
        while !rest.is_empty() {
            if let Some(passed) = &mut self.passing {
                let progress = passed.passing.advance(rest).map_err(Error::Client)?;
                let (server, fenced) = (passed.server, passed.fenced && progress.ends);
                let (part, more) = rest.split_at_checked(progress.bytes).unwrap_or((rest, &[]));
                rest = more;
                self.forward(server, part, fenced);
                if !progress.ends {
                    break;
                }
                self.passing = None;
                continue;
            }
            let whole = request::decode(rest, &self.limits).map_err(Error::Client)?;
            let (request, taken, passing) = match whole {
                Some((request, taken)) => (request, taken, None),
                None => match request::begin(rest, &self.limits).map_err(Error::Client)? {
                    Some((request, taken, passing)) => (request, taken, Some(passing)),
                    None => break,
                },
            };
            let (bytes, more) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
            rest = more;
            self.passing = self.route(&request, bytes, passing);
        }
        Ok(rest)
    }

    /// Appends a part of a request to what is sent to its server.
    fn forward(&mut self, server: Option<u16>, part: &[u8], fenced: bool) {
        if let Some(server) = server.and_then(|server| self.servers.get_mut(usize::from(server))) {
            server.unsent.buffer().extend_from_slice(part);
            if fenced {
                server.unsent.buffer().extend_from_slice(FENCE);
            }
        }
    }

    /// Whether there are bytes for `server`. If no connection to it was announced by
    /// [`Self::connected`], one is needed.
    #[must_use]
    pub fn has_output(&self, server: usize) -> bool {
        self.servers.get(server).is_some_and(|server| match &server.stage {
            Stage::Down | Stage::Open => !server.unsent.is_empty(),
            Stage::Greeting(greeting) => !greeting.is_empty(),
            Stage::Lost { .. } => false,
        })
    }

    /// Bytes to be written to `server`, once there is a connection to it.
    pub fn output(&mut self, server: usize) -> Option<&mut Output> {
        let server = self.servers.get_mut(server)?;
        match &mut server.stage {
            Stage::Greeting(greeting) => Some(greeting),
            Stage::Open => Some(&mut server.unsent),
            Stage::Down | Stage::Lost { .. } => None,
        }
    }

    /// A connection to `server` was made.
    pub fn connected(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            let mut greeting = Output::default();
            greeting.buffer().extend_from_slice(FENCE);
            server.stage = Stage::Greeting(greeting);
        }
    }

    /// Whether bytes of `server` may be passed to [`Self::receive`].
    #[must_use]
    pub fn wants(&self, server: usize) -> bool {
        let server = self.servers.get(server);
        server.is_some_and(|server| server.received.len() < RECEIVED_BYTES_MAX)
    }

    /// Takes bytes of `server`.
    ///
    /// # Errors
    /// Why the server cannot be used: close its connection and call [`Self::lost`].
    pub fn receive(&mut self, server: usize, bytes: &[u8]) -> Result<(), String> {
        let Some(server) = self.servers.get_mut(server) else { return Ok(()) };
        server.received.buffer().extend_from_slice(bytes);
        if matches!(server.stage, Stage::Greeting(_)) {
            let Some(line) = server.take_line() else {
                return match server.received.len() > self.limits.line_bytes_max {
                    true => Err("it does not answer as memcached".to_owned()),
                    false => Ok(()),
                };
            };
            if line.starts_with(NO_LOGIN) {
                return Err("it requires a login, which several servers cannot have".to_owned());
            }
            if !line.starts_with(b"VERSION ") {
                return Err("it does not answer as memcached".to_owned());
            }
            server.stage = Stage::Open;
        }
        if server.pending == 0 && !server.received.is_empty() {
            return Err("it sent what was not requested".to_owned());
        }
        Ok(())
    }

    /// The connection to `server` was lost, or could not be made. Its requests are answered by an
    /// error that says `why`.
    pub fn lost(&mut self, server: usize, why: &str) {
        if let Some(passed) = &mut self.passing
            && passed.server.map(usize::from) == Some(server)
        {
            passed.server = None;
        }
        let Some(server) = self.servers.get_mut(server) else { return };
        let sent = matches!(server.stage, Stage::Open);
        server.stage = Stage::Lost { why: why.to_owned(), sent };
        server.settle();
    }

    /// The joined replies. Call this after each of the other functions.
    ///
    /// # Errors
    /// A reply is malformed, or that to a write is lost: give up the session's connections.
    pub fn replies(&mut self) -> Result<&mut Output, Error> {
        while self.joined.len() < JOINED_BYTES_MAX && self.join()? {}
        Ok(&mut self.joined)
    }

    /// Whether the session can read something: replies, or the end.
    #[must_use]
    pub fn has_replies(&self) -> bool {
        self.ended || !self.joined.is_empty()
    }

    /// Whether the session has asked for the end, and all replies before it are taken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended && self.joined.is_empty()
    }

    /// Bytes that it keeps.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let of_servers = self
            .servers
            .iter()
            .map(|server| server.unsent.held_bytes() + server.received.held_bytes());
        let requests = self.begun.capacity() + self.reading_bytes;
        requests + self.joined.held_bytes() + of_servers.sum::<usize>()
    }
}

impl Server {
    /// Takes the next line that was received, with its end.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = line_end(self.received.bytes())?;
        let line = self.received.bytes().get(..=end)?.to_vec();
        self.received.advance(line.len());
        Some(line)
    }

    /// After a loss: forgets it once all that it owes has had its turn.
    fn settle(&mut self) {
        if self.pending == 0 && matches!(self.stage, Stage::Lost { .. }) {
            *self = Self::default();
        }
    }
}

/// Position of the first line end.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
