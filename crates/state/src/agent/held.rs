//! Accounting of the agent's memory for clients, and releasing it.
//!
//! It counts the buffers of clients and of connections to nodes, including outstanding requests.
//! Copies have a separate budget ([`Agent::grant`]).

use std::time::Duration;

use wire::resp::{Kind, Limits, response};

use super::{Agent, copies::FORGET_ALL, flight::Asker};

/// Maximum length of a request, an answer and a transaction. Each is held until it is complete, and
/// a second time while it is being sent.
const WHOLE_BYTES_MAX: usize = 8 << 20;
/// While clients have no room, an answer longer than this is not kept.
const PRESSED_BYTES_MAX: usize = 64 << 10;
/// A client or connection that uses less is not counted.
const COUNTED_BYTES_MIN: usize = 4 << 10;

/// Limits of requests and replies through an agent.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        request_bytes_max: WHOLE_BYTES_MAX,
        bulk_bytes_max: WHOLE_BYTES_MAX,
        reply_bytes_max: WHOLE_BYTES_MAX,
        ..Limits::default()
    }
}

impl Agent {
    /// Bytes held for all clients: received and waiting, waiting to be written, and requests in
    /// progress.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// Bytes that closing this client frees.
    #[must_use]
    pub fn held_by(&self, client: usize) -> usize {
        self.clients.get(client).map_or(0, |client| client.counted)
    }

    /// Sets how many bytes each client may keep waiting; with none, no client is read or executed.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = bytes;
    }

    /// Bytes of all copies.
    #[must_use]
    pub fn copied_bytes(&self) -> usize {
        self.copies.bytes()
    }

    /// Sets the memory for copies, in bytes.
    pub fn grant(&mut self, bytes: usize) {
        self.copies.grant(bytes);
    }

    /// Counts what a client keeps now.
    pub(super) fn count(&mut self, client: usize) {
        let Some(client) = self.clients.get_mut(client) else { return };
        let now = counted(client.held_bytes());
        self.held = self.held + now - std::mem::replace(&mut client.counted, now);
    }

    /// Counts what a connection to a node keeps now.
    pub(super) fn count_link(&mut self, link: usize) {
        let Some(link) = self.links.get_mut(link).filter(|link| !link.closed) else { return };
        let now = counted(link.held_bytes());
        self.held = self.held + now - std::mem::replace(&mut link.counted, now);
    }

    /// Recomputes the value that [`Self::held_bytes`] must have.
    #[cfg(test)]
    pub(super) fn recounted(&self) -> usize {
        let clients = self.clients.iter().map(|(_, client)| counted(client.held_bytes()));
        let open = self.links.iter().filter(|(_, link)| !link.closed);
        let links = open.map(|(_, link)| counted(link.held_bytes()));
        let delayed = self.delayed.values().map(|(_, _, request)| request.len());
        clients.chain(links).chain(delayed).sum()
    }

    /// Buffered bytes of the reply that is arriving on a connection.
    pub(super) fn answer_bytes_max(&self, link: usize) -> usize {
        let front = self.links.get(link).and_then(|link| link.flights.front());
        let is_asked = |asker: &Asker| matches!(asker, Asker::Client(_) | Asker::Copied(..));
        match front.is_some_and(|flight| is_asked(&flight.asker)) {
            true if self.room == 0 => PRESSED_BYTES_MAX,
            _ => self.limits.reply_bytes_max,
        }
    }

    /// Handles a reply of the given length that was not kept.
    pub(super) fn dropped(
        &mut self,
        link: usize,
        kind: Option<Kind>,
        bytes: usize,
        now: Duration,
    ) -> wire::Result<()> {
        if kind == Some(Kind::Push) {
            match self.links.get(link).and_then(|link| link.owner) {
                Some(owner) => self.drop_client(owner),
                None => self.copies.told(link, FORGET_ALL),
            }
            return Ok(());
        }
        let most = self.limits.reply_bytes_max;
        let text = format!(
            "ERR the command was executed, and its reply of {bytes} bytes was dropped: expected at most {most} bytes, and \
             at most {PRESSED_BYTES_MAX} while the buffers of all clients are full; request less at once, or connect \
             to the node"
        );
        let mut answer = Vec::new();
        response::write_error(&mut answer, text.as_bytes());
        self.answer(link, &answer, now)
    }
}

fn counted(bytes: usize) -> usize {
    if bytes < COUNTED_BYTES_MIN { 0 } else { bytes }
}
