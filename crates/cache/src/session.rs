//! State machine of a client connection and its origin connection, without sockets.
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
//! Replies leave in the order of their requests: every forwarded request is in the queue of
//! expected replies, and a stored answer that would overtake one waits in that queue. The Managers
//! are in `manager`; this file moves bytes and enforces the limits.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    Error, Side,
    expected::{Expected, Fill},
    filter::{Filter, Hush},
    input::Input,
    key::Sent,
    lease::Ticket,
    output::Output,
    principal::Standing,
    storage::{Storage, Write},
};

mod broken;
mod config;
mod end;
mod held;
mod large;
mod messages;
mod quiet;
mod verify;

pub use config::{Config, Verify};
pub use end::{Afterlife, Loss, Lost};

/// Everything known about one client connection.
#[derive(Debug)]
pub struct Session<F: Filter> {
    pub(crate) filter: F,
    pub(crate) standing: Standing,
    pub(crate) hold: Hold,
    /// A request is held back, and the origin cannot be reached: why.
    pub(crate) unreachable: Option<String>,
    pub(crate) config: Arc<Config>,
    pub(crate) expected: VecDeque<Expected<F::Tag>>,
    pub(crate) to_client: Output,
    pub(crate) to_server: Output,
    /// Scopes of the writes that the origin has queued inside MULTI; closed when EXEC is sent.
    pub(crate) queued: Vec<Sent>,
    /// Writes that the origin has queued for a transaction whose EXEC or DISCARD is under way.
    pub(crate) held: Vec<Write>,
    /// Requests under way that end a transaction.
    pub(crate) endings: usize,
    /// Replies that the client does not want.
    pub(crate) hush: Hush,
    /// The client has sent QUIT: no origin reads what the client sends after it.
    pub(crate) ended: bool,
    /// The protocol error of the client, which is sent after the replies to earlier requests.
    pub(crate) broken: Option<wire::Error>,
    /// The client has disconnected: replies of the origin settle writes and are then discarded.
    pub(crate) deserted: bool,
    /// The first write since [`Self::take_lost`] whose reply was lost.
    pub(crate) lost: Option<Lost>,
    /// Fills whose probes are not answered yet.
    pub(crate) probing: VecDeque<Fill>,
    pub(crate) reading: Reading,
    /// The part received so far of a reply that must be seen as a whole.
    pub(crate) captured: Captured,
    /// Bytes of keys and answers that wait in `expected`.
    pub(crate) waiting_bytes: usize,
    pub(crate) ticket: Ticket,
    /// End of the client's wait for another client's fill.
    pub(crate) parked: Option<Duration>,
    /// The next request has waited once and does not wait again.
    pub(crate) waited: bool,
    /// A request was forwarded after which replies cannot be matched.
    pub(crate) streams: bool,
    /// A stream is at the front of the queue: the origin's bytes pass unchanged.
    pub(crate) streaming: bool,
    /// The rest of a request is being forwarded.
    pub(crate) passing: bool,
    /// Bytes to be sent after the rest of that request.
    pub(crate) behind: Vec<u8>,
    /// Bytes that may wait to be written to one side now.
    room: usize,
    /// Hits answered at once since [`Self::take_hits`], and when the first request was taken.
    prompt: (u64, Duration),
    /// Requests have arrived for which there was no room.
    held_up: bool,
    from_client: Input,
    from_server: Input,
    /// The command of the current request, if it is logged.
    pub(crate) command: &'static str,
}

/// Whether the client's next request waits for the origin's verdict on the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    No,
    Waits,
    /// The origin has reported it.
    Judged,
}

/// The session's position in the origin's byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Between two messages.
    Boundary,
    /// Inside the reply to the oldest request.
    Answer,
    /// Inside an unsolicited message.
    Unasked,
}

/// The part received so far of a reply that must be seen as a whole.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    pub(crate) bytes: Vec<u8>,
    /// The reply was larger than the limit for captured replies, and has passed without being seen.
    pub(crate) overflowed: bool,
}

/// A queue that has been emptied is kept up to this length.
const KEPT_QUEUE: usize = 16;

