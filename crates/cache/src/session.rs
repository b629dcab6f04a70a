//! One client connection and its origin connection, without either: bytes in, bytes out.
//!
//! ```text
//!           receive(Client)                              output(Server)
//! client ──▶ Client Filter ──▶ Client Manager ──────────────▶ origin
//!                               read │  ▲ hit
//!                                    ▼  │
//!                                  Storage
//!                                       ▲ fill under the lease
//!            output(Client)             │           receive(Server)
//! client ◀──────────────────── Server Manager ◀── Server Filter ◀── origin
//! ```
//!
//! Replies leave in the order of their requests: every request that was forwarded stands in the
//! queue of expected replies, and an answer from storage that would overtake one waits in that
//! queue. The Managers are in `manager`; this file moves bytes and keeps the limits.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use crate::{
    Error, Side,
    expected::{Action, Expected, Fill},
    filter::{Filter, Scratch},
    lease::Ticket,
    output::Output,
    storage::{Storage, Write},
};

/// Limits of one session: what one client can claim of memory and time.
#[derive(Debug, Clone)]
pub struct Config {
    /// Requests forwarded and not yet answered; beyond, the client is not read.
    pub pipeline_max: usize,
    /// Bytes waiting to be written to one side; beyond, the other side is not read.
    pub buffered_bytes_max: usize,
    /// Largest reply that is kept aside to be stored.
    pub captured_bytes_max: usize,
    /// Writes held back by MULTI, or because they are not answered; beyond, they count as one write
    /// to everything.
    pub held_writes_max: usize,
    /// Longest wait for another client's fill.
    pub coalesce_wait_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pipeline_max: 4_096,
            buffered_bytes_max: 1 << 20,
            captured_bytes_max: 1 << 20,
            held_writes_max: 1_024,
            coalesce_wait_max: Duration::from_secs(2),
        }
    }
}

/// What is left of a session that lost its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterlife {
    /// Hits go on, and a new origin connection may take over.
    Continue,
    /// The client must be let go: a reply it waits for, or state it relies on, is gone.
    Close,
}

/// Everything known about one client connection.
#[derive(Debug)]
pub struct Session<F: Filter> {
    pub(crate) filter: F,
    pub(crate) config: Arc<Config>,
    pub(crate) expected: VecDeque<Expected<F::Tag>>,
    pub(crate) to_client: Output,
    pub(crate) to_server: Output,
    /// Writes that a later reply settles.
    pub(crate) held: Vec<Write>,
    /// Fills whose probes are still to come.
    pub(crate) probing: VecDeque<Fill>,
    /// What has come of a reply that must be seen as a whole.
    pub(crate) captured: Vec<u8>,
    pub(crate) mid_reply: bool,
    pub(crate) ticket: Ticket,
    /// Until when the client waits for another's fill.
    pub(crate) parked: Option<Duration>,
    /// The next request has waited once and does not wait again.
    pub(crate) waited: bool,
    /// A request was forwarded after which replies cannot be told apart.
    pub(crate) streams: bool,
    /// Its turn has come: the origin's bytes pass as they are.
    pub(crate) streaming: bool,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
}

/// A queue that has been emptied is kept up to this length.
const KEPT_QUEUE: usize = 16;

impl<F: Filter> Session<F> {
    /// A fresh connection. `ticket` is what storage wakes it by; it must be unique.
    #[must_use]
    pub fn new(filter: F, config: Arc<Config>, ticket: Ticket) -> Self {
        Self {
            filter,
            config,
            expected: VecDeque::new(),
            to_client: Output::default(),
            to_server: Output::default(),
            held: Vec::new(),
            probing: VecDeque::new(),
            captured: Vec::new(),
            mid_reply: false,
            ticket,
            parked: None,
            waited: false,
            streams: false,
            streaming: false,
            from_client: Vec::new(),
            from_server: Vec::new(),
        }
    }

    /// Takes bytes that one side sent. What follows from them is in [`Self::output`].
    ///
    /// # Errors
    /// That side broke its protocol or a limit: write out what is in [`Self::output`], then close
    /// both connections.
    pub fn receive<S: Storage>(
        &mut self,
        side: Side,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        let outcome = match side {
            Side::Client => self.receive_client(bytes, storage, now),
            Side::Server => self
                .receive_server(bytes, storage, now)
                .and_then(|()| self.receive_client(&[], storage, now)),
        };
        if outcome.is_err() {
            storage.stats().refused_frames.add(1);
        }
        outcome
    }

    /// What is to be written to `side`.
    pub fn output(&mut self, side: Side) -> &mut Output {
        match side {
            Side::Client => &mut self.to_client,
            Side::Server => &mut self.to_server,
        }
    }

    /// Is everything for `side` written?
    #[must_use]
    pub fn is_written(&self, side: Side) -> bool {
        match side {
            Side::Client => self.to_client.is_empty(),
            Side::Server => self.to_server.is_empty(),
        }
    }

    /// Should bytes of `side` be read now? Not while what they lead to has nowhere to go.
    #[must_use]
    pub fn wants(&self, side: Side) -> bool {
        match side {
            Side::Client => self.may_take_request(),
            Side::Server => self.to_client.len() < self.config.buffered_bytes_max,
        }
    }

