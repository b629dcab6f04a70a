//! One client connection: its channel, input and output.
//!
//! It reads into its worker's one buffer, and executes commands straight from there; only a request
//! that is incomplete, or has to wait, is kept in a separate buffer.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use db::{Session, Step, batch::Batch, keyspace::Shards, output::Output};
use reactor::Channel;
use smallvec::SmallVec;
use store::elastic::Sync;
use tracing::debug;
use wire::{
    detect::{self, Protocol},
    resp::{
        Limits,
        request::{self, Request},
    },
};

use super::Shared;

/// Maximum output that waits for one client; above it, no further commands of the client are
/// executed. It is lower with many clients, so that together they stay within the limit for all.
pub(super) const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The same for a client that is not logged in: a few errors.
const OUTPUT_BYTES_BEFORE_LOGIN_MAX: usize = 4 << 10;
/// Smaller amounts are not counted as waiting data of clients.
const COUNTED_BYTES_MIN: usize = 8 << 10;
/// Number of requests decoded before the first is executed, so that their cache misses overlap.
const AHEAD: usize = 16;
/// Empty buffers with more capacity than this are freed.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// Reasons why a connection does not execute commands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parked {
    No,
    /// A lookup waits for the disk.
    Disk,
    /// The connection waits for its next turn.
    Turn,
    /// Writes wait until the disk has caught up.
    Busy,
    /// The connection waits until this time.
    Until(Instant),
}

/// One client connection.
pub(super) struct Connection {
    pub(super) session: Session,
    pub(super) parked: Parked,
    pub(super) channel: Channel,
    peer: SocketAddr,
    decoder: request::Decoder,
    input: Vec<u8>,
    output: Output,
    /// Time since which its lookup has waited for the disk.
    waits_since: Option<Instant>,
    /// The client sent invalid protocol data, or closed.
    ended: bool,
    /// Longest output that waits, in bytes.
    output_bytes_max: usize,
    /// Its contribution to [`Shared::clients_bytes`].
    counted: usize,
}

/// State of a worker that its connections use.
pub(super) struct Turn<'t> {
    pub(super) shared: &'t Shared,
    pub(super) limits: &'t Limits,
    /// Limits for clients that have to log in first.
    pub(super) limits_before_login: &'t Limits,
    /// Shards that have something for the disk.
    pub(super) touched: &'t mut [bool],
    /// Commands done in this round.
    pub(super) done: &'t mut u64,
    /// Lookups answered at once in this round.
    pub(super) at_once: &'t mut u64,
    pub(super) now: Duration,
    /// Longest output that waits for one client, in bytes.
    pub(super) output_bytes_max: usize,
}

impl Connection {
    pub(super) fn new(session: Session, channel: Channel, peer: SocketAddr) -> Self {
        Self {
            session,
            parked: Parked::No,
            channel,
            peer,
            decoder: request::Decoder::default(),
            input: Vec::new(),
            output: Output::default(),
            waits_since: None,
            ended: false,
            output_bytes_max: OUTPUT_BYTES_MAX,
            counted: 0,
        }
    }

    /// Updates its waiting bytes; returns those of all clients.
    pub(super) fn count(&mut self, shared: &Shared) -> usize {
        let bytes = self.input.len() + self.output.unsent() + self.session.queued_bytes();
        // The usual case has no waiting bytes and returns early.
        self.recount(if bytes < COUNTED_BYTES_MIN { 0 } else { bytes }, shared)
    }

    /// Subtracts its waiting bytes from the total.
    pub(super) fn uncount(&mut self, shared: &Shared) {
        self.recount(0, shared);
    }

    fn recount(&mut self, bytes: usize, shared: &Shared) -> usize {
        let before = std::mem::replace(&mut self.counted, bytes);
        if before == bytes {
            return shared.clients_bytes.load(Relaxed);
        }
        let change = bytes.wrapping_sub(before);
        shared.clients_bytes.fetch_add(change, Relaxed).wrapping_add(change)
    }