impl<F: Filter> Session<F> {
    /// A fresh connection. `ticket` is what storage wakes it by; it must be unique.
    #[must_use]
    pub fn new(filter: F, config: Arc<Config>, ticket: Ticket) -> Self {
        Self {
            filter,
            standing: Standing::new(config.authorization_lease),
            hold: Hold::No,
            unreachable: None,
            room: config.buffered_bytes_max,
            config,
            expected: VecDeque::new(),
            to_client: Output::default(),
            to_server: Output::default(),
            queued: Vec::new(),
            held: Vec::new(),
            endings: 0,
            hush: Hush::Off,
            ended: false,
            broken: None,
            deserted: false,
            lost: None,
            probing: VecDeque::new(),
            reading: Reading::Boundary,
            captured: Captured::default(),
            waiting_bytes: 0,
            ticket,
            parked: None,
            waited: false,
            streams: false,
            streaming: false,
            passing: false,
            behind: Vec::new(),
            prompt: (0, Duration::ZERO),
            held_up: false,
            from_client: Input::default(),
            from_server: Input::default(),
            command: "",
        }
    }

    /// Takes bytes that one side sent. The resulting output is in [`Self::output`].
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
            Side::Client => self.take(side, bytes, storage, now),
            Side::Server => self
                .take(side, bytes, storage, now)
                .and_then(|()| self.take(Side::Client, &[], storage, now)),
        };
        let outcome = outcome.and_then(|()| self.end_broken());
        if outcome.is_err() {
            storage.stats().refused_frames.add(1);
        }
        if self.deserted {
            self.to_client.clear();
        }
        outcome
    }

    /// Bytes to be written to `side`.
    pub fn output(&mut self, side: Side) -> &mut Output {
        match side {
            Side::Client => &mut self.to_client,
            Side::Server => &mut self.to_server,
        }
    }

    /// Whether everything for `side` is written.
    #[must_use]
    pub fn is_written(&self, side: Side) -> bool {
        match side {
            Side::Client => self.to_client.is_empty(),
            Side::Server => self.to_server.is_empty(),
        }
    }

    /// Whether bytes of `side` should be read now: there is buffer space for the resulting output.
    #[must_use]
    pub fn wants(&self, side: Side) -> bool {
        match side {
            // While a request waits, the client is read to find the end of the request.
            Side::Client => {
                self.may_take_request() || (self.is_blocked() && self.from_client.len() < self.room)
            }
            Side::Server => self.to_client.len() < self.room,
        }
    }

    /// Whether requests wait for buffer space that is now free, or a client for the error that ends
    /// its connection. Call this after writing [`Self::output`], and then [`Self::proceed`]: no
    /// other event resumes these requests.
    #[must_use]
    pub fn can_proceed(&self) -> bool {
        (self.held_up && self.may_take_request()) || self.owes_refusal()
    }

    /// Resumes requests that had to wait for buffer space.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn proceed<S: Storage>(&mut self, storage: &mut S, now: Duration) -> Result<(), Error> {
        self.receive(Side::Client, &[], storage, now)
    }

    /// Notes that a fill this session waited for has ended.
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

    /// Time at which [`Self::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.parked
    }

    /// Handles elapsed time: the request of a client that has waited too long for another's fill is
    /// forwarded.
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

    /// Number of hits answered since the last call without waiting for a reply or a fill, and when
    /// the first of their requests was taken; `None` if there are none. Call it after writing
    /// [`Self::output`]: that is when these hits end.
    #[inline]
    pub fn take_hits(&mut self) -> Option<(u64, Duration)> {
        let (count, _) = self.prompt;
        (count > 0).then(|| std::mem::take(&mut self.prompt))
    }

    /// Counts a hit that was answered at once.
    #[inline]
    pub(crate) fn hit_at(&mut self, now: Duration) {
        if self.prompt.0 == 0 {
            self.prompt.1 = now;
        }
        self.prompt.0 += 1;
    }

    fn may_take_request(&self) -> bool {
        // The rest of a request is sent to the same place as its beginning.
        let may_begin = self.passing
            || (self.parked.is_none()
                && !self.is_blocked()
                && self.hold != Hold::Waits
                && self.expected.len() < self.config.pipeline_max);
        may_begin
            && !self.deserted
            && self.to_server.len() < self.room
            && self.to_client.len() + self.waiting_bytes < self.room
    }

    /// Whether a local answer may be sent now without overtaking a reply of the origin.
    pub(crate) fn has_turn(&self) -> bool {
        self.expected.is_empty() && self.reading == Reading::Boundary
    }
}
