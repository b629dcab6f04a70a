//! Signals: SIGTERM and Ctrl-C end a command, SIGHUP reloads its files, SIGUSR2 replaces it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
    mpsc::{Receiver, RecvTimeoutError, sync_channel},
};
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use tracing::error;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// SIGINT, SIGTERM: to end.
    End,
    /// SIGUSR2: to be replaced by a new process ([`crate::succession`]).
    Upgrade,
}

/// From its creation on, the first SIGINT or SIGTERM is noted instead of killing the process. A
/// second one kills, so a command that hangs can still be ended.
pub struct EndSignal {
    seen: Receiver<Asked>,
    /// An upgrade is in `seen`.
    upgrade: Arc<AtomicBool>,
}

impl EndSignal {
    /// Notes the signals from now on.
    ///
    /// # Errors
    /// The system lets no handler or thread be set up.
    pub fn listen() -> anyhow::Result<Self> {
        Self::listen_for(&[SIGINT, SIGTERM])
    }

    /// As [`Self::listen`], and notes SIGUSR2.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn with_upgrades() -> anyhow::Result<Self> {
        Self::listen_for(&[SIGINT, SIGTERM, SIGUSR2])
    }

    fn listen_for(signals: &[i32]) -> anyhow::Result<Self> {
        let mut signals = Signals::new(signals).context("cannot listen for signals")?;
        // Room for one of each, so that neither is lost behind others.
        let (tell, seen) = sync_channel(2);
        let upgrade = Arc::new(AtomicBool::new(false));
        let pending = Arc::clone(&upgrade);
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                let mut already = false;
                for signal in signals.forever() {
                    if signal == SIGUSR2 {
                        if !pending.swap(true, Relaxed) {
                            let _ = tell.try_send(Asked::Upgrade);
                        }
                        continue;
                    }
                    if already {
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    already = true;
                    let _ = tell.try_send(Asked::End);
                }
            })
            .context("cannot start the signal thread")?;
        Ok(Self { seen, upgrade })
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
        self.next(limit).is_some()
    }

    /// Waits for a signal, at most for `limit` if set.
    pub fn next(&self, limit: Option<Duration>) -> Option<Asked> {
        let asked = match limit {
            None => self.seen.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => self.seen.recv_timeout(limit),
        };
        match asked {
            Ok(asked) => {
                if asked == Asked::Upgrade {
                    self.upgrade.store(false, Relaxed);
                }
                Some(asked)
            }
            Err(RecvTimeoutError::Timeout) => None,
            // The thread has ended, and nothing is noted any more.
            Err(RecvTimeoutError::Disconnected) => Some(Asked::End),
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
