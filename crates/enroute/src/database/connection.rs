//! One client connection: its channel, and the conversation over it.
//!
//! It reads into its worker's one buffer, and its [`Conversation`] executes commands straight from
//! there.

use std::{io, net::SocketAddr, sync::atomic::Ordering::Relaxed};

use db::conversation::{Conversation, Parked, Turn};
use reactor::Channel;
use tracing::debug;
use wire::detect::{self, Protocol};

use super::{Locks, Shared};

/// One client connection.
pub(super) struct Connection {
    pub(super) conversation: Conversation,
    pub(super) channel: Channel,
    peer: SocketAddr,
}

impl Connection {
    pub(super) fn new(conversation: Conversation, channel: Channel, peer: SocketAddr) -> Self {
        Self { conversation, channel, peer }
    }

    /// Address of its client.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads once and executes the requests received; false when the client has disconnected.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        shared: &Shared,
        turn: &mut Turn<'_, Locks>,
    ) -> bool {
        loop {
            let count = match self.channel.read(buffer) {
                Ok(Some(0)) => return false,
                Ok(Some(count)) => count,
                Ok(None) => return true,
                Err(error) => {
                    let first = self.channel.first().unwrap_or_default();
                    if let Err(foreign) = detect::expect(Protocol::Tls, first) {
                        // The error is sent unencrypted, because the client does not use TLS.
                        self.channel.give_up_tls();
                        self.conversation.refuse(&foreign);
                        self.tell(shared, &foreign);
                        return true;
                    }
                    debug!(peer = %self.peer, "client connection failed: {error}");
                    return false;
                }
            };
            if let Err(error) = self.conversation.receive(&buffer[..count], turn) {
                self.tell(shared, &error);
            }
            // Another TLS record may be buffered, for which epoll reports no event.
            if !self.channel.is_encrypted() || !self.conversation.may_execute() {
                return true;
            }
        }
    }

    /// Executes buffered requests.
    pub(super) fn proceed(&mut self, shared: &Shared, turn: &mut Turn<'_, Locks>) {
        if let Err(error) = self.conversation.proceed(turn) {
            self.tell(shared, &error);
        }
    }

    /// Logs why the connection is closed.
    fn tell(&self, shared: &Shared, error: &wire::Error) {
        if let Ok(listen) = self.channel.local_addr() {
            shared.told.tell(listen, self.peer, error);
        }
    }

    /// Whether it can read, and data may be available.
    pub(super) fn may_receive(&self) -> bool {
        self.channel.is_readable() && self.conversation.may_execute()
    }

    /// Whether output is waiting for the client.
    pub(super) fn has_output(&self) -> bool {
        self.conversation.has_output() || self.channel.has_unsent()
    }

    /// Writes as much as may leave and the client takes.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) fn send(&mut self, shared: &Shared) -> io::Result<()> {
        let durable = &shared.disk.durable;
        let (output, end) = self.conversation.release(|shard, position| {
            let is_durable = durable.is_durable(shard, position);
            if !is_durable && durable.has_failed(shard) {
                // It is unknown whether the write survives, so it is not acknowledged.
                return Err(io::Error::other("its writes did not reach the disk"));
            }
            Ok(is_durable)
        })?;
        self.channel.flush()?;
        loop {
            let bytes = output.next(end);
            if bytes.is_empty() {
                break;
            }
            match self.channel.write(bytes)? {
                0 => break,
                count => output.advance(count),
            }
        }
        if let Some(sent) = output.clear() {
            shared.server.stats.output_bytes.fetch_add(sent as u64, Relaxed);
        }
        Ok(())
    }

    /// Whether the connection has finished.
    pub(super) fn is_over(&self) -> bool {
        self.conversation.is_ending()
            && (!self.has_output() || self.conversation.session().client().is_killed())
    }

    /// Whether it is between two commands, without waiting output.
    pub(super) fn is_idle(&self) -> bool {
        self.conversation.parked() == Parked::No
            && !self.has_output()
            && !self.conversation.is_held()
    }
}
