//! The clients of a worker: accepting, limits of waiting bytes, closing.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use db::{
    Session,
    conversation::{Conversation, OUTPUT_BYTES_MIN},
};
use endpoint::seldom;
use reactor::{Acceptor, Channel, Socket, Token};
use wire::resp::response;

use super::{super::connection::Connection, Note, Worker};

/// Clients accepted in one round.
const ACCEPTED_AT_ONCE: usize = 64;

impl Worker {
    /// Deals connections to the workers in turn.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let accepted = self.acceptor.as_mut().and_then(Acceptor::accept);
            let Some((stream, peer)) = accepted else { return };
            let worker = self.next % self.shared.post.len();
            self.next += 1;
            if worker == self.index {
                self.begin(stream, peer);
            } else {
                self.shared.post.inbox(worker).send(Note::Accepted(stream, peer));
            }
        }
    }

    pub(super) fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let server = &self.shared.server;
        if server.clients.len() >= server.parameters.clients_max.load(Relaxed) {
            server.stats.rejected.fetch_add(1, Relaxed);
            seldom!(self.shared.told, Full => warn, %peer,
                "connection rejected: the maximum number of clients (--clients-max) is reached");
            let _ = io::Write::write(&mut &stream, response::CLIENTS_MAX_REACHED);
            return;
        }
        if let Err(error) = self.enter(stream, peer) {
            seldom!(self.shared.told, Socket => warn, %peer,
                "connection closed: cannot set up its socket: {error}");
        }
    }

    fn enter(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        let tls = self.tls.as_ref().map(|tls| tls.connection()).transpose();
        let tls = tls.map_err(io::Error::other)?.map(rustls::Connection::from);
        let local = stream.local_addr().map_or_else(|_| String::new(), |local| local.to_string());
        let (server, inbox) = (&self.shared.server, &self.inbox);
        let now_ms = self.shared.now().as_millis() as u64;
        self.seats.seat(|token| {
            let socket = Socket::new(stream, &self.reactor, token.tagged(0))?;
            server.stats.connections.fetch_add(1, Relaxed);
            let inbox = Arc::clone(inbox);
            let client = server.clients.enter(peer.to_string(), local, now_ms, |_| {
                Box::new(move || inbox.send(Note::Look(token)))
            });
            io::Result::Ok(Connection::new(
                Conversation::new(Session::new(client, server)),
                Channel::new(socket, tls),
                peer,
            ))
        })?;
        Ok(())
    }

    pub(super) fn close(&mut self, token: Token) {
        let Some(mut connection) = self.seats.leave(token) else { return };
        connection.conversation.uncount(&self.shared.clients_bytes);
        connection.conversation.close(&self.shared.server, &*self.shared.locks);
    }

    /// Updates the waiting bytes of a connection; if all clients exceed their limit, closes the
    /// client of this worker with the most.
    pub(super) fn count(&mut self, token: Token) {
        let Some(connection) = self.seats.get_mut(token) else { return };
        let bytes_max = self.shared.server.parameters.clients_bytes_max();
        let bytes = connection.conversation.count(&self.shared.clients_bytes);
        if bytes <= bytes_max {
            return;
        }
        let greediest =
            self.seats.iter().max_by_key(|(_, connection)| connection.conversation.kept_bytes());
        let Some((token, connection)) = greediest else { return };
        let kept = connection.conversation.kept_bytes();
        if kept < OUTPUT_BYTES_MIN {
            // Clients of other workers hold the bytes.
            return;
        }
        seldom!(self.shared.told, Buffers => warn, peer = %connection.peer(),
            "closing the client with the largest buffers: {} of {bytes} bytes of all clients, \
             whose limit is {bytes_max} (maxmemory-clients)", kept);
        self.close(token);
    }

    pub(super) fn close_all_where(&mut self, chosen: impl Fn(&Connection) -> bool) {
        let chosen = self.seats.iter().filter(|(_, connection)| chosen(connection));
        let chosen: Vec<Token> = chosen.map(|(token, _)| token).collect();
        chosen.into_iter().for_each(|token| self.close(token));
    }

    /// Closes clients that have been idle for longer than the timeout.
    pub(super) fn close_idle(&mut self) {
        let timeout = self.shared.server.parameters.timeout_seconds.load(Relaxed);
        if timeout > 0 {
            let limit = self.shared.now().saturating_sub(Duration::from_secs(timeout));
            self.close_all_where(|connection| {
                connection.is_idle()
                    && connection.conversation.session().client().active_at() < limit
            });
        }
    }
}
