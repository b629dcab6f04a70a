//! The admin endpoint: what the cache does, over HTTP, and the few things that can change while it
//! serves.
//!
//! **Read first:** [`Observed`], what a program shows and lets change; [`Statistics`], which is what the
//! cache says at `GET /stats` and `GET /metrics`; then `service.rs`, the paths. Connections and their limits:
//! [`Endpoint`].

use std::{io, net::TcpListener, sync::Arc};

use crate::endpoint::Endpoint;

mod exposition;
mod metrics;
mod observed;
mod service;
mod statistics;

pub(crate) use exposition::Exposition;
pub use metrics::exposition;
pub use observed::{Observed, Room};
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
