//! The handshake of a client that connects with TLS.

use std::io;

use cache::filter::Filter;
use endpoint::seldom;
use platform::tls::{HANDSHAKE_MAX, HANDSHAKES_ROUND_MAX};
use wire::detect::{self, Protocol};

use super::{Connection, Link};
use crate::runtime::worker::Worker;

impl<F: Filter> Connection<F> {
    /// Continues the handshake, and reads the data after it. Signatures take up to milliseconds: a
    /// worker that has spent [`HANDSHAKES_ROUND_MAX`] on handshakes leaves the rest to the next
    /// round.
    pub(super) fn shake_hands(&mut self, worker: &mut Worker) -> io::Result<Option<usize>> {
        if worker.shaking >= HANDSHAKES_ROUND_MAX {
            return Ok(None);
        }
        let begun = worker.now();
        let read = self.client.read(&mut worker.buffer);
        worker.shaking += worker.now().saturating_sub(begun);
        match &read {
            Ok(_) if !self.client.is_handshaking() => self.handshake = None,
            Ok(_) => {}
            Err(error) => self.refuse_handshake(&error.to_string()),
        }
        read
    }

    /// Closes a client that does not complete its handshake.
    pub(super) fn end_late_handshake(&mut self, worker: &Worker) {
        let Some(handshake) = &self.handshake else { return };
        if handshake.until <= worker.now() {
            self.refuse_handshake(&format!("no complete handshake within {HANDSHAKE_MAX:?}"));
            self.lose_client(&io::ErrorKind::TimedOut.into());
        }
    }

    /// Bytes that are kept for the client besides those of the session: by TLS, and by the
    /// connections to several servers.
    pub(super) fn link_bytes(&self) -> usize {
        let origin = match &self.origin {
            Link::Up(origin) => origin.held_bytes(),
            Link::Several(servers) => servers.held_bytes(),
            Link::Down | Link::Connecting => 0,
        };
        self.client.held_bytes() + origin
    }

    /// Logs why the handshake failed. A client that does not speak TLS is answered in its protocol.
    fn refuse_handshake(&mut self, found: &str) {
        self.handshake = None;
        let (listen, peer) = (self.listener.address, self.peer);
        let told = &self.listener.told;
        let first = self.client.first().unwrap_or_default();
        if let Err(error) = detect::expect(Protocol::Tls, first) {
            told.tell(listen, peer, &error);
            if let wire::Error::Foreign { found, first, .. } = &error {
                let mut refusal = Vec::new();
                detect::refuse(*found, first, &error.to_string(), &mut refusal);
                self.client.give_up_tls();
                // The client may be gone.
                let _ = self.client.write(&refusal);
            }
            return;
        }
        let Some(tls) = &self.listener.tls else { return };
        let expected = tls.files().expectation();
        seldom!(told, Handshake => warn, %peer, %listen,
            "closing: TLS handshake failed: expected {expected}, found: {found}");
    }
}
