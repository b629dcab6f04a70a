//! A connection: the client's end, and the listener or connection at the server's.

use super::{NEVER, Receiver, Sender, Tuning};
use crate::packet::{Later, Segment, flag};

#[derive(Debug, Clone)]
pub(crate) struct Connection {
    client: Sender,
    /// None yet: a SYN reaches the listener.
    server: Option<Receiver>,
}

/// Results of a segment's arrival other than segments to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// It counts as received: duplicate data, and segments without a receiver, do not.
    pub counted: bool,
    /// Every byte has now been acknowledged.
    pub completed: bool,
    /// An action to run after all other events of this nanosecond.
    pub later: Option<Later>,
}

impl Connection {
    /// Opens one that is to carry `bytes`.
    pub(crate) fn connect(
        segments: &mut Vec<Segment>,
        bytes: u32,
        tuning: &Tuning,
        now_ns: u64,
    ) -> Self {
        Self { client: Sender::connect(segments, bytes, tuning, now_ns), server: None }
    }

    /// A closed connection whose SYN arrives again: the listener answers it; the client ignores
    /// that until it has dropped the connection, and then resets it.
    pub(crate) fn gone(tuning: &Tuning, now_ns: u64) -> Self {
        Self { client: Sender::gone(tuning, now_ns), server: None }
    }

    /// A segment arrived at the end it was sent to.
    pub(crate) fn receive(
        &mut self,
        segments: &mut Vec<Segment>,
        segment: &Segment,
        sent_ns: u64,
        tuning: &Tuning,
        now_ns: u64,
    ) -> Arrival {
        if segment.flags & flag::REVERSE != 0 {
            let before = self.client.completed();
            let counted = self.client.receive(segments, segment, tuning, now_ns);
            return Arrival {
                counted,
                completed: !before && self.client.completed(),
                later: self.client.take_connected().then_some(Later::Connected),
            };
        }
        let mut arrival = Arrival { counted: true, completed: false, later: None };
        match self.server.as_mut().filter(|server| !server.closed()) {
            Some(server) => {
                arrival.counted = server.receive(segments, segment, sent_ns, now_ns);
            }
            None if segment.flags & flag::SYN != 0 => arrival.later = Some(Later::Accept),
            None => {}
        }
        arrival
    }

    /// The listener answers a SYN sent at `sent_ns`.
    pub(crate) fn accept(&mut self, segments: &mut Vec<Segment>, sent_ns: u64, now_ns: u64) {
        self.server = Some(Receiver::accept(segments, sent_ns, now_ns));
    }

    /// The application has written everything.
    pub(crate) fn write(&mut self, segments: &mut Vec<Segment>, now_ns: u64) {
        self.client.write(segments, now_ns);
    }

    /// Wake-up times of the ends: client, server.
    pub(crate) fn dues_ns(&self) -> [u64; 2] {
        // A closed client's timeout need not be awaited, unless a server still waits for its
        // answer.
        let awaited = !self.client.closed() || self.server.as_ref().is_some_and(Receiver::answers);
        let client_ns = if awaited { self.client.due_ns() } else { NEVER };
        [client_ns, self.server.as_ref().map_or(NEVER, Receiver::due_ns)]
    }

    /// Processes a wake-up of one end.
    pub(crate) fn wake(&mut self, segments: &mut Vec<Segment>, client: bool, now_ns: u64) {
        if client {
            self.client.wake(segments, now_ns);
        } else if let Some(server) = &mut self.server {
            server.wake(segments, now_ns);
        }
    }

    /// Neither end will send anything again.
    pub(crate) fn over(&self) -> bool {
        let server_closed = self.server.as_ref().is_some_and(Receiver::closed);
        self.client.closed() && (server_closed || (self.client.dropped() && self.server.is_none()))
    }
}
