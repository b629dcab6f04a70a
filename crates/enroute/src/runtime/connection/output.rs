//! Writes to both sides, and their errors at the client.

use std::io;

use cache::{Session, Side, filter::Filter, storage::Storage};
use reactor::Channel;
use tracing::debug;

use super::{ClientState, Connection, Worker};

impl<F: Filter> Connection<F> {
    /// Notes the latency of the hits that were just written: one reading of the clock for all that
    /// arrived together.
    pub(super) fn time_hits(&mut self, worker: &Worker) {
        if let Some((count, since)) = self.session.take_hits() {
            let latency = worker.now().saturating_sub(since);
            worker.storage.stats().hit_latency.record(latency, count);
        }
    }

    pub(super) fn write_client(&mut self) {
        if let Err(error) = write(&mut self.client, &mut self.session, Side::Client) {
            self.lose_client(&error);
        }
    }
    pub(super) fn lose_client(&mut self, error: &io::Error) {
        debug!(peer = %self.peer, %error, "client connection failed");
        self.client_state = ClientState::Lost;
    }
}

pub(super) fn write<F: Filter>(
    channel: &mut Channel,
    session: &mut Session<F>,
    side: Side,
) -> io::Result<()> {
    let output = session.output(side);
    while !output.is_empty() {
        match channel.write(output.bytes())? {
            0 => break,
            count => output.advance(count),
        }
    }
    channel.flush()
}
