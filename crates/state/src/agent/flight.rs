//! A connection to a node: sent requests, in order, until they are answered.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use wire::resp::{Limits, Scanner, Version, request};

use super::{
    Login, Output,
    copies::{Fill, Held},
    own::{Own, Owner},
    subscriptions::Subscribing,
};
use crate::slot::Slot;

/// A request of a client, in any state.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Seat and identity of the client: the seat may have been reused.
    pub(super) client: usize,
    pub(super) id: u64,
    /// Its number among the client's requests.
    pub(super) number: u64,
    pub(super) slot: Option<Slot>,
    pub(super) write: bool,
    /// No copy of these slots is made or used until it is answered.
    pub(super) holds: Option<Held>,
    /// Number of its answers: one, or those of MULTI, its commands and EXEC.
    pub(super) answers: u32,
    /// The time at which it was received.
    pub(super) since: Duration,
    /// The number of redirections that were followed.
    pub(super) redirects: u32,
    /// It is this part of a request of the client.
    pub(super) part: Option<u16>,
    /// It uses a connection of the client's own.
    pub(super) own: Option<Own>,
}

/// The recipient of the reply.
#[derive(Debug)]
pub(super) enum Asker {
    Client(Asked),
    /// A client of this version, over the connection of the copies, where the answer is copied.
    Copied(Asked, Version, Option<Fill>),
    /// The agent's query of the expiry of the key just read by this request, with the time of the
    /// query.
    Expiry(Fill, Vec<u8>, Duration),
    /// The agent's query of slot owners.
    Slots,
    /// The agent's round-trip measurement.
    Ping(Duration),
    /// A client that subscribes.
    Subscribe(Subscribing),
    /// Nothing; with the number of answers.
    Ignored(u32),
    /// The agent's confirmation that all changes up to that time were reported.
    Proof(Duration),
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests of clients with this protocol version.
    Requests(Version),
    /// Reads that create copies, and writes that end them: the node reports changes.
    Copies,
    /// Subscriptions of one client.
    Messages,
}

impl Purpose {
    pub(super) const COUNT: usize = 4;

    pub(super) fn place(self) -> usize {
        match self {
            Self::Requests(Version::Resp2) => 0,
            Self::Requests(Version::Resp3) => 1,
            Self::Copies => 2,
            Self::Messages => 3,
        }
    }

    pub(super) fn version(self) -> Version {
        match self {
            Self::Requests(version) => version,
            Self::Copies | Self::Messages => Version::Resp3,
        }
    }
}

/// A request to a node that is not fully answered.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) asker: Asker,
    /// Its bytes at the front of the kept bytes, including the prefix command.
    pub(super) bytes: usize,
    /// Bytes of the prefix command: ASKING, or CLIENT CACHING.
    pub(super) ahead: usize,
    /// Number of outstanding answers.
    pub(super) due: u32,
    /// The first refusal among the commands of a transaction.
    pub(super) refusal: Option<Vec<u8>>,
}

/// One connection to a node. Requests are kept until they are answered, so that they can be sent
/// again after a redirection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: usize,
    pub(super) purpose: Purpose,
    pub(super) address: SocketAddr,
    pub(super) connected: bool,
    /// The only client that uses it.
    pub(super) owner: Option<Owner>,
    /// It is not used any more, and will be removed.
    pub(super) closed: bool,
    pub(super) output: Output,
    pub(super) flights: VecDeque<Flight>,
    /// The received part of an answer.
    pub(super) input: Vec<u8>,
    pub(super) scanner: Scanner,
    /// Bytes of `input` that were scanned.
    pub(super) scanned: usize,
    /// Lengths of the agent's own unanswered set-up commands.
    pub(super) greetings: VecDeque<usize>,
    /// Bytes of the arriving answer that were not kept because it is too long.
    pub(super) dropped: usize,
    /// Its share of [`super::Agent::held_bytes`].
    pub(super) counted: usize,
}

/// Capacity that an empty output buffer of a connection keeps.
const ROOM_BYTES: usize = 64 << 10;
/// Number of unanswered requests for which capacity is kept.
const FLIGHTS_KEPT: usize = 1_024;

/// Sent before a request that was redirected by ASK.
pub(super) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
/// Sent before a read whose key the node must track.
pub(super) const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

impl Link {
    pub(super) fn new(
        node: usize,
        purpose: Purpose,
        address: SocketAddr,
        login: Option<&Login>,
        limits: &Limits,
    ) -> Self {
        let mut link = Self {
            node,
            purpose,
            address,
            connected: false,
            owner: None,
            closed: false,
            output: Output::new(ROOM_BYTES),
            flights: VecDeque::new(),
            input: Vec::new(),
            scanner: Scanner::new(limits),
            scanned: 0,
            greetings: VecDeque::new(),
            dropped: 0,
            counted: 0,
        };
        let words = |login: &Login| [b"AUTH".to_vec(), login.user.clone(), login.password.clone()];
        let mut login = login.map(words).map(Vec::from).unwrap_or_default();
        if purpose.version() == Version::Resp3 {
            login.splice(0..0, [b"HELLO".to_vec(), b"3".to_vec()]);
        }
        if !login.is_empty() {
            link.greet(&login);
        }
        if purpose == Purpose::Copies {
            link.greet(&["CLIENT", "TRACKING", "ON", "OPTIN"]);
        }
        link
    }

    fn greet(&mut self, words: &[impl AsRef<[u8]>]) {
        let mut greeting = Vec::new();
        request::write_command(&mut greeting, words);
        self.output.extend(&greeting);
        self.greetings.push_back(greeting.len());
    }

    /// Sends `request`, which gets `answers` replies, preceded by the required prefix command.
    pub(super) fn say(&mut self, asker: Asker, ahead: &[u8], request: &[u8], answers: u32) {
        self.output.extend(ahead);
        self.output.extend(request);
        let (ahead, due) = (ahead.len(), answers + u32::from(!ahead.is_empty()));
        let bytes = ahead + request.len();
        self.flights.push_back(Flight { asker, bytes, ahead, due, refusal: None });
    }

    /// Bytes of memory in use.
    pub(super) fn held_bytes(&self) -> usize {
        let flights = self.flights.capacity() * size_of::<Flight>();
        self.output.held_bytes() + self.input.capacity() + flights
    }

    /// Frees capacity of completed requests.
    pub(super) fn shrink(&mut self) {
        if self.input.is_empty() {
            self.input.shrink_to(ROOM_BYTES);
        }
        if self.flights.is_empty() {
            self.flights.shrink_to(FLIGHTS_KEPT);
        }
    }

    /// Processes the answer to the first command on the connection.
    pub(super) fn greeted(&mut self) {
        if let Some(bytes) = self.greetings.pop_front() {
            self.output.forget(bytes);
        }
    }

    /// Returns all unanswered requests, each with whether the node may have executed it, which is
    /// the case if every byte was handed to the network.
    pub(super) fn lose(&mut self) -> Vec<(Asker, Vec<u8>, bool)> {
        let mut at = self.greetings.iter().sum::<usize>();
        let (kept, written) = (self.output.kept(), self.output.written());
        let lost = self.flights.drain(..).map(|flight| {
            let (start, end) = (at + flight.ahead, at + flight.bytes);
            at = end;
            (flight.asker, kept.get(start..end).unwrap_or_default().to_vec(), end <= written)
        });
        lost.collect()
    }
}
