//! The origin of a site: a few kept connections over which it is asked.
//!
//! A connection may fail silently: the origin's host is off, the path is cut, or a firewall dropped
//! its state. The kernel detects missing acknowledgements of data and of keepalive probes
//! (`TCP_USER_TIMEOUT` of the connect timeout, which has no option of its own because both say how
//! long the network may take). A safe request without a body that was sent on a used connection is
//! then retried once, on a new connection, because other kept connections may have failed too
//! (RFC 9112 §9.3.1 allows the retry).
//!
//! Requests with a body use other connections without `TCP_USER_TIMEOUT`: the kernel cannot tell a
//! closed window from silence, and an origin may take its time before it reads an upload. They are
//! never retried. An upload on a failed connection therefore waits for the origin timeout, unless
//! keepalive finds it first.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use content::unusable_answer;
use endpoint::Told;
use http::{Extensions, StatusCode, Uri, uri::Authority};
use http_body_util::LengthLimitError;
use hyper::{
    Request, Response,
    body::{Body as _, Bytes, Incoming},
};
use hyper_util::{
    client::legacy::{
        Client, Error,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use platform::memory::transit::Room;
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Limits,
    body::{Body, FromOrigin, full},
    room::PASSING_BYTES,
};

/// Connections kept for the next request.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// Time for which they are kept; shorter than the idle timeout of most servers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the head of an answer, and of one read or write of a body.
const BUFFER_BYTES: usize = 32 << 10;
/// Number of unanswered keepalive probes after which a silent connection is closed.
const PROBES: u32 = 3;

/// One origin.
#[derive(Clone)]
pub struct Origin {
    base: Uri,
    authority: Authority,
    /// Client for requests that may be retried.
    asking: Client<Connector, Body>,
    /// Client for retries: never on an existing connection.
    anew: Client<Connector, Body>,
    /// Client for all others. A slow reader of a body fills the window, which the kernel cannot
    /// tell from silence.
    sending: Client<Connector, Body>,
    answer_timeout: Duration,
    turns_max: usize,
    turns: Arc<Semaphore>,
    /// Log state of its failures.
    pub(super) told: Arc<Told>,
}

/// Reasons why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the origin {0} cannot be reached; check that it runs, and `origin` of its site: {1}")]
    Unreachable(Uri, String),
    #[error("the origin {0} did not answer within {1:?}")]
    TimedOut(Uri, Duration),
    #[error("the origin {0} sent a response that cannot be forwarded: {1}")]
    Unusable(Uri, &'static str),
    #[error(
        "the origin {0} was not asked: {1} requests to it (origin_connections_max) have been in progress for \
         {2:?}"
    )]
    Busy(Uri, usize, Duration),
    #[error(
        "the origin {0} has answered, but no memory is available to forward the response; raise `memory` of \
         [edge.content]"
    )]
    NoRoom(Uri),
    #[error("the client's upload failed: {1}")]
    Upload(StatusCode, String),
}

impl Failure {
    /// The response to the client.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TimedOut(..) => StatusCode::GATEWAY_TIMEOUT,
            Self::Unreachable(..) | Self::Unusable(..) => StatusCode::BAD_GATEWAY,
            Self::Busy(..) | Self::NoRoom(..) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upload(status, _) => *status,
        }
    }
}

impl Origin {
    /// The origin at `base`, `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    /// It has no host.
    pub fn new(
        base: Uri,
        tls: Option<&edge_tls::Connector>,
        limits: &Limits,
    ) -> anyhow::Result<Self> {
        let turns_max = limits.origin_connections_max;
        let connect_timeout = limits.connect_timeout;
        let authority = base.authority().cloned();
        let authority =
            authority.ok_or_else(|| anyhow::anyhow!("{base}: expected a URL with a host"))?;
        let client = |kept: usize, carries_bodies: bool| {
            let connector = Connector { tls: tls.cloned(), connect_timeout, carries_bodies };
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .pool_max_idle_per_host(kept.min(turns_max))
                .http1_max_buf_size(BUFFER_BYTES)
                .build(connector)
        };
        Ok(Self {
            base,
            authority,
            asking: client(IDLE_CONNECTIONS_MAX, false),
            anew: client(0, false),
            sending: client(IDLE_CONNECTIONS_MAX, true),
            answer_timeout: limits.origin_timeout,
            turns_max,
            turns: Arc::new(Semaphore::new(turns_max)),
            told: Arc::default(),
        })
    }

    /// Base URI of the origin.
    pub(super) fn base(&self) -> Uri {
        self.base.clone()
    }

