//! The clients of an agent: accepting, reading, writing, limits, closing.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use endpoint::seldom;
use platform::{memory::COUNTED_BYTES, tls};
use reactor::Socket;
use wire::resp::response;

use super::Service;
use crate::state::seat::{Refusal, Seat, Shaking};

impl Service {
    pub(super) fn accept(&mut self) {
        while self.shaking < tls::HANDSHAKES_MAX
            && let Some((stream, peer)) = self.acceptor.accept()
        {
            if self.clients >= self.setup.clients_max {
                seldom!(self.told, Full => warn, %peer, limit = self.setup.clients_max,
                    "connection rejected: --clients-max is reached");
                let _ = io::Write::write(&mut &stream, response::CLIENTS_MAX_REACHED);
            } else if let Err(error) = self.seat(stream, peer) {
                seldom!(self.told, Socket => warn, %peer,
                    "connection closed: cannot set up its socket: {error}");
            }
        }
    }

    fn seat(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let address = stream.local_addr()?;
        let client = self.agent.open(address);
        let (tls, now) = (self.setup.tls.as_deref(), self.now());
        let seat = Socket::new(stream, &self.reactor, client as u64 * 2)
            .and_then(|socket| Seat::new(socket, tls, peer, now))
            .inspect_err(|_| self.agent.close(client))?;
        self.shaking += usize::from(seat.shakes_until.is_some());
        if self.seats.len() <= client {
            self.seats.resize_with(client + 1, || None);
        }
        self.seats[client] = Some(seat);
        self.clients += 1;
        Ok(())
    }

    pub(super) fn read_client(&mut self, client: usize, shaking: &mut Shaking) {
        let Some(Some(seat)) = self.seats.get_mut(client) else { return };
        seat.begin_turn();
        // Always passed on, so that every writable client is written to.
        self.spoken.push(client);
        if !self.agent.listens_to(client) {
            return;
        }
        let shakes = seat.shakes_until.is_some();
        if shakes && shaking.is_over() {
            return seat.call(client, &mut self.called);
        }
        let (before, tls) = (seat.tls_bytes, self.setup.tls.as_deref());
        let mut read = || seat.read(&mut self.buffer, tls, &self.told);
        let read = if shakes { shaking.spend(read) } else { read() };
        self.tls_bytes = self.tls_bytes + seat.tls_bytes - before;
        self.shaking -= usize::from(shakes && seat.shakes_until.is_none());
        match read {
            Ok(None) => {}
            Ok(Some(0)) | Err(Refusal::Lost) => self.close(client),
            Ok(Some(count)) => {
                let peer = seat.peer;
                if seat.is_readable() {
                    seat.call(client, &mut self.called);
                }
                let bytes = self.buffer.get(..count).unwrap_or_default();
                if let Err(error) = self.agent.receive(client, bytes, self.start.elapsed()) {
                    self.told.tell(self.address, peer, &error);
                }
                self.make_room();
            }
            Err(Refusal::Foreign(error)) => {
                self.told.tell(self.address, seat.peer, &error);
                self.agent.reject(client, &error);
            }
        }
    }

    /// Closes clients that do not complete their handshakes.
    pub(super) fn end_late_handshakes(&mut self, now: Duration) {
        for client in 0..self.seats.len() {
            if self.shaking == 0 {
                return;
            }
            let Some(Some(seat)) = self.seats.get_mut(client) else { continue };
            if seat.shakes_until.is_some_and(|until| until <= now) {
                let found = format!("no complete handshake within {:?}", tls::HANDSHAKE_MAX);
                seat.refuse_handshake(&found, self.setup.tls.as_deref(), &self.told);
                self.close(client);
            }
        }
    }

    pub(super) fn write_client(&mut self, client: usize) {
        let Some(Some(seat)) = self.seats.get_mut(client) else { return };
        let Some(output) = self.agent.output(client) else { return };
        if !output.is_empty() || seat.has_unsent() {
            let before = seat.tls_bytes;
            let written = seat.write(output);
            self.tls_bytes = self.tls_bytes + seat.tls_bytes - before;
            match written {
                Ok(()) => {
                    if let Err(error) = self.agent.heard(client, self.start.elapsed()) {
                        self.told.tell(self.address, seat.peer, &error);
                    }
                }
                Err(error) => {
                    tracing::debug!(peer = %seat.peer, "client connection failed: {error}");
                    return self.close(client);
                }
            }
        }
        if self.agent.is_over(client) && !seat.has_unsent() {
            seat.finish();
            self.close(client);
        } else if seat.is_readable() && self.agent.listens_to(client) {
            seat.call(client, &mut self.called);
        }
    }

    /// Sets the buffer limit of clients, and closes those that use the most while it is zero.
    pub(super) fn make_room(&mut self) {
        loop {
            self.kept.count(self.kept.bytes(), self.agent.held_bytes() + self.tls_bytes);
            self.agent.set_room(self.kept.room());
            if self.kept.room() > 0 {
                break;
            }
            self.held_back = true;
            let held = |(client, seat): (usize, &Option<Seat>)| {
                let seat = seat.as_ref()?;
                Some((self.agent.held_by(client) + seat.tls_bytes, client, seat.peer))
            };
            let most = self.seats.iter().enumerate().filter_map(held).max();
            let greedy = most.filter(|(bytes, ..)| *bytes >= COUNTED_BYTES);
            // Waits for requests on their way to nodes, and for their answers.
            let Some((bytes, client, peer)) = greedy else { return };
            self.kept.tell(peer, bytes);
            self.close(client);
        }
        if std::mem::take(&mut self.held_back) {
            self.read_again();
        }
    }

    /// Resumes clients whose requests were not read or executed.
    fn read_again(&mut self) {
        let now = self.now();
        for client in 0..self.seats.len() {
            let Some(Some(seat)) = self.seats.get_mut(client) else { continue };
            if let Err(error) = self.agent.heard(client, now) {
                self.told.tell(self.address, seat.peer, &error);
            }
            seat.call(client, &mut self.called);
        }
    }

    pub(super) fn close_idle(&mut self) {
        for client in 0..self.seats.len() {
            if self.agent.is_idle(client) {
                self.close(client);
            }
        }
    }

    pub(super) fn close(&mut self, client: usize) {
        if let Some(seat) = self.seats.get_mut(client).and_then(Option::take) {
            self.shaking -= usize::from(seat.shakes_until.is_some());
            self.tls_bytes -= seat.tls_bytes;
            self.agent.close(client);
            self.clients -= 1;
        }
    }
}
