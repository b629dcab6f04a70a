//! A client of the agent: its requests, in order, and their replies.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use acl::{Identity, OUTPUT_BYTES_BEFORE_LOGIN_MAX};
use wire::resp::{Version, request::Decoder, response};

use super::{
    Output, gather::Gather, map::Map, own::Watch, rights::Rights, subscriptions::Subscriptions,
    transaction::Transaction,
};

/// Maximum number of unanswered requests of one client; more are not read.
pub(super) const PIPELINE_MAX: usize = 1_024;
/// Maximum bytes of unanswered requests of one client; further ones wait until all are answered.
pub(super) const ASKED_BYTES_MAX: usize = 16 << 20;
/// Maximum unread bytes of a client; above it, nothing more is executed for the client until it
/// reads. A client with subscriptions that has more is closed.
pub(super) const UNREAD_BYTES_MAX: usize = 4 << 20;
/// Capacity that an empty output buffer keeps: there may be many clients.
const ROOM_BYTES: usize = 2 << 10;
/// Number of waiting answers for which capacity is kept.
const PLACES_KEPT: usize = 16;

/// An answer in its place.
#[derive(Debug)]
enum Place {
    Waits,
    Ready(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    /// The address it connected to.
    pub(super) address: SocketAddr,
    /// Input that was not executed.
    pub(super) input: Vec<u8>,
    pub(super) decoder: Decoder,
    pub(super) output: Output,
    pub(super) version: Version,
    pub(super) identity: Identity,
    pub(super) name: Vec<u8>,
    pub(super) transaction: Option<Transaction>,
    /// The request that several nodes execute; it is the only one that is not answered.
    pub(super) gather: Option<Box<Gather>>,
    /// Its own connections to nodes.
    pub(super) own: Vec<usize>,
    /// It has watched keys.
    pub(super) watch: Option<Watch>,
    /// It waits for the reply to a command that blocks.
    pub(super) blocked: bool,
    /// What it is subscribed to, since its first subscription.
    pub(super) heard: Option<Box<Subscriptions>>,
    /// Answers not yet given, from number `first` on.
    places: VecDeque<Place>,
    /// Bytes of the answers that have arrived.
    ready_bytes: usize,
    first: u64,
    /// Version of the map with which its unanswered requests were sent.
    pub(super) map_version: u64,
    /// Nothing more is sent until everything is answered: requests may have to be sent again.
    pub(super) alone: bool,
    /// Number of its requests that wait to be sent again.
    pub(super) delayed: u32,
    pub(super) delayed_until: Duration,
    /// Bytes of its requests since everything was answered.
    pub(super) asked_bytes: usize,
    /// Answers from copies that it has not taken, and when the first of their requests was read.
    pub(super) copied: (u64, Duration),
    /// It is the agent's own [`Reporter`](super::Reporter).
    pub(super) reports: bool,
    /// It gets its due replies and is then closed.
    pub(super) closing: bool,
    /// Its contribution to [`super::Agent::held_bytes`].
    pub(super) counted: usize,
}

impl Client {
    pub(super) fn new(id: u64, address: SocketAddr, rights: &Rights) -> Self {
        Self {
            id,
            address,
            input: Vec::new(),
            decoder: Decoder::default(),
            output: Output::new(ROOM_BYTES),
            version: Version::default(),
            identity: Identity::new(rights.users()),
            name: Vec::new(),
            transaction: None,
            gather: None,
            own: Vec::new(),
            watch: None,
            blocked: false,
            heard: None,
            places: VecDeque::new(),
            ready_bytes: 0,
            first: 0,
            map_version: 0,
            alone: false,
            delayed: 0,
            delayed_until: Duration::ZERO,
            asked_bytes: 0,
            copied: (0, Duration::ZERO),
            reports: false,
            closing: false,
            counted: 0,
        }
    }

    /// Whether everything was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether one more request may be handled, with `room` bytes of waiting data per client.
    pub(super) fn may_ask(&self, room: usize) -> bool {
        let unread_max = match self.identity.is_let_in() {
            true => UNREAD_BYTES_MAX,
            false => OUTPUT_BYTES_BEFORE_LOGIN_MAX,
        };
        !self.closing
            && self.places.len() < PIPELINE_MAX
            && self.output.bytes().len() < unread_max.min(room)
    }

    /// Memory that its closing frees.
    pub(super) fn held_bytes(&self) -> usize {
        let transaction = self.transaction.as_ref().map(|queued| queued.commands.capacity());
        self.input.capacity()
            + self.output.held_bytes()
            + self.places.capacity() * size_of::<Place>()
            + self.ready_bytes
            + transaction.unwrap_or_default()
            + self.gather.as_ref().map_or(0, |gather| gather.held_bytes())
            + self.heard.as_ref().map_or(0, |heard| heard.held_bytes())
    }

    /// Reserves the place of an outstanding answer; returns its number.
    pub(super) fn expect(&mut self) -> u64 {
        self.places.push_back(Place::Waits);
        self.first + self.places.len() as u64 - 1
    }

    /// Queues an answer to a request, in the order of requests.
    pub(super) fn tell(&mut self, answer: &[u8]) {
        if self.places.is_empty() {
            self.first += 1;
            self.output.extend(answer);
        } else {
            self.places.push_back(Place::Ready(answer.to_vec()));
            self.ready_bytes += answer.len();
        }
    }

    /// Processes the answer to request `number`.
    pub(super) fn answer(&mut self, number: u64, answer: &[u8]) {
        let Some(at) = number.checked_sub(self.first) else { return };
        if at > 0 {
            if let Some(place) = self.places.get_mut(at as usize) {
                *place = Place::Ready(answer.to_vec());
                self.ready_bytes += answer.len();
            }
            return;
        }
        self.places.pop_front();
        self.first += 1;
        self.output.extend(answer);
        while let Some(Place::Ready(_)) = self.places.front() {
            if let Some(Place::Ready(answer)) = self.places.pop_front() {
                self.output.extend(&answer);
                self.ready_bytes -= answer.len();
            }
            self.first += 1;
        }
        if self.places.is_empty() {
            self.places.shrink_to(PLACES_KEPT);
        }
    }
}

impl Client {
    /// Whether its next request must wait until all earlier ones are answered.
    pub(super) fn waits(&self, map: &Map) -> bool {
        !self.is_answered() && (self.alone || self.map_version != map.version())
    }

    /// Answers with an error. The transaction to which the request belongs fails too.
    pub(super) fn refuse(&mut self, why: &str) {
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
        let mut answer = Vec::new();
        response::write_error(&mut answer, why.as_bytes());
        self.tell(&answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_their_requests() {
        let rights = Rights::new(&wire::resp::Limits::default());
        let mut client = Client::new(1, SocketAddr::from(([127, 0, 0, 1], 1)), &rights);
        client.tell(b"a");
        let (second, third) = (client.expect(), client.expect());
        client.tell(b"d");
        client.answer(third, b"c");
        assert_eq!(client.output.bytes(), b"a");
        client.answer(second, b"b");
        assert_eq!((client.output.bytes(), client.is_answered()), (&b"abcd"[..], true));
        let next = client.expect();
        client.answer(second, b"late");
        client.answer(next, b"e");
        assert_eq!(client.output.bytes(), b"abcde");
    }
}
