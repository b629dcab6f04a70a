//! Upgrade: SIGUSR2 replaces the cache by a new process of the program file, on the same ports.
//!
//! While two processes serve the same origins, neither sees the writes through the other, so
//! neither stores anything. Each forwards, until the old one has ended.

use std::{
    net::TcpListener,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use platform::{
    signal::EndSignal,
    succession::{Predecessor, Successor},
};
use tracing::{error, info, warn};

use crate::runtime::{Runtime, Setup, Shared};

/// Pause between two looks at whether all clients have left.
const LOOK: Duration = Duration::from_millis(20);

/// The listening sockets of this process, for its successor.
pub(super) struct Sockets(Vec<TcpListener>);

impl Sockets {
    /// Those of the listeners, and of the admin endpoint if there is one.
    pub(super) fn of(setup: &Setup, admin: Option<TcpListener>) -> anyhow::Result<Self> {
        let listeners = setup.listeners.iter().map(|(socket, _)| socket.try_clone());
        let sockets = listeners.chain(admin.map(Ok)).collect::<Result<_, _>>();
        Ok(Self(sockets.context("cannot duplicate the listening sockets")?))
    }

    /// Starts the successor. On an error this process goes on.
    pub(super) fn hand_over(&self, shared: &Arc<Shared>) -> Option<Successor> {
        if shared.shards.is_closed() {
            // Of three processes, one would store while the first still writes.
            error!("SIGUSR2: no upgrade, the previous one has not ended; send SIGUSR2 again later");
            return None;
        }
        info!("SIGUSR2: starting the program again, on the same ports");
        let mut successor = Successor::start(&self.0)
            .inspect_err(|error| error!("SIGUSR2: no upgrade, nothing changed: {error:#}"))
            .ok()?;
        shared.shards.close();
        if let Err(error) = successor.take_over() {
            error!("SIGUSR2: no upgrade, this process goes on: {error:#}");
            // It may have forwarded writes.
            open_after_quarantine(Arc::clone(shared));
            return None;
        }
        Some(successor)
    }
}

/// Serves the clients that are connected until they leave, at most for `drain_timeout`.
pub(super) fn serve_out(runtime: &mut Runtime, successor: &Successor, end: &EndSignal) {
    let until = Instant::now() + runtime.shared().limits.drain_timeout;
    runtime.stop_accepting();
    eprintln!("upgrade: process {} accepts connections", successor.id());
    while runtime.shared().connections() > 0 && Instant::now() < until {
        if end.wait(Some(LOOK)) {
            return;
        }
    }
}

/// Serves after a predecessor: stores nothing until it has ended.
pub(super) fn succeed(mut predecessor: Predecessor, shared: &Arc<Shared>) {
    if predecessor.tell_serves().is_err() {
        warn!("the process that is replaced has ended before its time");
    }
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        if predecessor.await_end() {
            shared.shards.open();
            info!("the process that was replaced has ended; replies are stored");
        } else {
            info!("the process that was replaced has left writes without a reply");
            open_after_quarantine(shared);
        }
    });
}

/// A write that another process has sent may still be applied at its origin.
fn open_after_quarantine(shared: Arc<Shared>) {
    thread::spawn(move || {
        let quarantine = shared.shards.quarantine();
        info!("replies are stored again in {quarantine:?}");
        thread::sleep(quarantine);
        shared.shards.open();
    });
}