    /// Its waiting bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.counted
    }

    /// Address of its client.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads once and executes the requests received; false when the client has disconnected.
    pub(super) fn receive(&mut self, buffer: &mut [u8], turn: &mut Turn<'_>) -> bool {
        loop {
            let count = match self.channel.read(buffer) {
                Ok(Some(0)) => return false,
                Ok(Some(count)) => count,
                Ok(None) => return true,
                Err(error) => {
                    let first = self.channel.first().unwrap_or_default();
                    if let Err(foreign) = detect::expect(Protocol::Tls, first) {
                        // The error is sent unencrypted, because the client does not use TLS.
                        self.channel.give_up_tls();
                        self.refuse(&foreign, turn.shared);
                        return true;
                    }
                    debug!(peer = %self.peer, "client connection failed: {error}");
                    return false;
                }
            };
            let bytes = &buffer[..count];
            turn.shared.server.stats.input_bytes.fetch_add(count as u64, Relaxed);
            if self.input.is_empty() {
                let taken = self.execute(bytes, turn);
                self.input.extend_from_slice(&bytes[taken..]);
            } else {
                self.input.extend_from_slice(bytes);
                self.proceed(turn);
            }
            // Another TLS record may be buffered, for which epoll reports no event.
            if !self.channel.is_encrypted() || !self.may_execute() {
                return true;
            }
        }
    }

    /// Executes buffered requests.
    pub(super) fn proceed(&mut self, turn: &mut Turn<'_>) {
        if self.input.is_empty() {
            return;
        }
        if self.parked == Parked::No && !self.may_execute() {
            // The client reads no answers: release its reservations, so that other clients do not
            // wait.
            self.session.let_go(&turn.shared.server, &*turn.shared.locks);
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let taken = self.execute(&input, turn);
        input.drain(..taken);
        if input.is_empty() && input.capacity() > BUFFER_BYTES_KEPT {
            input = Vec::new();
        }
        self.input = input;
    }

    /// Whether it can execute a command now.
    pub(super) fn may_execute(&self) -> bool {
        self.parked == Parked::No
            && !self.ended
            && !self.session.is_closing()
            && self.output.unsent() < self.output_bytes_max
    }

    /// Whether it can read, and data may be available.
    pub(super) fn may_receive(&self) -> bool {
        self.channel.is_readable() && self.may_execute()
    }

    /// Executes the requests in `bytes`; returns how many bytes they took.
    fn execute(&mut self, bytes: &[u8], turn: &mut Turn<'_>) -> usize {
        let mut at = 0;
        while self.may_execute() {
            let mut ahead = at;
            let (limits, ahead_max) = if self.session.must_log_in(&turn.shared.server) {
                self.output_bytes_max = turn.output_bytes_max.min(OUTPUT_BYTES_BEFORE_LOGIN_MAX);
                // The next request may log in, which raises the limit for the one after it.
                (turn.limits_before_login, 1)
            } else {
                self.output_bytes_max = turn.output_bytes_max;
                (turn.limits, AHEAD)
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
            let shared = turn.shared;
            at = if let [_] = requests[..] {
                self.commands(&requests, at, &*shared.locks, turn)
            } else {
                let requested = requests.iter().map(|(request, _)| request);
                let is_alone = shared.post.len() == 1;
                let batch = Batch::of(requested, self.session.database(), &*shared.locks, is_alone);
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
                Some(Err(error)) => self.refuse(&error, turn.shared),
            }
        }
        at
    }

    /// Sends the client the reason for closing.
    fn refuse(&mut self, error: &wire::Error, shared: &Shared) {
        if let Ok(listen) = self.channel.local_addr() {
            shared.told.tell(listen, self.peer, error);
        }
        self.output.bytes().extend_from_slice(&request::error_line(error));
        self.ended = true;
    }

    /// Executes commands in order until it must wait; returns the end of the executed ones, or `at`
    /// if none was.
    fn commands<S: Shards>(
        &mut self,
        requests: &[(Request<'_>, usize)],
        at: usize,
        shards: &S,
        turn: &mut Turn<'_>,
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
    fn command<S: Shards>(&mut self, args: &[&[u8]], shards: &S, turn: &mut Turn<'_>) -> bool {
        // Messages pushed before the command precede its answer.
        self.session.hear(self.output.bytes());
        let start = self.output.end();
        let server = &turn.shared.server;
        let step = self.session.execute(args, server, shards, self.output.bytes(), turn.now);
        for (shard, position) in self.session.take_unsynced() {
            turn.touched[shard] = true;
            if server.parameters.sync() == Sync::Always {
                self.output.hold(start, shard, position);
            }
        }
        if self.session.has_looked_up() {
            self.time_lookup(step, turn);
        }
        *turn.done += u64::from(matches!(step, Step::Done | Step::Sleep(_)));
        self.parked = match step {
            Step::Done => return true,
            Step::Sleep(pause) => {
                self.parked = Parked::Until(Instant::now() + pause);
                return true;
            }
            Step::Wait => {
                self.session.waiting_on(|shard| turn.touched[shard] = true);
                Parked::Disk
            }
            Step::Again => Parked::Turn,
            Step::Busy => Parked::Busy,
        };
        false
    }

    fn time_lookup(&mut self, step: Step, turn: &mut Turn<'_>) {
        match (step, self.waits_since) {
            (Step::Done, None) => *turn.at_once += 1,
            (Step::Done, Some(since)) => {
                turn.shared.lookups.note_waited(since.elapsed());
                self.waits_since = None;
            }
            (_, None) => self.waits_since = Some(Instant::now()),
            (_, Some(_)) => {}
        }
    }

    /// Whether output is waiting for the client.
    pub(super) fn has_output(&self) -> bool {
        self.output.unsent() > 0 || self.channel.has_unsent()
    }

    /// Whether output waits for the disk.
    pub(super) fn is_held(&self) -> bool {
        self.output.is_held()
    }

    /// Writes as much as may leave and the client takes.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) fn send(&mut self, shared: &Shared) -> io::Result<()> {
        self.session.hear(self.output.bytes());
        let durable = &shared.disk.durable;
        let end = self.output.release(|shard, position| {
            let is_durable = durable.is_durable(shard, position);
            if !is_durable && durable.has_failed(shard) {
                // It is unknown whether the write survives, so it is not acknowledged.
                return Err(io::Error::other("its writes did not reach the disk"));
            }
            Ok(is_durable)
        })?;
        self.channel.flush()?;
        loop {
            let bytes = self.output.next(end);
            if bytes.is_empty() {
                break;
            }
            match self.channel.write(bytes)? {
                0 => break,
                count => self.output.advance(count),
            }
        }
        if let Some(sent) = self.output.clear() {
            shared.server.stats.output_bytes.fetch_add(sent as u64, Relaxed);
        }
        Ok(())
    }

    /// Whether the connection has finished.
    pub(super) fn is_over(&self) -> bool {
        (self.ended || self.session.is_closing())
            && (!self.has_output() || self.session.client().is_killed())
    }

    /// Whether it is between two commands, without waiting output.
    pub(super) fn is_idle(&self) -> bool {
        self.parked == Parked::No && !self.has_output() && !self.is_held()
    }
}
