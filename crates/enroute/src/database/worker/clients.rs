//! The clients of a worker: who comes, what each may keep waiting, and who has to go.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use db::Session;
use rustix::event::epoll::{self, EventData, EventFlags};
use tracing::warn;

use super::{
    super::{
        Tls,
        connection::{Connection, OUTPUT_BYTES_MAX},
    },
    Note, Worker,
};

/// However many clients there are, each may have so much output waiting.
const OUTPUT_BYTES_MIN: usize = 16 << 10;
/// Clients accepted in one round.
const ACCEPTED_AT_ONCE: usize = 64;
/// Rest after a failed accept: out of descriptors, most likely, so others must close first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Worker {
    /// What memory and the number of clients allow each of them now.
    pub(super) fn limit_clients(&mut self) {
        let server = &self.shared.server;
        let bytes_max = server.parameters.clients_bytes_max();
        self.limits.request_bytes_max = bytes_max;
        self.limits_before_login = self.limits.before_login();
        // Half for answers, half for all else.
        let share = bytes_max / 2 / server.clients.len().max(1);
        self.output_bytes_max = share.clamp(OUTPUT_BYTES_MIN, OUTPUT_BYTES_MAX);
    }

    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, peer)) => {
                    let worker = self.next % self.shared.inboxes.len();
                    self.next += 1;
                    if worker == self.index {
                        self.begin(stream, peer);
                    } else {
                        self.shared.inboxes[worker].send(Note::Accepted(stream, peer));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    warn!(
                        "cannot accept a connection: {error}; raise `ulimit -n` if the limit of \
                         open files is reached"
                    );
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    pub(super) fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let server = &self.shared.server;
        if server.clients.len() >= server.parameters.clients_max.load(Relaxed) {
            server.stats.rejected.fetch_add(1, Relaxed);
            warn!(%peer, "connection rejected: the maximum number of clients (--clients-max) is \
                          reached");
            let _ = io::Write::write(&mut &stream, b"-ERR max number of clients reached\r\n");
            return;
        }
        if let Err(error) = self.enter(stream, peer) {
            warn!(%peer, "connection closed: cannot set up its socket: {error}");
        }
    }

    fn enter(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        let tls = self.tls.as_ref().map(Tls::connection).transpose().map_err(io::Error::other)?;
        let slot = self.free.pop().unwrap_or(self.connections.len());
        if slot == self.connections.len() {
            self.connections.push(None);
        }
        epoll::add(&self.epoll, &stream, EventData::new_u64(slot as u64), EventFlags::IN)
            .inspect_err(|_| self.free.push(slot))?;
        let server = &self.shared.server;
        server.stats.connections.fetch_add(1, Relaxed);
        let local = stream.local_addr().map_or_else(|_| String::new(), |local| local.to_string());
        let inbox = Arc::clone(&self.inbox);
        let now_ms = self.shared.now().as_millis() as u64;
        let client = server.clients.enter(peer.to_string(), local, now_ms, |id| {
            Box::new(move || inbox.send(Note::Look(id)))
        });
        self.slots.insert(client.id, slot);
        let session = Session::new(client, server);
        self.connections[slot] = Some(Connection::new(session, stream, tls, peer));
        Ok(())
    }

    pub(super) fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else {
            return;
        };
        connection.uncount(&self.shared);
        connection.session.close(&self.shared.server, &*self.shared.locks);
        self.slots.remove(&connection.session.client().id);
        self.closed.push(slot);
    }

    /// Counts what a connection keeps waiting; if all together keep more than clients may, the
    /// greediest of this worker's has to go.
    pub(super) fn count(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        let bytes_max = self.shared.server.parameters.clients_bytes_max();
        let bytes = connection.count(&self.shared);
        if bytes <= bytes_max {
            return;
        }
        let kept =
            |slot: &usize| self.connections[*slot].as_ref().map_or(0, Connection::kept_bytes);
        let Some(greediest) = (0..self.connections.len()).max_by_key(kept) else { return };
        if kept(&greediest) < OUTPUT_BYTES_MIN {
            // Others' clients keep it.
            return;
        }
        if let Some(connection) = &self.connections[greediest] {
            warn!(
                peer = %connection.peer(),
                "closing the client with the largest buffers: {} of {bytes} bytes of all clients, \
                 whose limit is {bytes_max} (maxmemory-clients)",
                connection.kept_bytes()
            );
        }
        self.close(greediest);
    }

    pub(super) fn close_all_where(&mut self, chosen: impl Fn(&Connection) -> bool) {
        for slot in 0..self.connections.len() {
            if self.connections[slot].as_ref().is_some_and(&chosen) {
                self.close(slot);
            }
        }
    }

    /// Closes clients that have said nothing for longer than they may.
    pub(super) fn close_idle(&mut self) {
        let timeout = self.shared.server.parameters.timeout_seconds.load(Relaxed);
        if timeout > 0 {
            let limit = self.shared.now().saturating_sub(Duration::from_secs(timeout));
            self.close_all_where(|connection| {
                connection.is_idle() && connection.session.client().active_at() < limit
            });
        }
    }
}
