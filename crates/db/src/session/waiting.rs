//! State of a command that waits for the disk, kept between its executions.

use store::elastic::Ticket;

use crate::{clients::Client, keyspace::Shards, server::Server};

/// State of a command that waits for the disk, kept until the command is executed again.
#[derive(Default)]
pub(super) struct Waiting {
    /// Tickets of the values that are being loaded or are loaded, with their shards.
    tickets: Vec<(usize, Ticket)>,
    /// Memory that these values use, in bytes.
    bytes: usize,
    /// The command is in the disk queue, or was notified that it may begin.
    is_queued: bool,
}

impl Waiting {
    /// Returns the shards whose disk is being read.
    pub(super) fn shards(&self) -> impl Iterator<Item = usize> {
        self.tickets.iter().map(|&(index, _)| index)
    }

    /// Whether the command may use the disk, because it has used it before or was notified.
    pub(super) fn has_begun(&self) -> bool {
        self.is_queued || !self.tickets.is_empty()
    }

    /// Notes that the command waits for these loads, whose values will occupy this number of bytes.
    pub(super) fn add(
        &mut self,
        missing: impl ExactSizeIterator<Item = (usize, Ticket)>,
        bytes: usize,
        client: &Client,
        server: &Server,
    ) {
        client.wait_for(missing.len());
        self.tickets.extend(missing);
        self.bytes += bytes;
        server.turns.keep(bytes, server.parameters.waiting_bytes_max());
    }

    /// Queues the command for its turn to read from the disk.
    pub(super) fn queue(&mut self, client: &std::sync::Arc<Client>, server: &Server) {
        self.is_queued = true;
        server.turns.join(client, server.parameters.waiting_bytes_max());
    }

    /// Adds the loads of `before`.
    pub(super) fn keep(&mut self, before: &mut Self) {
        self.tickets.append(&mut before.tickets);
        self.bytes += std::mem::take(&mut before.bytes);
    }

    /// Releases the loaded data and the turn.
    #[inline]
    pub(super) fn end<S: Shards>(self, client: &Client, server: &Server, shards: &S) {
        for (index, ticket) in self.tickets {
            shards.lock(index).release(ticket);
        }
        let bytes_max = server.parameters.waiting_bytes_max();
        server.turns.let_go(self.bytes, bytes_max);
        if self.is_queued {
            server.turns.leave(client, bytes_max);
        }
    }
}
