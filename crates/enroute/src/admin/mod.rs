//! The admin endpoint: statistics of the cache over HTTP, and the few settings that can change
//! while it serves.
//!
//! **Read first:** [`Observed`], what a program exposes; [`Statistics`], the content of `GET
//! /stats` and `GET /metrics` of the cache; then `service.rs`, the paths. Connections and their
//! limits: [`Endpoint`].

use std::{io, net::TcpListener, sync::Arc};

use endpoint::Endpoint;

mod metrics;
mod observed;
mod service;
mod statistics;

pub use metrics::exposition;
pub use observed::{Backup, BackupWanted, Cache, Counted, Observed, Read, Reloaded, Room};
pub use statistics::Statistics;

/// Connections served at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 32;

/// Serves the admin endpoint of `shared` on `socket`. Accepted in the Host header: IP addresses,
/// `localhost`, the machine's name and `names`.
///
/// # Errors
/// The socket cannot be used or the thread not started.
pub fn start(
    socket: TcpListener,
    shared: Arc<impl Observed>,
    names: Vec<String>,
) -> io::Result<Endpoint> {
    Endpoint::start("admin", CONNECTIONS_MAX, socket, names, async move |request| {
        service::answer(request, &*shared).await
    })
}
