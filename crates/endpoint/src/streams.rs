//! Clients of HTTP/2 in front of a service of HTTP/1.1: each request continues on a connection of
//! its own, which is used again for later ones.
//!
//! The service sees HTTP/1.1 alone, one request at a time on each connection, with the headers of
//! the client: `:authority` is `Host`, so that signatures of requests stay valid. No request is
//! sent twice: what goes wrong resets its stream.

use std::{
    cell::{Cell, RefCell},
    error, io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use h2::Reason;
use hyper::{
    Method, Request, Response, Uri, Version,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    client::conn::http1::{self, SendRequest},
    header::{HOST, HeaderValue, TE},
    rt::{Executor, Read, Write},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::UnixStream, task::spawn_local, time::sleep};

use crate::until;

/// Limits of one client.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests at once; further ones wait at the client. Default: 32.
    pub streams_max: u32,
    /// Largest list of headers of a request, as HTTP/2 counts them. Default: 16 KiB.
    pub header_bytes_max: u32,
    /// Bytes of bodies that the client may send before the service has read them: of one request.
    /// Default: 64 KiB.
    pub stream_window_bytes: u32,
    /// The same of all requests. Default: 256 KiB.
    pub window_bytes: u32,
    /// Bytes of each reply that wait for the client. Default: 16 KiB.
    pub sent_bytes_max: usize,
    /// Longest head of a reply of the service. Default: 16 KiB.
    pub reply_head_bytes_max: usize,
    /// Time for the first request. Default: 10 s.
    pub first_request: Duration,
    /// Time without another request after which the client is told to leave. Default: 5 min.
    pub idle: Duration,
    /// Interval of pings, and time for their answer: a client that reads nothing gives none.
    /// Default: 30 s.
    pub ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams_max: 32,
            header_bytes_max: 16 << 10,
            stream_window_bytes: 64 << 10,
            window_bytes: 256 << 10,
            sent_bytes_max: 16 << 10,
            reply_head_bytes_max: 16 << 10,
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            ping: Duration::from_secs(30),
        }
    }
}

/// Serves a client of HTTP/2 over `stream` until it leaves, is idle, or `end` comes; requests under
/// way are completed. `open` makes a connection to the service. Needs a `LocalSet`.
///
/// # Errors
/// The client has violated the protocol or a limit, or is gone.
pub async fn serve<S, O>(
    stream: S,
    limits: &Limits,
    open: O,
    end: impl Future<Output = ()>,
) -> hyper::Result<()>
where
    S: Read + Write + Unpin + 'static,
    O: Fn() -> io::Result<UnixStream> + 'static,
{
    let service = Rc::new(Service {
        open,
        reply_head_bytes_max: limits.reply_head_bytes_max,
        idle: RefCell::default(),
        begun: Cell::new(0),
    });
    let asked = Rc::clone(&service);
    let connection = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(limits.header_bytes_max)
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.window_bytes)
        .max_send_buf_size(limits.sent_bytes_max)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping)
        .serve_connection(stream, service_fn(move |request| answer(Rc::clone(&asked), request)));
    until(connection, async {
        let (mut end, mut idle) = (pin!(end), pin!(service.is_idle(limits)));
        tokio::select! {
            () = &mut end => {}
            () = &mut idle => {}
        }
    })
    .await
}

/// Runs tasks on the thread of the connection.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future<Output: 'static> + 'static> Executor<F> for Local {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

/// The service, as one client uses it.
struct Service<O> {
    open: O,
    reply_head_bytes_max: usize,
    /// Connections without a request; at most as many as there were requests at once.
    idle: RefCell<Vec<SendRequest<Incoming>>>,
    /// Number of requests so far.
    begun: Cell<u64>,
}

/// Why a stream is reset.
type Reset = Box<dyn error::Error + Send + Sync>;

fn reset(reason: Reason) -> Reset {
    h2::Error::from(reason).into()
}

async fn answer<O: Fn() -> io::Result<UnixStream> + 'static>(
    service: Rc<Service<O>>,
    mut request: Request<Incoming>,
) -> Result<Response<Reply<O>>, Reset> {
    service.begun.set(service.begun.get() + 1);
    to_http1(&mut request).map_err(reset)?;
    let mut connection = service.connection().await?;
    // hyper leaves out the headers that are about the connection.
    let reply = connection.send_request(request).await?;
    Ok(reply.map(|body| Reply { body, ended: false, connection: Some(connection), service }))
}

impl<O: Fn() -> io::Result<UnixStream>> Service<O> {
    /// A connection without a request.
    async fn connection(&self) -> Result<SendRequest<Incoming>, Reset> {
        loop {
            let Some(mut used) = self.idle.borrow_mut().pop() else { break };
            // The service may have ended it.
            if used.ready().await.is_ok() {
                return Ok(used);
            }
        }
        // Nothing of the request was sent: the client may try again.
        let refused = |_| reset(Reason::REFUSED_STREAM);
        let stream = TokioIo::new((self.open)().map_err(refused)?);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(self.reply_head_bytes_max);
        let (connection, driver) = builder.handshake(stream).await?;
        spawn_local(driver);
        Ok(connection)
    }
}

impl<O> Service<O> {
    /// Waits until no request has begun for the idle timeout.
    async fn is_idle(&self, limits: &Limits) {
        let (mut seen, mut limit) = (0, limits.first_request);
        loop {
            sleep(limit).await;
            if self.begun.get() == seen {
                return;
            }
            (seen, limit) = (self.begun.get(), limits.idle);
        }
    }
}

/// The body of a reply. Its connection is used again after its end; otherwise it is closed.
struct Reply<O> {
    body: Incoming,
    ended: bool,
    connection: Option<SendRequest<Incoming>>,
    service: Rc<Service<O>>,
}

impl<O> Body for Reply<O> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<O> Drop for Reply<O> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && (self.ended || self.body.is_end_stream())
        {
            self.service.idle.borrow_mut().push(connection);
        }
    }
}

/// Makes a request of HTTP/2 one of HTTP/1.1.
fn to_http1(request: &mut Request<Incoming>) -> Result<(), Reason> {
    if request.method() == Method::CONNECT {
        return Err(Reason::PROTOCOL_ERROR);
    }
    let uri = request.uri();
    let authority = uri.authority().map(ToString::to_string);
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let target: Uri = target.parse().map_err(|_| Reason::PROTOCOL_ERROR)?;
    let headers = request.headers_mut();
    let mut hosts = headers.get_all(HOST).iter();
    match (authority, hosts.next(), hosts.next()) {
        // A name of a user is none of HTTP (RFC 9113 §8.3.1).
        (Some(authority), None, _) if !authority.contains('@') => {
            let host = HeaderValue::try_from(authority).map_err(|_| Reason::PROTOCOL_ERROR)?;
            headers.insert(HOST, host);
        }
        (Some(authority), Some(host), None) if host == &authority => {}
        (None, Some(_), None) => {}
        // None, or two that differ.
        _ => return Err(Reason::PROTOCOL_ERROR),
    }
    headers.remove(TE);
    *request.uri_mut() = target;
    *request.version_mut() = Version::HTTP_11;
    Ok(())
}

#[cfg(test)]
mod tests;
