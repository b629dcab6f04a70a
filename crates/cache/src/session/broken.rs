//! A client that breaks its protocol: as at a server, earlier requests are answered, then the error
//! is sent, then the connection is closed.

use super::{Reading, Session};
use crate::{Error, filter::Filter};

impl<F: Filter> Session<F> {
    /// Whether the client has broken its protocol and has the replies to its earlier requests.
    pub(super) fn owes_refusal(&self) -> bool {
        // An incomplete request has no reply.
        let answered = self.expected.front().is_none_or(|expected| expected.partial);
        // In a stream it is unknown when all requests have been answered.
        let answered = (answered && self.reading == Reading::Boundary) || self.streams;
        self.broken.is_some() && answered
    }

    /// Sends the error that is owed.
    pub(super) fn end_broken(&mut self) -> Result<(), Error> {
        let owed = self.owes_refusal();
        let Some(error) = self.broken.take_if(|_| owed) else { return Ok(()) };
        if !self.streams {
            self.filter.refuse(&error, self.to_client.buffer());
        }
        Err(Error::Client(error))
    }
}
