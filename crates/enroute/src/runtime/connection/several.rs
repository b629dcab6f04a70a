//! The connections of one session to the servers of an origin that is several.

use std::{io, sync::Arc};

use cache::{Output, fanout::Fanout, lease::Ticket};
use reactor::{Channel, Possible, Socket, Token};
use tracing::debug;

use crate::runtime::{
    Servers,
    connector::Wish,
    inbox::Wanted,
    reached::Parts,
    worker::{SERVER, Worker},
};

/// The connections to all servers. One is made when there is a request for its server.
pub(super) struct Several {
    fanout: Fanout,
    servers: Arc<Servers>,
    links: Vec<Link>,
}

/// The connection to one server.
#[derive(Default)]
struct Link {
    /// Its number among those that the session has asked for, if it has.
    number: Option<u32>,
    channel: Option<Channel>,
    /// The watch has confirmed the server; nothing is read before.
    confirmed: bool,
}

impl Several {
    /// No connection.
    pub(super) fn new(servers: &Arc<Servers>) -> Self {
        let (count, servers) = (servers.list.len(), Arc::clone(servers));
        let fanout = Fanout::new(Arc::clone(&servers.ring), count, servers.limits.clone());
        Self { fanout, servers, links: (0..count).map(|_| Link::default()).collect() }
    }

    /// The socket of a server is ready.
    pub(super) fn notice(&mut self, server: u16, possible: Possible) {
        let link = self.links.get_mut(usize::from(server));
        if let Some(channel) = link.and_then(|link| link.channel.as_mut()) {
            channel.notice(possible);
        }
    }

    /// The connections that are needed now.
    pub(super) fn wishes(&mut self, ticket: Ticket) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for (server, link) in self.links.iter_mut().enumerate() {
            if link.number.is_none() && self.fanout.has_output(server) {
                let number = self.servers.next_number();
                link.number = Some(number);
                let origin = Arc::clone(&self.servers.list[server]);
                wishes.push(Wish { wanted: Wanted { ticket, number }, origin });
            }
        }
        wishes
    }

    /// A requested connection, or why there is none.
    pub(super) fn connected(
        &mut self,
        worker: &Worker,
        wanted: Wanted,
        connected: io::Result<Parts>,
        token: Token,
    ) {
        // One that was asked for before the origin was lost is closed.
        let Some(server) = self.server_of(wanted) else { return };
        let channel = connected.and_then(|Parts { socket, tls, .. }| {
            let token = token.tagged(SERVER + server as u16);
            Ok(Channel::new(Socket::new(socket, &worker.reactor, token)?, tls.map(|tls| *tls)))
        });
        match channel {
            Ok(channel) => {
                self.fanout.connected(server);
                let confirmed = !self.servers.list[server].confirm(wanted);
                let (number, channel) = (Some(wanted.number), Some(channel));
                self.links[server] = Link { number, channel, confirmed };
                debug!(connection = wanted.ticket.0, origin = %self.servers.list[server], "origin connected");
            }
            Err(error) => self.refused(wanted, &error),
        }
    }

    /// A server cannot be reached, or cannot be used.
    pub(super) fn refused(&mut self, wanted: Wanted, error: &io::Error) {
        let Some(server) = self.server_of(wanted) else { return };
        let origin = &self.servers.list[server];
        origin.report(error);
        let why = match origin.fault() {
            Some(_) => error.to_string(),
            None => format!("the server {origin} cannot be reached"),
        };
        self.lose(server, &why);
    }

    /// The watch has confirmed a server.
    pub(super) fn confirmed(&mut self, wanted: Wanted) {
        if let Some(server) = self.server_of(wanted) {
            self.links[server].confirmed = true;
        }
    }

    fn server_of(&self, wanted: Wanted) -> Option<usize> {
        self.links.iter().position(|link| link.number == Some(wanted.number))
    }

    fn lose(&mut self, server: usize, why: &str) {
        self.links[server] = Link::default();
        self.fanout.lost(server, why);
    }

    /// Whether [`Self::read`] may bring something.
    pub(super) fn is_readable(&self) -> bool {
        self.fanout.has_replies() || (0..self.links.len()).any(|server| self.can_read(server))
    }

    fn can_read(&self, server: usize) -> bool {
        let Link { channel, confirmed, .. } = &self.links[server];
        let readable = channel.as_ref().is_some_and(Channel::is_readable);
        *confirmed && readable && self.fanout.wants(server)
    }

    /// Whether [`Self::write`] takes requests.
    pub(super) fn is_writable(&self) -> bool {
        self.fanout.has_room()
    }

    /// Whether a server accepts some of the requests that wait for it.
    pub(super) fn can_flush(&self) -> bool {
        let mut links = self.links.iter().enumerate();
        links.any(|(server, link)| {
            let writable = link.channel.as_ref().is_some_and(Channel::is_writable);
            writable && self.fanout.has_output(server)
        })
    }

    /// Bytes that it keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.fanout.held_bytes()
    }

    /// Reads what the servers have sent, and returns as much of the joined replies as `buffer` has
    /// room for; 0 bytes are the end, `None` is nothing yet.
    ///
    /// # Errors
    /// The reply to a write is lost, or a server broke its protocol.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for server in 0..self.links.len() {
            if !self.can_read(server) {
                continue;
            }
            let Some(channel) = &mut self.links[server].channel else { continue };
            let why = match channel.read(buffer) {
                Ok(None) => continue,
                Ok(Some(0)) => "it closed the connection".to_owned(),
                Ok(Some(count)) => match self.fanout.receive(server, &buffer[..count]) {
                    Ok(()) => continue,
                    Err(why) => why,
                },
                Err(error) => error.to_string(),
            };
            self.lose_by(server, &why);
        }
        let replies = self.fanout.replies().map_err(io::Error::other)?;
        let count = replies.len().min(buffer.len());
        buffer[..count].copy_from_slice(&replies.bytes()[..count]);
        replies.advance(count);
        // Those that had no room.
        self.fanout.replies().map_err(io::Error::other)?;
        // A server may have told what the next requests wait for.
        self.flush();
        Ok((count > 0 || self.fanout.has_ended()).then_some(count))
    }

    /// Takes the requests of the session, and sends what the servers accept.
    ///
    /// # Errors
    /// They are no requests, or a reply cannot be joined.
    pub(super) fn write(&mut self, requests: &mut Output) -> io::Result<()> {
        if !requests.is_empty() && self.fanout.has_room() {
            self.fanout.send(requests.bytes()).map_err(io::Error::other)?;
            requests.advance(requests.len());
        }
        self.flush();
        self.fanout.replies().map_err(io::Error::other)?;
        Ok(())
    }

    fn flush(&mut self) {
        for server in 0..self.links.len() {
            let Some(channel) = &mut self.links[server].channel else { continue };
            while let Some(output) = self.fanout.output(server).filter(|output| !output.is_empty())
            {
                match channel.write(output.bytes()) {
                    Ok(0) => break,
                    Ok(count) => output.advance(count),
                    Err(error) => {
                        self.lose_by(server, &error.to_string());
                        break;
                    }
                }
            }
        }
    }

    fn lose_by(&mut self, server: usize, why: &str) {
        let why = format!("the server {}: {why}", self.servers.list[server]);
        self.lose(server, &why);
    }
}
