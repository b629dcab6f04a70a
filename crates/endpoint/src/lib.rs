//! HTTP endpoints: how connections are accepted, limited and ended.
//!
//! **What it is.** [`Endpoint`] serves one without a login: statistics for people, grants of memory
//! for databases. It listens only where it was asked to. One thread with a runtime of its own
//! serves it, so a slow or hostile reader never delays other work. Every request uses a new
//! connection; connections, header bytes and time are limited before the client is identified, and
//! a cross-origin request of a browser is rejected. [`Exposition`] writes metrics. Services with
//! TLS and limits of their own share [`Listener`] and [`until`], and any port [`Told`], the log
//! lines that clients can cause. [`losses`] are those about lost replies to writes. [`streams`]
//! serves clients of HTTP/2 by a service of HTTP/1.1.
//!
//! **What it is not.** No paths and no statistics: a service answers each request.
//!
//! **Read first:** [`Endpoint::start`].
#![forbid(unsafe_code)]

use std::{
    convert::Infallible,
    io,
    net::{self, SocketAddr},
    rc::Rc,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use reactor::Failures;
use serde::Serialize;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
    task::LocalSet,
    time::{sleep, timeout},
};
use tracing::{debug, error, warn};
use wire::detect::Protocol;

mod client;
mod exposition;
pub mod losses;
mod names;
pub mod streams;
mod told;

pub use client::{get, post};
pub use exposition::{Exposition, Latency, Report, Samples, Value};
pub use told::{Cause, Told};

use names::Names;

/// Longest request line and headers.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Longest time from accepting a connection to the end of its one answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// A response of an endpoint.
pub type Answer = Response<Full<Bytes>>;

/// A listening socket of a task; [`reactor::Acceptor`] is that of an event loop. Both rest and log
/// by [`Failures`].
pub struct Listener {
    socket: TcpListener,
    /// Whose it is, for the log.
    what: String,
    failures: Failures,
}

impl Listener {
    /// The listener of `what`, for the log.
    pub fn new(socket: TcpListener, what: impl Into<String>) -> Self {
        Self { socket, what: what.into(), failures: Failures::default() }
    }

    /// Accepts one connection. Failures are logged and retried.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => sleep(self.failures.rest_after(&self.what, &error)).await,
            }
        }
    }
}

/// Serves `connection` until it ends. After `end` it accepts no more requests and completes the
/// responses in progress.
pub async fn until<C: GracefulConnection>(
    connection: C,
    end: impl Future<Output = ()>,
) -> Result<(), C::Error> {
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = end => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// A serving endpoint without a login, until it is dropped.
pub struct Endpoint {
    what: &'static str,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Endpoint {
    /// Serves the endpoint `what` on `socket`: `answer` is asked by `connections_max` connections
    /// at once; further ones wait to be accepted. Accepted in the Host header: IP addresses,
    /// `localhost`, the machine's name and `names`.
    ///
    /// # Errors
    /// The socket cannot be used or the thread not started.
    pub fn start<A>(
        what: &'static str,
        connections_max: usize,
        socket: net::TcpListener,
        names: Vec<String>,
        answer: A,
    ) -> io::Result<Self>
    where
        A: AsyncFn(Request<Incoming>) -> Answer + Send + 'static,
    {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        if !address.ip().is_loopback() {
            warn!(%address, "the {what} endpoint has no authentication, and its address is not loopback: \
             restrict access by a firewall, or use a loopback address");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let served = Served { what, names: Names::new(names), told: Told::default(), answer };
        let thread = thread::Builder::new().name(what.into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    served = serve(socket, connections_max, served) => if let Err(error) = served {
                        error!("the {what} endpoint stopped: {error}; restart the process to get it back");
                    },
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { what, end: Some(end), thread: Some(thread), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.end.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            let what = self.what;
            error!("a thread of the {what} endpoint panicked; please report this as a bug");
        }
    }
}

async fn serve<A>(
    socket: net::TcpListener,
    connections_max: usize,
    served: Served<A>,
) -> io::Result<()>
where
    A: AsyncFn(Request<Incoming>) -> Answer + 'static,
{
    let socket = TcpListener::from_std(socket)?;
    let room = Arc::new(Semaphore::new(connections_max));
    let served = Rc::new(served);
    let mut listener = Listener::new(socket, format!("the {} endpoint", served.what));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, peer) = listener.accept().await;
        let served = Rc::clone(&served);
        tokio::task::spawn_local(async move {
            served.converse(stream, peer).await;
            drop(permit);
        });
    }
}

/// State shared by the connections of an endpoint.
struct Served<A> {
    what: &'static str,
    names: Names,
    told: Told,
    answer: A,
}

impl<A: AsyncFn(Request<Incoming>) -> Answer> Served<A> {
    async fn converse(&self, mut stream: TcpStream, peer: SocketAddr) {
        let what = self.what;
        let admitted = self.told.admit(Protocol::Http, &mut stream);
        if timeout(CONNECTION_TIMEOUT, admitted).await != Ok(true) {
            return;
        }
        let answer =
            service_fn(
                move |request| async move { Ok::<_, Infallible>(self.answer_to(request).await) },
            );
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(CONNECTION_TIMEOUT)
            .max_buf_size(HEADER_BYTES_MAX)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), answer);
        match timeout(CONNECTION_TIMEOUT, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%peer, "{what} connection failed: {error}"),
            Err(_) => {
                debug!(%peer, "{what} connection closed: not finished within {CONNECTION_TIMEOUT:?}");
            }
        }
    }

    async fn answer_to(&self, request: Request<Incoming>) -> Answer {
        match self.names.refusal(&request) {
            Some((status, why)) => refuse(status, why.to_owned()),
            None => (self.answer)(request).await,
        }
    }
}

/// An error response, as JSON.
pub fn refuse(status: StatusCode, error: String) -> Answer {
    #[derive(Serialize)]
    struct Refused {
        error: String,
    }
    let mut answer = json(&Refused { error });
    *answer.status_mut() = status;
    answer
}

/// A value as JSON.
pub fn json(value: &impl Serialize) -> Answer {
    let mut body = serde_json::to_string_pretty(value).expect("plain values become JSON");
    body.push('\n');
    text("application/json", body)
}

/// A response of this content type.
pub fn text(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
