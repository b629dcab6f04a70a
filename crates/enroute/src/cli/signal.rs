//! Waiting for the user to end a command, by Ctrl-C or by the service manager's SIGTERM.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// From its creation on, the first SIGINT or SIGTERM is noted instead of killing the process. A
/// second one kills, so a command that hangs can still be ended.
pub(super) struct EndSignal {
    seen: Receiver<()>,
}

impl EndSignal {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
        let (tell, seen) = sync_channel(1);
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                let mut already = false;
                for signal in signals.forever() {
                    if already {
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    already = true;
                    let _ = tell.try_send(());
                }
            })
            .context("cannot start the signal thread")?;
        Ok(Self { seen })
    }

    /// Waits for the end signal; with a limit, at most that long. True once the user wants to end.
    pub(super) fn wait(&self, limit: Option<Duration>) -> bool {
        match limit {
            None => self.seen.recv().is_ok(),
            Some(limit) => self.seen.recv_timeout(limit) != Err(RecvTimeoutError::Timeout),
        }
    }
}
