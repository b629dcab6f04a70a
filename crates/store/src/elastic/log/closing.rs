//! Closes the log: its last segment is sealed, and the manifest states that all are.

use super::Log;
use crate::elastic::Error;

impl Log {
    /// Stops accepting appends, and makes the appended records durable. After this only the
    /// commands of [`Log::poll`] need to be carried out.
    pub(in crate::elastic) fn close(&mut self) {
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        self.refusal.get_or_insert(Error::Closed);
        self.seal();
        self.want_durable();
    }

    pub(in crate::elastic) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Whether everything appended is on disk.
    pub(super) fn is_at_rest(&self) -> bool {
        self.open.is_none()
            && self.jobs.is_empty()
            && !self.writing
            && !self.syncing
            && self.sync_first.is_none()
    }
}