    /// A fill this session waited for is over.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn complete<S: Storage>(
        &mut self,
        ticket: Ticket,
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        if ticket == self.ticket && self.parked.take().is_some() {
            self.waited = true;
            return self.receive(Side::Client, &[], storage, now);
        }
        Ok(())
    }

    /// When [`Self::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.parked
    }

    /// Time has passed: a client that has waited long enough for another's fill asks for itself.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn handle_timeout<S: Storage>(
        &mut self,
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        match self.parked {
            Some(until) if now >= until => self.complete(self.ticket, storage, now),
            _ => Ok(()),
        }
    }

    /// Is no reply outstanding and nothing left to write? Then the session can be drained.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.expected.is_empty()
            && self.parked.is_none()
            && self.to_client.is_empty()
            && self.to_server.is_empty()
            && !self.streams
    }

    /// Has the connection turned into a stream, which is never quiet and ends with its client?
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.streams
    }

    /// The origin could not be reached, so nothing that waits for it was ever sent: every request
    /// is answered with the protocol's own error.
    pub fn origin_unreachable<S: Storage>(&mut self, storage: &mut S) {
        self.to_server.clear();
        for expected in mem::take(&mut self.expected) {
            match &expected.action {
                Action::Local(answer) => self.to_client.buffer().extend_from_slice(answer),
                Action::Probe { .. } => {}
                _ => self.filter.unavailable(&expected.tag, self.to_client.buffer()),
            }
            for write in expected.abandon(storage) {
                storage.write_settled(write);
            }
        }
        for write in mem::take(&mut self.held) {
            storage.write_settled(write);
        }
    }

    /// The connection to the origin was lost. Writes under way may have been applied or not.
    pub fn origin_lost<S: Storage>(&mut self, storage: &mut S, now: Duration) -> Afterlife {
        let waiting = !self.expected.is_empty() || self.mid_reply || self.streams;
        self.abandon(storage, now);
        self.to_server.clear();
        self.from_server = Vec::new();
        if waiting || !self.filter.is_stateless() { Afterlife::Close } else { Afterlife::Continue }
    }

    /// The session is over: gives back its leases; writes without an answer go into quarantine.
    pub fn close<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        self.abandon(storage, now);
        self.parked = None;
    }

    fn abandon<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        for expected in mem::take(&mut self.expected) {
            for write in expected.abandon(storage) {
                self.lose(write, storage, now);
            }
        }
        for fill in mem::take(&mut self.probing) {
            fill.lease.into_iter().for_each(|lease| storage.release(lease));
        }
        for write in mem::take(&mut self.held) {
            self.lose(write, storage, now);
        }
    }

    pub(crate) fn lose<S: Storage>(&self, write: Write, storage: &mut S, now: Duration) {
        storage.stats().writes_lost.add(1);
        storage.write_lost(write, now);
    }

    fn may_take_request(&self) -> bool {
        self.parked.is_none()
            && self.expected.len() < self.config.pipeline_max
            && self.to_server.len() < self.config.buffered_bytes_max
            && self.to_client.len() < self.config.buffered_bytes_max
    }

    fn receive_client<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        if self.from_client.is_empty() {
            let taken = self.take_requests(bytes, storage, now)?;
            self.from_client.extend_from_slice(bytes.get(taken..).unwrap_or_default());
            return Ok(());
        }
        let mut pending = mem::take(&mut self.from_client);
        pending.extend_from_slice(bytes);
        let taken = self.take_requests(&pending, storage, now)?;
        if taken < pending.len() {
            pending.drain(..taken);
            self.from_client = pending;
        }
        Ok(())
    }

    /// Handles the whole requests at the start of `bytes`; returns how far they reach.
    fn take_requests<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<usize, Error> {
        let mut taken = 0;
        while self.may_take_request() {
            let rest = bytes.get(taken..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let (message, length) = match self.filter.message(rest) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(error) => return Err(self.refuse(error)),
            };
            let mut scratch = Scratch::new();
            let request = match self.filter.request(&message, &mut scratch) {
                Ok(request) => request,
                Err(error) => return Err(self.refuse(error)),
            };
            let original = rest.get(..length).unwrap_or_default();
            if !self.handle_request(request, original, storage, now) {
                break;
            }
            self.waited = false;
            taken += length;
        }
        Ok(taken)
    }

    fn refuse(&mut self, error: wire::Error) -> Error {
        self.filter.refuse(&error, self.to_client.buffer());
        Error::Client(error)
    }

    fn receive_server<S: Storage>(
        &mut self,
        bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        if self.from_server.is_empty() {
            return self.take_replies(bytes, storage, now);
        }
        let mut pending = mem::take(&mut self.from_server);
        pending.extend_from_slice(bytes);
        self.take_replies(&pending, storage, now)
    }

    fn take_replies<S: Storage>(
        &mut self,
        mut bytes: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.streaming {
                self.to_client.buffer().extend_from_slice(bytes);
                break;
            }
            let tag = self.expected.front().map(|expected| &expected.tag);
            let cut = self.filter.cut(bytes, tag).map_err(Error::Server)?;
            if cut.bytes == 0 {
                self.from_server.extend_from_slice(bytes);
                break;
            }
            let (part, rest) = bytes.split_at_checked(cut.bytes).unwrap_or((bytes, &[]));
            self.handle_part(part, cut, storage, now);
            bytes = rest;
        }
        if self.expected.is_empty() && self.expected.capacity() > KEPT_QUEUE {
            self.expected = VecDeque::new();
        }
        Ok(())
    }
}
