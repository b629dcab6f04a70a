//! The conversation with one client: requests as bytes, replies as bytes.
//!
//! Commands are executed straight from the bytes received; only a request that is incomplete, or
//! has to wait, is kept.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use acl::OUTPUT_BYTES_BEFORE_LOGIN_MAX;
use smallvec::SmallVec;
use store::elastic::{Position, Sync};
use wire::resp::{
    Limits,
    request::{self, Request},
};

use crate::{
    batch::Batch,
    keyspace::Shards,
    latency::CommandLatencies,
    lookups::Lookups,
    output::Output,
    server::Server,
    session::{Session, Step},
};

/// Maximum output that waits for one client; above it, no further commands of the client are
/// executed. It is lower with many clients, so that together they stay within the limit for all.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Minimum of the output limit of each client, for any number of clients.
pub const OUTPUT_BYTES_MIN: usize = 16 << 10;
/// Smaller amounts are not counted as waiting data of clients.
const COUNTED_BYTES_MIN: usize = 8 << 10;
/// Number of requests decoded before the first is executed, so that their cache misses overlap.
const AHEAD: usize = 16;
/// Empty buffers with more capacity than this are freed.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// Reasons why a conversation does not execute commands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// It does execute commands.
    No,
    /// A lookup waits for the disk.
    Disk,
    /// It waits for its next turn.
    Turn,
    /// Writes wait until the disk has caught up.
    Busy,
    /// It waits until this time, on the clock of its turns.
    Until(Duration),
}

/// Limits on what one client sends, and on the replies that wait for it.
#[derive(Debug, Clone)]
pub struct Bounds {
    requests: Limits,
    /// For clients that have to log in first.
    requests_before_login: Limits,
    /// Longest output that waits for the client, in bytes.
    output_bytes_max: usize,
}

impl Bounds {
    /// Limits that follow from free memory and the number of clients.
    #[must_use]
    pub fn of(server: &Server) -> Self {
        let bytes_max = server.parameters.clients_bytes_max();
        let value_bytes_max = store::elastic::Config::default().value_bytes_max;
        let requests = Limits {
            bulk_bytes_max: value_bytes_max,
            request_bytes_max: bytes_max,
            ..Limits::default()
        };
        // Half for answers, half for the rest.
        let share = bytes_max / 2 / server.clients.len().max(1);
        Self {
            requests_before_login: requests.before_login(),
            requests,
            output_bytes_max: share.clamp(OUTPUT_BYTES_MIN, OUTPUT_BYTES_MAX),
        }
    }
}

/// What a conversation uses while it executes commands.
pub struct Turn<'t, S> {
    /// Users, clients, parameters, counters.
    pub server: &'t Server,
    /// The keys.
    pub shards: &'t S,
    /// No other thread uses the shards.
    pub is_alone: bool,
    /// Latency of lookups that waited for the disk.
    pub lookups: &'t Lookups,
    /// Latency of commands of the thread.
    pub latencies: &'t CommandLatencies,
    /// Limits of the client.
    pub bounds: &'t Bounds,
    /// Set for shards that have something for the disk.
    pub touched: &'t mut [bool],
    /// Counts commands that were completed.
    pub done: &'t mut u64,
    /// Counts lookups that were answered at once.
    pub at_once: &'t mut u64,
    /// Reads a clock that only advances.
    pub clock: &'t dyn Fn() -> Duration,
    /// What it read before the input was.
    pub began: Duration,
    /// Time since the Unix epoch: what expiries are in.
    pub now: Duration,
}

/// The conversation with one client.
pub struct Conversation {
    session: Session,
    parked: Parked,
    decoder: request::Decoder,
    input: Vec<u8>,
    output: Output,
    /// Time of the first attempt of the command that waits, and the first reason.
    waits_since: Option<(Duration, Parked)>,
    /// Commands executed at once since [`Self::take_prompt`], and when the first was read.
    prompt: (u64, Duration),
    /// The client sent invalid protocol data.
    refused: bool,
    /// Longest output that waits, in bytes.
    output_bytes_max: usize,
    /// Its contribution to the waiting bytes of all clients.
    counted: usize,
}

impl Conversation {
    /// A conversation in which nothing was said.
    #[must_use]
    pub fn new(session: Session) -> Self {
        Self {
            session,
            parked: Parked::No,
            decoder: request::Decoder::default(),
            input: Vec::new(),
            output: Output::default(),
            waits_since: None,
            prompt: (0, Duration::ZERO),
            refused: false,
            output_bytes_max: OUTPUT_BYTES_MAX,
            counted: 0,
        }
    }

