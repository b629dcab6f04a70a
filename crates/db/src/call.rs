//! Context of a running command.

use std::time::Duration;

use crate::{
    connection::Connection, failure::Failure, keyspace::Keyspace, outcome::Outcome, reply::Reply,
    server::Server,
};

/// Context of one execution of a command.
pub(crate) struct Call<'c, 'k> {
    /// The arguments, the name first.
    pub(crate) args: &'c [&'c [u8]],
    /// The keys it may touch, all loaded.
    pub(crate) keys: &'c mut Keyspace<'k>,
    /// The connection it came from.
    pub(crate) connection: &'c mut Connection,
    /// State shared by all connections.
    pub(crate) server: &'c Server,
    /// Destination of the answer.
    pub(crate) reply: Reply<'c>,
}

impl Call<'_, '_> {
    /// Since the Unix epoch.
    pub(crate) fn now(&self) -> Duration {
        self.keys.now
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.keys.now_ms()
    }
}

/// Executes one command. On failure nothing was changed and the failure is the whole answer.
pub(crate) type Handler = fn(&mut Call<'_, '_>) -> Result<Outcome, Failure>;
