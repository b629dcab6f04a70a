//! Sockets, TLS and HTTP of the key server: one runtime for each core, connections dealt to them in
//! turn, and quick operations done where their connection is.

use std::{
    convert::Infallible,
    io,
    net::{self, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, anyhow};
use endpoint::{Told, seldom};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use platform::listening;
use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_rustls::server::TlsStream;
use tracing::{debug, error};
use wire::{detect::Protocol, ski};

use super::{
    audit::SYNC_EVERY,
    database::{Database, Place},
    service::{Service, Worker},
    tls::Tls,
};

/// Connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 4096;
/// Requests of one connection at once.
const STREAMS_MAX: u32 = 512;
/// Longest wait for a handshake, for a request's headers and for its body.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest headers in bytes.
const HEADERS_BYTES_MAX: u32 = 8 << 10;
/// Maximum time and bytes of reading from a rejected client.
const LINGER: Duration = Duration::from_secs(1);
const UNHEARD_BYTES_MAX: usize = 64 << 10;
/// Maximum time for sending outstanding answers at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// Address to listen on, and the certificates.
pub struct Configuration {
    /// Address where edges connect.
    pub listen: SocketAddr,
    /// TLS configuration of new handshakes.
    pub tls: Arc<Tls>,
    /// Database of the sealed keys.
    pub database: Place,
    /// Threads that serve connections.
    pub workers: usize,
}

/// A connection and its peer.
type Accepted = (net::TcpStream, SocketAddr);

/// A running key server.
pub struct Server {
    address: SocketAddr,
    end: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    service: Arc<Service>,
    tls: Arc<Tls>,
    connections: AtomicUsize,
    told: Told,
    end: watch::Receiver<bool>,
}

impl Server {
    /// Listens and serves.
    pub fn start(configuration: &Configuration, service: Arc<Service>) -> anyhow::Result<Self> {
        let tls = Arc::clone(&configuration.tls);
        let (end, ending) = watch::channel(false);
        let (connections, told) = (AtomicUsize::new(0), Told::default());
        let shared = Arc::new(Shared { service, tls, connections, told, end: ending });
        let socket = listening::bind(configuration.listen)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let mut threads = Vec::new();
        let mut workers = Vec::new();
        for number in 0..configuration.workers.max(1) {
            let (worker, accepted) = mpsc::channel(CONNECTIONS_MAX);
            workers.push(worker);
            let own = Arc::new(Worker::new(Database::new(configuration.database.clone())));
            let shared = Arc::clone(&shared);
            let body = async move || work(accepted, shared, own).await;
            threads.push(on_runtime(format!("serve-{number}"), body)?);
        }
        let accepting = Arc::clone(&shared);
        threads.push(on_runtime("accept".into(), async move || {
            accept(socket, workers, &accepting).await;
        })?);
        threads.push(on_runtime("audit-sync".into(), async move || sync_log(&shared).await)?);
        Ok(Self { address, end, threads })
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets outstanding answers go out and ends.
    pub fn stop(self) {
        self.end.send_replace(true);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

async fn sync_log(shared: &Shared) {
    let mut end = shared.end.clone();
    loop {
        let ended = timeout(SYNC_EVERY, end.wait_for(|ended| *ended)).await.is_ok();
        if let Err(error) = shared.service.log().sync() {
            error!("cannot sync the audit log to disk: {error}");
        }
        if ended {
            return;
        }
    }
}

/// Starts a thread with its own runtime.
fn on_runtime(
    name: String,
    body: impl AsyncFnOnce() + Send + 'static,
) -> anyhow::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(thread::Builder::new().name(name).spawn(move || runtime.block_on(body()))?)
}

/// Assigns connections to the workers in turn: an edge has few, and each worker should have some.
async fn accept(socket: TcpListener, workers: Vec<mpsc::Sender<Accepted>>, shared: &Shared) {
    let mut listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => endpoint::Listener::new(socket, "the key server"),
        Err(error) => return error!(%error, "cannot accept connections: the listener stopped"),
    };
    let mut end = shared.end.clone();
    let mut turn = 0;
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = end.wait_for(|ended| *ended) => return,
        };
        if shared.connections.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Relaxed);
            seldom!(shared.told, Full => warn, %from,
                "connection rejected: {CONNECTIONS_MAX} connections are open, the maximum");
            continue;
        }
        turn = (turn + 1) % workers.len();
        // To another runtime; its queue has room for the maximum number of connections.
        if stream.into_std().map(|stream| workers[turn].try_send((stream, from)).is_ok()).is_err() {
            shared.connections.fetch_sub(1, Relaxed);
        }
    }
}

