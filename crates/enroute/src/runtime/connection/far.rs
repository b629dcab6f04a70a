//! The origin side of a connection: connecting, reading, writing, loss.

use std::{io, sync::Arc};

use cache::{
    Side,
    filter::Filter,
    session::{Afterlife, Loss},
};
use endpoint::seldom;
use reactor::Channel;

use super::{ClientState, Connection, output::write, several::Several};
use crate::runtime::{connector::Wish, inbox::Wanted, worker::Worker};

/// The connection to the origin.
pub(super) enum Link {
    /// Not connected, and not needed now.
    Down,
    /// Requested.
    Connecting,
    /// Connected.
    Up(Channel),
    /// To several servers, as far as they are needed.
    Several(Box<Several>),
}

impl Link {
    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Several(_))
    }
}

impl<F: Filter> Connection<F> {
    pub(super) fn read_origin(&mut self, worker: &mut Worker) {
        if !self.reads_origin() || self.unconfirmed > 0 || !self.session.wants(Side::Server) {
            return;
        }
        let read = match &mut self.origin {
            Link::Up(origin) => origin.read(&mut worker.buffer),
            Link::Several(servers) => servers.read(&mut worker.buffer),
            Link::Down | Link::Connecting => return,
        };
        match read {
            Ok(None) => {}
            Ok(Some(0)) => {
                self.lose_origin(worker, Loss::Ended, "the origin closed the connection");
            }
            Ok(Some(count)) => self.receive(Side::Server, count, worker),
            Err(error) => self.lose_origin(worker, loss(&error), &error.to_string()),
        }
    }

    /// Gives up a connection to a server that is no longer the origin. Called before anything is
    /// read: a reply of that server has no effect on what is stored.
    pub(super) fn leave_former(&mut self, worker: &mut Worker) {
        if matches!(self.origin, Link::Up(_)) && self.epoch != self.address.place.epoch() {
            self.lose_origin(worker, Loss::Broken, "the origin is another server now");
        }
    }

    pub(super) fn write_origin(&mut self, worker: &mut Worker) {
        match &mut self.origin {
            Link::Up(origin) => match write(origin, &mut self.session, Side::Server) {
                Ok(()) => self.tell_origin(),
                // Data that the origin sent before it closed must still be read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) => self.lose_origin(worker, loss(&error), &error.to_string()),
            },
            Link::Down if !self.session.is_written(Side::Server) && self.closing.is_none() => {
                self.connect(worker);
            }
            Link::Several(servers) => {
                let outcome = servers.write(self.session.output(Side::Server));
                for wish in servers.wishes(self.ticket) {
                    let (wanted, sent) = (wish.wanted, worker.connect(wish));
                    sent.unwrap_or_else(|error| servers.refused(wanted, &error));
                }
                if let Err(error) = outcome {
                    self.lose_origin(worker, Loss::Broken, &error.to_string());
                }
            }
            Link::Down | Link::Connecting => {}
        }
    }

    /// Forwards the client's close to an origin that would otherwise keep sending to a subscriber,
    /// or keep a blocking command that would consume data meant for other clients.
    fn tell_origin(&mut self) {
        let ended = self.client_state == ClientState::Ended;
        let due = ended && !self.origin_told && self.session.is_written(Side::Server);
        if due
            && self.session.waits()
            && let Link::Up(origin) = &mut self.origin
        {
            // The next read from it returns the error.
            self.origin_told = origin.end().is_ok();
        }
    }

    pub(super) fn connect(&mut self, worker: &mut Worker) {
        if let Some(servers) = self.address.servers() {
            self.origin = Link::Several(Box::new(Several::new(servers)));
            return self.session.origin_connected(worker.now());
        }
        let wanted = Wanted { ticket: self.ticket, number: 0 };
        let wish = Wish { wanted, origin: Arc::clone(&self.address) };
        self.origin = Link::Connecting;
        if let Err(error) = worker.connect(wish) {
            self.unreachable(worker, &error);
        }
    }

    pub(super) fn unreachable(&mut self, worker: &mut Worker, error: &io::Error) {
        self.origin = Link::Down;
        self.address.report(error);
        let now = worker.now();
        let why = self.address.excuse(error);
        let afterlife = self.session.origin_unreachable(&why, &mut worker.storage, now);
        worker.deliver();
        if afterlife == Afterlife::Close {
            self.begin_close(now);
        }
    }

    fn lose_origin(&mut self, worker: &mut Worker, loss: Loss, why: &str) {
        if matches!(&self.origin, Link::Up(origin) if origin.is_unheard()) {
            // A server that refuses a client's certificate does so after the handshake of TLS 1.3.
            self.address.report(&io::Error::other(format!(
                "it ended an encrypted connection before its first reply ({why}); if it requires \
                 certificates of its clients, set `origin_tls = {{ cert, key }}` and check that it \
                 trusts their authority"
            )));
        }
        self.origin = Link::Down;
        let now = worker.now();
        let afterlife = self.session.origin_lost(loss, &mut worker.storage, now);
        self.tell_lost();
        worker.deliver();
        if afterlife == Afterlife::Close {
            if !self.session.has_ended() {
                seldom!(self.listener.told, Origin => info, peer = %self.peer, origin = %self.address, why,
                    "closing: the origin connection was lost");
            }
            self.begin_close(now);
        }
    }
}

/// An origin that closes a connection with unread data resets it.
fn loss(error: &io::Error) -> Loss {
    match error.kind() {
        io::ErrorKind::ConnectionReset => Loss::Ended,
        _ => Loss::Broken,
    }
}
