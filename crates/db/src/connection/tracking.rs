//! CLIENT TRACKING state of a connection.

use std::sync::atomic::Ordering::Relaxed;

use crate::clients::Client;

/// Reads of this client that are remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tracking {
    /// `None`: none.
    pub(crate) mode: Option<Mode>,
    /// The client's own changes are left out.
    pub(crate) no_loop: bool,
    pub(crate) prefixes: Vec<Box<[u8]>>,
    /// The choice of CLIENT CACHING for the next command.
    pub(crate) caching: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every read.
    All,
    /// Reads announced by CLIENT CACHING YES.
    OptIn,
    /// Reads not excluded by CLIENT CACHING NO.
    OptOut,
    /// No reads: the client is notified of every key with one of its prefixes.
    Broadcast,
}

impl Tracking {
    /// Returns `None` if the current reads are not remembered; otherwise whether the client's own
    /// changes are left out.
    #[inline]
    pub(crate) fn remembers(&self) -> Option<bool> {
        let remembers = match self.mode? {
            Mode::All => true,
            Mode::OptIn => self.caching == Some(true),
            Mode::OptOut => self.caching != Some(false),
            Mode::Broadcast => false,
        };
        remembers.then_some(self.no_loop)
    }

    pub(crate) fn broadcasts(&self) -> bool {
        self.mode == Some(Mode::Broadcast)
    }

    pub(crate) fn reset(&mut self, client: &Client) {
        *self = Self::default();
        client.tracking.store(false, Relaxed);
        client.redirect.store(0, Relaxed);
        client.redirect_broken.store(false, Relaxed);
        client.details.lock().broadcasts = false;
    }
}
