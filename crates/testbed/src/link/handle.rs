//! Handle of a running path.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    control::{Command, Control},
    stats::{LinkCounters, LinkStats},
};

/// A running path. Dropping it stops the path and removes its devices.
pub struct LinkHandle {
    pub(super) counters: Arc<LinkCounters>,
    pub(super) control: Control,
}

impl LinkHandle {
    /// Traffic so far; a tunnel counts packets only, not connections.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.counters.snapshot()
    }

    /// Cuts the path, until [`restore`](Self::restore). Once this returns nothing is delivered.
    pub fn cut(&self) {
        self.control.command(Command::Cut);
    }

    /// Ends a [`cut`](Self::cut); one of the configured schedule stays in force.
    pub fn restore(&self) {
        self.control.command(Command::Restore);
    }

    /// Changes the one-way delays of data that enters the path from now on.
    pub fn set_delay(&self, up: Duration, down: Duration) {
        self.control.command(Command::SetDelay { up, down });
    }

    /// Stops the path, removes its devices and returns its statistics.
    pub fn stop(mut self) -> LinkStats {
        self.control.stop();
        self.stats()
    }
}

impl fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkHandle").finish_non_exhaustive()
    }
}
