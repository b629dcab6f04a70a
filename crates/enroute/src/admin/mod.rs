//! The admin endpoint: what the cache does, over HTTP, and the few things that can change while it
//! serves.
//!
//! It listens only where it was asked to. One thread with a runtime of its own serves it, so a slow
//! or hostile reader never takes time from a request; every request takes a connection of its own,
//! and connections, header bytes, body bytes and time all have a limit.
//!
//! **Read first:** [`Observed`], what a program shows and lets change; [`Statistics`], which is what the
//! cache says at `GET /stats` and `GET /metrics`; then `service.rs`, the paths.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    sync::{Semaphore, oneshot},
    task::LocalSet,
};
use tracing::{debug, warn};
use wire::detect::Protocol;

use crate::foreign::Foreigners;

mod metrics;
mod names;
mod observed;
mod service;
mod statistics;

pub use metrics::exposition;
pub use observed::{Observed, Room};
pub use statistics::Statistics;

pub(crate) use names::Names;

/// Connections served at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 32;
/// Longest request line and headers.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Longest time from accepting a connection to the end of its one answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// A serving endpoint, until it is dropped.
pub struct Admin {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Admin {
    /// Serves the admin endpoint of `shared` on `socket`. Accepted in the Host header: IP
    /// addresses, `localhost`, the machine's name and `names`.
    ///
    /// # Errors
    /// The socket cannot be used or the thread not started.
    pub fn start(
        socket: TcpListener,
        shared: Arc<impl Observed>,
        names: Vec<String>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        if !address.ip().is_loopback() {
            warn!(%address, "the admin endpoint has no authentication, and its address is not loopback: restrict access \
             by a firewall, or use a loopback address");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let names = Arc::new(Names::new(names));
        let thread = thread::Builder::new().name("admin".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    served = serve(socket, shared, names) => if let Err(error) = served {
                        tracing::error!("the admin endpoint stopped: {error}; restart the process \
                                         to get it back");
                    },
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { end: Some(end), thread: Some(thread), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.end.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a thread of the admin endpoint panicked; please report this as a bug");
        }
    }
}

async fn serve(
    socket: TcpListener,
    shared: Arc<impl Observed>,
    names: Arc<Names>,
) -> io::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let foreigners = Arc::new(Foreigners::default());
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
        let (mut stream, peer) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("the admin endpoint cannot accept a connection, retrying: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (shared, names) = (Arc::clone(&shared), Arc::clone(&names));
        let foreigners = Arc::clone(&foreigners);
        tokio::task::spawn_local(async move {
            let admitted = foreigners.admit(Protocol::Http, &mut stream);
            if tokio::time::timeout(CONNECTION_TIMEOUT, admitted).await != Ok(true) {
                return drop(permit);
            }
            let answer = service_fn(|request| service::answer(request, &*shared, &names));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(CONNECTION_TIMEOUT)
                .max_buf_size(HEADER_BYTES_MAX)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%peer, "admin connection failed: {error}"),
                Err(_) => {
                    debug!(%peer, "admin connection closed: not finished within {CONNECTION_TIMEOUT:?}");
                }
            }
            drop(permit);
        });
    }
}

/// Rest after a failed accept: out of descriptors, most likely, so others must close first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
