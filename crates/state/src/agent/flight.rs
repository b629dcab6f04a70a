//! A connection to a node: what was said, in order, until it is answered.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use wire::resp::{Limits, Scanner, Version};

use super::Output;
use crate::slot::Slot;

/// A request of a client, wherever it is on its way.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Where the client sits, and who it is: the seat may have gone to another.
    pub(super) client: usize,
    pub(super) id: u64,
    /// Its number among the client's requests.
    pub(super) number: u64,
    pub(super) slot: Option<Slot>,
    pub(super) write: bool,
    /// Answers it gets: one, or those of MULTI, its commands and EXEC.
    pub(super) answers: u32,
    /// When it came.
    pub(super) since: Duration,
    /// How often it was sent on.
    pub(super) redirects: u32,
}

/// Who is to be told.
#[derive(Debug)]
pub(super) enum Asker {
    Client(Asked),
    /// The agent wants to know who owns what.
    Slots,
    /// The agent wants to know how long this takes.
    Ping(Duration),
}

/// Something that was said to a node and is not fully answered.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) asker: Asker,
    /// Its bytes at the front of what is kept, ASKING included.
    pub(super) bytes: usize,
    /// Bytes of them that are ASKING.
    pub(super) ahead: usize,
    /// Answers that are still to come.
    pub(super) due: u32,
    /// The first refusal among the commands of a transaction.
    pub(super) refusal: Option<Vec<u8>>,
}

/// One connection to a node. Requests are kept until they are answered: what was redirected is sent
/// on from here.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: usize,
    pub(super) version: Version,
    pub(super) address: SocketAddr,
    pub(super) connected: bool,
    pub(super) output: Output,
    pub(super) flights: VecDeque<Flight>,
    /// The part of an answer that has come.
    pub(super) input: Vec<u8>,
    pub(super) scanner: Scanner,
    /// Bytes of `input` that were scanned.
    pub(super) scanned: usize,
    /// Answers to what the agent itself said first (HELLO).
    pub(super) greetings_due: u32,
}

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
const HELLO_3: &[u8] = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";

impl Link {
    pub(super) fn new(node: usize, version: Version, address: SocketAddr, limits: &Limits) -> Self {
        let mut link = Self {
            node,
            version,
            address,
            connected: false,
            output: Output::default(),
            flights: VecDeque::new(),
            input: Vec::new(),
            scanner: Scanner::new(limits),
            scanned: 0,
            greetings_due: 0,
        };
        if version == Version::Resp3 {
            link.output.extend(HELLO_3);
            link.greetings_due = 1;
        }
        link
    }

    /// Says `request`, of which `answers` answers will come.
    pub(super) fn say(&mut self, asker: Asker, request: &[u8], asking: bool, answers: u32) {
        let ahead = if asking { ASKING.len() } else { 0 };
        if asking {
            self.output.extend(ASKING);
        }
        self.output.extend(request);
        let (bytes, due) = (ahead + request.len(), answers + u32::from(asking));
        self.flights.push_back(Flight { asker, bytes, ahead, due, refusal: None });
    }

    /// The answer to what the agent said first has come.
    pub(super) fn greeted(&mut self) {
        self.greetings_due -= 1;
        self.output.forget(HELLO_3.len());
    }

    /// Everything that is not answered with its request: and whether the node may have executed it,
    /// which is so if every byte of it was handed to the network.
    pub(super) fn lose(&mut self) -> Vec<(Asker, Vec<u8>, bool)> {
        let mut at = HELLO_3.len() * self.greetings_due as usize;
        let (kept, written) = (self.output.kept(), self.output.written());
        let lost = self.flights.drain(..).map(|flight| {
            let (start, end) = (at + flight.ahead, at + flight.bytes);
            at = end;
            (flight.asker, kept.get(start..end).unwrap_or_default().to_vec(), end <= written)
        });
        lost.collect()
    }
}