    /// The client's session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Why it executes no commands now.
    #[must_use]
    pub fn parked(&self) -> Parked {
        self.parked
    }

    /// Ends the reason why it executed no commands.
    pub fn resume(&mut self) {
        self.parked = Parked::No;
    }

    /// Has it wait for its next turn.
    pub fn wait_for_turn(&mut self) {
        self.parked = Parked::Turn;
    }

    /// Ends it, with the reservations of its client.
    pub fn close<S: Shards>(&mut self, server: &Server, shards: &S) {
        self.session.close(server, shards);
    }

    /// Updates its waiting bytes in those of all clients, `total`, which are returned.
    pub fn count(&mut self, total: &AtomicUsize) -> usize {
        let bytes = self.input.len() + self.output.unsent() + self.session.queued_bytes();
        // The usual case has no waiting bytes and returns early.
        self.recount(if bytes < COUNTED_BYTES_MIN { 0 } else { bytes }, total)
    }

    /// Subtracts its waiting bytes from those of all clients.
    pub fn uncount(&mut self, total: &AtomicUsize) {
        self.recount(0, total);
    }

    fn recount(&mut self, bytes: usize, total: &AtomicUsize) -> usize {
        let before = std::mem::replace(&mut self.counted, bytes);
        if before == bytes {
            return total.load(Relaxed);
        }
        let change = bytes.wrapping_sub(before);
        total.fetch_add(change, Relaxed).wrapping_add(change)
    }

