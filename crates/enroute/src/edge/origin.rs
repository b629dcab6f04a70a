//! The origin of a site: a few kept connections over which it is asked.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Uri, uri::Authority};
use hyper::{Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};

use super::body::Body;

/// Connections kept for the next request.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// For how long; below what servers commonly close after.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// One origin.
#[derive(Clone)]
pub struct Origin {
    base: Uri,
    authority: Authority,
    client: Client<Connector, Body>,
    answer_timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the origin {0} cannot be reached: {1}")]
    Unreachable(Uri, String),
    #[error("the origin {0} did not answer within {1:?}")]
    TimedOut(Uri, Duration),
}

impl Origin {
    /// The origin at `base`, `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    /// It has no host.
    pub fn new(
        base: Uri,
        tls: Option<edge_tls::Connector>,
        connect_timeout: Duration,
        answer_timeout: Duration,
    ) -> anyhow::Result<Self> {
        let authority = base.authority().cloned();
        let authority = authority.ok_or_else(|| anyhow::anyhow!("{base} names no host"))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(Connector { tls, connect_timeout });
        Ok(Self { base, authority, client, answer_timeout })
    }

    /// Sends a request whose target has only a path, and waits for the headers of the answer.
    pub(super) async fn ask(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut target = http::uri::Parts::default();
        target.scheme = self.base.scheme().cloned();
        target.authority = Some(self.authority.clone());
        target.path_and_query = request.uri().path_and_query().cloned();
        let unreachable = |why: String| Failure::Unreachable(self.base.clone(), why);
        *request.uri_mut() =
            Uri::from_parts(target).map_err(|error| unreachable(error.to_string()))?;
        *request.version_mut() = http::Version::HTTP_11;
        match timeout(self.answer_timeout, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(causes(&error))),
            Err(_) => Err(Failure::TimedOut(self.base.clone(), self.answer_timeout)),
        }
    }
}

/// An error and what led to it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[derive(Clone)]
struct Connector {
    tls: Option<edge_tls::Connector>,
    connect_timeout: Duration,
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Connecting {
        let Self { tls, connect_timeout } = self.clone();
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
            let connected = timeout(connect_timeout, connect(&target, tls.as_ref()));
            connected.await.map_err(late)?.map(TokioIo::new)
        })
    }
}

async fn connect(target: &Uri, tls: Option<&edge_tls::Connector>) -> io::Result<Stream> {
    let host = target.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = target.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(match tls {
        None => Stream::Plain(stream),
        Some(tls) => {
            Stream::Tls(Box::new(tls.connect(host, stream).await.map_err(io::Error::other)?))
        }
    })
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<edge_tls::TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Calls the same method of whichever stream it is.
macro_rules! either {
    ($stream:expr, $method:ident $(, $argument:expr)*) => {
        match $stream.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, poll_read, context, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown, context)
    }
}