/// Serves the connections dealt to this thread.
async fn work(mut accepted: mpsc::Receiver<Accepted>, shared: Arc<Shared>, worker: Arc<Worker>) {
    // The first use of entropy in a thread takes 25 ms, during which it would serve no connection.
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    if random.fill(&mut [0]).is_err() {
        error!("no entropy is available for the first signature of this thread");
    }
    let mut open = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            next = accepted.recv() => {
                // The acceptor has ended, so the server is shutting down.
                let Some((stream, from)) = next else { break };
                let (shared, worker) = (Arc::clone(&shared), Arc::clone(&worker));
                open.spawn(async move {
                    if let Err(error) = serve(stream, &shared, worker).await {
                        tell(&shared.told, from, &error);
                    }
                    shared.connections.fetch_sub(1, Relaxed);
                });
            }
            Some(_) = open.join_next() => {}
        }
    }
    let drained = async { while open.join_next().await.is_some() {} };
    let _ = timeout(DRAIN, drained).await;
}

/// Logs why the connection of an edge ended.
fn tell(told: &Told, from: SocketAddr, error: &anyhow::Error) {
    // The edge was accepted before: warn its operator.
    if is_of_time(error) {
        seldom!(told, Expired => warn, %from, "edge rejected: {error:#}");
    } else {
        seldom!(told, Handshake => info, %from, "connection closed: {error:#}");
    }
}

async fn serve(stream: net::TcpStream, shared: &Shared, worker: Arc<Worker>) -> anyhow::Result<()> {
    let mut stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let admitted = timeout(PATIENCE, shared.told.admit(Protocol::Tls, &mut stream)).await;
    if !admitted.context("the client sent nothing in time")? {
        return Ok(());
    }
    let handshake = timeout(PATIENCE, shared.tls.acceptor().accept(stream).into_fallible()).await;
    let stream = match handshake.context("the handshake was not finished in time")? {
        Ok(stream) => stream,
        Err((error, stream)) => {
            let _ = timeout(LINGER, hear_out(stream)).await;
            return Err(error).context("handshake");
        }
    };
    let edge: Arc<str> = edge_name(&stream)?.into();
    debug!(%edge, "connected");
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = Arc::clone(&shared.service);
    let answer = service_fn(move |request| {
        answer(request, Arc::clone(&service), Arc::clone(&edge), Arc::clone(&worker))
    });
    let mut end = shared.end.clone();
    let ending = async { _ = end.wait_for(|ended| *ended).await };
    if is_http2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADERS_BYTES_MAX)
            .keep_alive_interval(PATIENCE)
            .serve_connection(TokioIo::new(stream), answer);
        endpoint::until(connection, ending).await?;
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(HEADERS_BYTES_MAX as usize)
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), answer);
        endpoint::until(connection, ending).await?;
    }
    Ok(())
}

/// Reads remaining data of a client that was sent an error: unread bytes would turn the error into
/// a reset.
async fn hear_out(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut read = 0;
    while read < UNHEARD_BYTES_MAX {
        match stream.read(&mut [0; 1024]).await? {
            0 => break,
            count => read += count,
        }
    }
    Ok(())
}

/// Whether an edge's certificate is valid except for its validity period.
fn is_of_time(error: &anyhow::Error) -> bool {
    let of_tls = |cause: &'_ (dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>().cloned()
    };
    matches!(
        error.chain().find_map(of_tls),
        Some(rustls::Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
        ))
    )
}

/// The edge's name: the first DNS name in its certificate.
fn edge_name(stream: &TlsStream<TcpStream>) -> anyhow::Result<String> {
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate =
        certificates.first().context("expected a certificate of the edge, got none")?;
    let certificate = webpki::EndEntityCert::try_from(certificate)
        .map_err(|error| anyhow!("the edge's certificate: {error}"))?;
    let name = certificate.valid_dns_names().next();
    let name = name.context(
        "expected a DNS name (subjectAltName) in the certificate of the edge, found none",
    )?;
    Ok(name.to_ascii_lowercase())
}

async fn answer(
    mut request: Request<Incoming>,
    service: Arc<Service>,
    edge: Arc<str>,
    worker: Arc<Worker>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match read(&mut request).await {
        Ok(body) => body,
        Err(refusal) => {
            let _ = Box::pin(timeout(LINGER, discard(request.body_mut()))).await;
            return Ok(refusal);
        }
    };
    let mut answer = Response::new(service.answer(&edge, &body, &worker).await.into());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// Reads the body of a request to sign or decrypt; the error is the answer to any other request.
async fn read(request: &mut Request<Incoming>) -> Result<Bytes, Response<Full<Bytes>>> {
    if request.uri().path() != "/" {
        return Err(refuse(StatusCode::NOT_FOUND, "unknown path: expected POST /"));
    }
    if request.method() != Method::POST {
        let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, "expected method POST");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(answer);
    }
    let body = Limited::new(request.body_mut(), ski::REQUEST_BYTES_MAX).collect();
    let (status, text) = match timeout(PATIENCE, body).await {
        Ok(Ok(body)) => return Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            (StatusCode::PAYLOAD_TOO_LARGE, "expected a body of at most 2 KiB")
        }
        Ok(Err(_)) => (StatusCode::BAD_REQUEST, "the body ended early"),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the body was not received in time"),
    };
    Err(refuse(status, text))
}

/// Reads the rest of a body whose request is refused: unread bytes would turn the answer into a
/// reset.
async fn discard(body: &mut Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > UNHEARD_BYTES_MAX {
            return;
        }
    }
}

fn refuse(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    answer
}