    /// Its waiting bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.counted
    }

    /// Executes the requests in `bytes`, after those received before.
    ///
    /// # Errors
    /// The client sent no request; that is its reply, and the conversation is over.
    pub fn receive<S: Shards>(
        &mut self,
        bytes: &[u8],
        turn: &mut Turn<'_, S>,
    ) -> Result<(), wire::Error> {
        turn.server.stats.input_bytes.fetch_add(bytes.len() as u64, Relaxed);
        if self.input.is_empty() {
            let (taken, outcome) = self.execute(bytes, turn);
            self.input.extend_from_slice(&bytes[taken..]);
            outcome
        } else {
            self.input.extend_from_slice(bytes);
            self.proceed(turn)
        }
    }

    /// Executes the requests received.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn proceed<S: Shards>(&mut self, turn: &mut Turn<'_, S>) -> Result<(), wire::Error> {
        if self.input.is_empty() {
            return Ok(());
        }
        if self.parked == Parked::No && !self.may_execute() {
            // The client reads no answers: release its reservations, so that other clients do not
            // wait.
            self.session.let_go(turn.server, turn.shards);
            return Ok(());
        }
        let mut input = std::mem::take(&mut self.input);
        let (taken, outcome) = self.execute(&input, turn);
        input.drain(..taken);
        if input.is_empty() && input.capacity() > BUFFER_BYTES_KEPT {
            input = Vec::new();
        }
        self.input = input;
        outcome
    }

    /// Whether it can execute a command now.
    #[must_use]
    pub fn may_execute(&self) -> bool {
        self.parked == Parked::No
            && !self.refused
            && !self.session.is_closing()
            && self.output.unsent() < self.output_bytes_max
    }

    /// Executes the requests in `bytes`; returns how many bytes they took, and the error in what
    /// follows them.
    fn execute<S: Shards>(
        &mut self,
        bytes: &[u8],
        turn: &mut Turn<'_, S>,
    ) -> (usize, Result<(), wire::Error>) {
        let mut at = 0;
        while self.may_execute() {
            let mut ahead = at;
            let (limits, ahead_max) = if self.session.must_log_in(turn.server) {
                self.output_bytes_max =
                    turn.bounds.output_bytes_max.min(OUTPUT_BYTES_BEFORE_LOGIN_MAX);
                // The next request may log in, which raises the limit for the one after it.
                (&turn.bounds.requests_before_login, 1)
            } else {
                self.output_bytes_max = turn.bounds.output_bytes_max;
                (&turn.bounds.requests, AHEAD)
            };
            let mut requests = SmallVec::<[(Request<'_>, usize); AHEAD]>::new();
            let undecoded = loop {
                if requests.len() == ahead_max {
                    break None;
                }
                match self.decoder.decode(&bytes[ahead..], limits) {
                    Ok(Some((request, taken))) => {
                        ahead += taken;
                        requests.push((request, ahead));
                    }
                    undecoded => break Some(undecoded.map(drop)),
                }
            };
            at = if let [_] = requests[..] {
                self.commands(&requests, at, turn.shards, turn)
            } else {
                let requested = requests.iter().map(|(request, _)| request);
                let batch =
                    Batch::of(requested, self.session.database(), turn.shards, turn.is_alone);
                self.commands(&requests, at, &batch, turn)
            };
            if !self.may_execute() {
                // The decoder state of an incomplete request is relative to the end of these.
                self.decoder = request::Decoder::default();
                break;
            }
            match undecoded {
                None => {}
                Some(Ok(())) => break,
                Some(Err(error)) => {
                    self.refuse(&error);
                    return (at, Err(error));
                }
            }
        }
        (at, Ok(()))
    }

    /// Replies with the reason why the conversation is over.
    pub fn refuse(&mut self, error: &wire::Error) {
        self.output.bytes().extend_from_slice(&request::error_line(error));
        self.refused = true;
    }

    /// Executes commands in order until it must wait; returns the end of the executed ones, or `at`
    /// if none was.
    fn commands<S: Shards, T>(
        &mut self,
        requests: &[(Request<'_>, usize)],
        at: usize,
        shards: &S,
        turn: &mut Turn<'_, T>,
    ) -> usize {
        let mut at = at;
        for (request, behind) in requests {
            let mut args = SmallVec::<[&[u8]; 8]>::new();
            request.arguments().for_each(|argument| args.push(argument));
            if !self.command(&args, shards, turn) {
                break;
            }
            at = *behind;
            if !self.may_execute() {
                break;
            }
        }
        at
    }

    /// Executes one command; false when it has to be given again.
    fn command<S: Shards, T>(
        &mut self,
        args: &[&[u8]],
        shards: &S,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        // Messages pushed before the command precede its answer.
        self.session.hear(self.output.bytes());
        let start = self.output.end();
        let server = turn.server;
        let step = self.session.execute(args, server, shards, self.output.bytes(), turn.now);
        for (shard, position) in self.session.take_unsynced() {
            turn.touched[shard] = true;
            if server.parameters.sync() == Sync::Always {
                self.output.hold(start, shard, position);
            }
        }
        self.parked = match step {
            Step::Done => {
                self.executed(turn);
                return true;
            }
            Step::Sleep(pause) => {
                self.executed(turn);
                self.parked = Parked::Until((turn.clock)() + pause);
                return true;
            }
            Step::Wait => {
                self.session.waiting_on(|shard| turn.touched[shard] = true);
                Parked::Disk
            }
            Step::Again => Parked::Turn,
            Step::Busy => Parked::Busy,
        };
        if self.waits_since.is_none() {
            self.waits_since = Some(((turn.clock)(), self.parked));
        }
        false
    }

    /// Counts a command that was executed, and its time if it had to wait.
    fn executed<T>(&mut self, turn: &mut Turn<'_, T>) {
        *turn.done += 1;
        let looked_up = self.session.has_looked_up();
        let Some((since, reason)) = self.waits_since.take() else {
            *turn.at_once += u64::from(looked_up);
            if self.prompt.0 == 0 {
                self.prompt.1 = turn.began;
            }
            self.prompt.0 += 1;
            return;
        };
        let latency = (turn.clock)() - since;
        if looked_up {
            turn.lookups.note_waited(latency);
        }
        match reason {
            Parked::Turn => turn.latencies.parts.record(latency, 1),
            _ => turn.latencies.disk.record(latency, 1),
        }
    }

    /// Number of commands executed since the last call without waiting, and when the first was
    /// read; `None` if there are none, or an answer still waits. Call it after writing the output:
    /// that is when these commands end.
    #[inline]
    pub fn take_prompt(&mut self) -> Option<(u64, Duration)> {
        let ended = self.prompt.0 > 0 && !self.has_output();
        ended.then(|| std::mem::take(&mut self.prompt))
    }

    /// Whether output is waiting for the client.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.output.unsent() > 0
    }

    /// Whether output waits for the disk.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.output.is_held()
    }

    /// The output, and where it ends that may leave now.
    ///
    /// # Errors
    /// That of `is_durable`.
    pub fn release<E>(
        &mut self,
        is_durable: impl Fn(usize, Position) -> Result<bool, E>,
    ) -> Result<(&mut Output, usize), E> {
        self.session.hear(self.output.bytes());
        let end = self.output.release(is_durable)?;
        Ok((&mut self.output, end))
    }

    /// Whether no more commands will be executed.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.refused || self.session.is_closing()
    }
}
