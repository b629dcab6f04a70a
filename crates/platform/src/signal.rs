//! Signals: SIGTERM and Ctrl-C end a command, SIGHUP reloads its files.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
    mpsc::{Receiver, RecvTimeoutError, sync_channel},
};
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::error;

/// From its creation on, the first SIGINT or SIGTERM is noted instead of killing the process. A
/// second one kills, so a command that hangs can still be ended.
pub struct EndSignal {
    seen: Receiver<()>,
}

impl EndSignal {
    /// Notes the signals from now on.
    ///
    /// # Errors
    /// The system lets no handler or thread be set up.
    pub fn listen() -> anyhow::Result<Self> {
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

    /// A flag that the end signal sets, for commands that poll it.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
        let end = Self::listen()?;
        let flag = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&flag);
        std::thread::spawn(move || {
            end.wait(None);
            told.store(true, Relaxed);
        });
        Ok(flag)
    }

    /// Waits for the end signal, at most for `limit` if set. True if the signal was received.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        match limit {
            None => self.seen.recv().is_ok(),
            Some(limit) => self.seen.recv_timeout(limit) != Err(RecvTimeoutError::Timeout),
        }
    }
}

/// Calls `read_again` on SIGHUP. It must apply all changes or none: on a mistake, the error is
/// logged and nothing changes.
///
/// # Errors
/// As [`EndSignal::listen`].
pub fn on_hangup(
    mut read_again: impl FnMut() -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGHUP]).context("cannot listen for SIGHUP")?;
    let body = move || {
        for _ in signals.forever() {
            if let Err(error) = read_again() {
                error!("SIGHUP: reload failed, nothing changed: {error:#}");
            }
        }
    };
    std::thread::Builder::new()
        .name("reload".into())
        .spawn(body)
        .context("cannot start the thread for SIGHUP")?;
    Ok(())
}