    /// Sends a request, whose target is only a path, when a permit is available. Waits for the
    /// headers of the answer, and for `room` to pass its body on.
    pub(super) async fn ask(
        &self,
        request: Request<Body>,
        room: &Arc<Room>,
    ) -> Result<Response<FromOrigin>, Failure> {
        let deadline = Instant::now() + self.answer_timeout;
        let turn = timeout_at(deadline, Arc::clone(&self.turns).acquire_owned()).await;
        // Never closed.
        let Ok(Ok(turn)) = turn else {
            return Err(Failure::Busy(self.base.clone(), self.turns_max, self.answer_timeout));
        };
        let (head, body) = self.answer(request, deadline).await?.into_parts();
        let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
        let passing = length.unwrap_or(PASSING_BYTES).min(PASSING_BYTES);
        let room = room.wait(passing).await.ok_or_else(|| Failure::NoRoom(self.base.clone()))?;
        Ok(Response::from_parts(head, FromOrigin { body, _turn: turn, _room: room }))
    }

    async fn answer(
        &self,
        mut request: Request<Body>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, Failure> {
        let mut target = http::uri::Parts::default();
        target.scheme = self.base.scheme().cloned();
        target.authority = Some(self.authority.clone());
        target.path_and_query = request.uri().path_and_query().cloned();
        let unreachable = |why: String| Failure::Unreachable(self.base.clone(), why);
        *request.uri_mut() =
            Uri::from_parts(target).map_err(|error| unreachable(error.to_string()))?;
        *request.version_mut() = http::Version::HTTP_11;
        match timeout_at(deadline, self.exchange(request)).await {
            Ok(Ok(response)) => match unusable_answer(response.status(), response.headers()) {
                None => Ok(response),
                Some(why) => Err(Failure::Unusable(self.base.clone(), why)),
            },
            Ok(Err(error)) => {
                Err(failed_upload(&error).unwrap_or_else(|| unreachable(causes(&error))))
            }
            Err(_) => Err(Failure::TimedOut(self.base.clone(), self.answer_timeout)),
        }
    }

    /// Sends a request; retries once if the connection was a kept one, which may have been closed,
    /// and the request is idempotent (RFC 9112 §9.3.1).
    async fn exchange(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        if !request.method().is_safe() || !request.body().is_end_stream() {
            return self.sending.request(request).await;
        }
        let (head, _) = request.into_parts();
        let same = || Request::from_parts(head.clone(), full(Bytes::new()));
        match self.asking.request(same()).await {
            Ok(response) => {
                if let Some(Answered(answered)) = response.extensions().get() {
                    answered.store(true, Relaxed);
                }
                Ok(response)
            }
            Err(error) if had_answered(&error) => self.anew.request(same()).await,
            Err(error) => Err(error),
        }
    }
}

/// Whether the connection that broke had brought an answer before.
fn had_answered(error: &Error) -> bool {
    let mut extras = Extensions::new();
    error.connect_info().into_iter().for_each(|connection| connection.get_extras(&mut extras));
    extras.get().is_some_and(|Answered(answered)| answered.load(Relaxed))
}

/// Whether a connection has brought an answer; attached to each of its answers and to its error.
#[derive(Clone, Default)]
struct Answered(Arc<AtomicBool>);

/// Why the body of a request could not be sent, if that is the reason: its client broke the rules,
/// ended early or sent too much. The origin has no part in it.
fn failed_upload(error: &Error) -> Option<Failure> {
    let own = |error: &&(dyn std::error::Error + 'static)| {
        error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user)
    };
    let why = chain(error).find(own)?.source()?;
    let is_too_long = chain(why).any(<dyn std::error::Error>::is::<LengthLimitError>);
    Some(match is_too_long {
        true => Failure::Upload(
            StatusCode::PAYLOAD_TOO_LARGE,
            "its body is longer than request_bytes_max".to_owned(),
        ),
        false => Failure::Upload(StatusCode::BAD_REQUEST, causes(why)),
    })
}

fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
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
    carries_bodies: bool,
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
        let connector = self.clone();
        Box::pin(async move {
            let late = |_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    "connecting took longer than connect_timeout",
                )
            };
            let connected = timeout(connector.connect_timeout, connector.connect(&target));
            connected.await.map_err(late)?.map(TokioIo::new)
        })
    }
}

impl Connector {
    async fn connect(&self, target: &Uri) -> io::Result<Stream> {
        let host = target.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = target.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        self.bound_silence(&stream)?;
        Ok(match &self.tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                Stream::Tls(Box::new(tls.connect(host, stream).await.map_err(io::Error::other)?))
            }
        })
    }

    /// Makes the kernel end a connection whose peer has acknowledged nothing for the connect
    /// timeout (`TCP_USER_TIMEOUT` and keepalive, tcp(7)).
    fn bound_silence(&self, stream: &TcpStream) -> io::Result<()> {
        let limit = self.connect_timeout;
        sockopt::set_tcp_keepidle(stream, limit / 2)?;
        sockopt::set_tcp_keepintvl(stream, limit / 2 / PROBES)?;
        sockopt::set_tcp_keepcnt(stream, PROBES)?;
        sockopt::set_socket_keepalive(stream, true)?;
        if !self.carries_bodies {
            let limit = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(stream, limit)?;
        }
        Ok(())
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<edge_tls::TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().extra(Answered::default())
    }
}

/// Calls the same method of either stream.
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
