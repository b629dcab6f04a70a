//! Client of a key server: signatures and premaster secrets over a few HTTP/2 connections, each
//! authenticated by both ends.
//!
//! An edge keeps one [`Client`] per runtime; connections run on the runtime of the first caller.
//!
//! A key server may become unreachable silently: its host is off, or the path is cut. A request
//! that waits for long sends a PING (RFC 9113 §6.7) on its connection; a connection without a reply
//! is closed. While the key server is unreachable, one request at a time tries to connect and the
//! others fail at once.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use hyper::{
    Method, Request, StatusCode, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use platform::tls;
use rustls::pki_types::ServerName;
use tokio::{
    net::TcpStream,
    sync::{Mutex, Notify},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wire::ski;

/// Address of the key server, and the certificates of both ends.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Host and port, for example `keys.example:7443`.
    pub address: String,
    /// The name in the key server's certificate, if it is not `address`'s host.
    pub server_name: Option<String>,
    /// Certificates of the authorities that may have signed the key server's, PEM.
    pub authorities: PathBuf,
    /// The edge's own certificate, PEM; the key server's policy refers to its name.
    pub certificate: PathBuf,
    /// The key of `certificate`, PEM.
    pub key: PathBuf,
    /// Connections kept open.
    pub connections: usize,
    /// Longest wait for an answer, connecting included.
    pub patience: Duration,
}

/// Errors of an operation.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key server refused.
    #[error("the key server answered: {0}")]
    Refused(#[from] ski::Refusal),
    /// No connection, or it broke, twice.
    #[error("the key server at {address} cannot be reached: {reason}")]
    Unreachable {
        /// Address of the key server.
        address: String,
        /// Reason of the failure.
        reason: String,
    },
    /// No answer in time.
    #[error("the key server did not answer within {0:?}")]
    TimedOut(Duration),
    /// An answer outside the protocol.
    #[error("expected an SKI response from the key server, got another: {0}")]
    Malformed(String),
}

/// Parts of the timeout of a request: until a PING is sent, and from then on until the connection
/// is closed. Half of the timeout is left for another connection.
const DOUBT: u32 = 4;

/// A connection to a key server.
#[derive(Clone)]
struct Connection {
    /// The key server sets the maximum number of outstanding requests; further ones wait.
    sender: h2::client::SendRequest<Bytes>,
    /// Signals that a request has waited for long, so that a PING is sent.
    doubt: Arc<Notify>,
}

/// A pool of connections to one key server. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    configuration: Configuration,
    connector: TlsConnector,
    server_name: ServerName<'static>,
    target: Uri,
    connections: Vec<Mutex<Option<Connection>>>,
    next: AtomicUsize,
    /// The last attempt to connect failed.
    silent: AtomicBool,
}

impl Client {
    /// Reads the certificates. Connects when first asked.
    pub fn new(configuration: Configuration) -> anyhow::Result<Self> {
        let Configuration { authorities, certificate, key, .. } = &configuration;
        let mut tls = tls::client(authorities, Some((certificate, key)))?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let (host, _) = configuration
            .address
            .rsplit_once(':')
            .with_context(|| format!("{}: expected HOST:PORT", configuration.address))?;
        let name = configuration.server_name.as_deref().unwrap_or(host);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server_name = ServerName::try_from(name.clone())
            .with_context(|| format!("{name}: expected a DNS name or an IP address"))?;
        let target = format!("https://{}/", configuration.address).parse()?;
        let connections = (0..configuration.connections.max(1)).map(|_| Mutex::new(None)).collect();
        let shared = Shared {
            connector: TlsConnector::from(Arc::new(tls)),
            server_name,
            target,
            connections,
            next: AtomicUsize::new(0),
            silent: AtomicBool::new(false),
            configuration,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Signs a TLS 1.2 ServerKeyExchange or a TLS 1.3 CertificateVerify: gives the signature as TLS
    /// carries it. Decrypts a premaster secret: gives its 48 bytes.
    pub async fn ask(&self, request: &ski::Request) -> Result<Vec<u8>, Error> {
        let body = Bytes::from(ski::request::encode(request));
        let patience = self.shared.configuration.patience;
        timeout(patience, self.shared.exchange(body))
            .await
            .map_err(|_| Error::TimedOut(patience))?
    }
}

impl Shared {
    /// Sends on one of the connections; if that breaks, once more on a new one. Signing twice is
    /// harmless.
    async fn exchange(&self, body: Bytes) -> Result<Vec<u8>, Error> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let answer = match self.try_once(slot, body.clone()).await {
            Err(Error::Unreachable { .. }) => self.try_once(slot, body).await?,
            other => other?,
        };
        let response = ski::response::decode(&answer);
        Ok(response.map_err(|error| Error::Malformed(error.to_string()))??)
    }

    async fn try_once(&self, slot: usize, body: Bytes) -> Result<Vec<u8>, Error> {
        let unreachable = |reason: &dyn std::fmt::Display| Error::Unreachable {
            address: self.configuration.address.clone(),
            reason: reason.to_string(),
        };
        let broken = |error: h2::Error| unreachable(&error);
        let Connection { mut sender, doubt } =
            self.connection(slot).await.map_err(|error| unreachable(&format!("{error:#}")))?;
        let mut request = Request::new(());
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, self.target.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (answer, mut rest) = sender.send_request(request, false).map_err(broken)?;
        // Before the connection's task runs, so that headers and body leave in one record.
        rest.send_data(body, true).map_err(broken)?;
        let mut answer = std::pin::pin!(answer);
        let answer = match timeout(self.configuration.patience / DOUBT, answer.as_mut()).await {
            Ok(answer) => answer,
            Err(_) => {
                doubt.notify_one();
                answer.await
            }
        };
        let answer = answer.map_err(broken)?;
        let status = answer.status();
        if status != StatusCode::OK {
            return Err(Error::Malformed(format!("status {status}")));
        }
        let (mut parts, mut body) = (answer.into_body(), Vec::new());
        while let Some(part) = parts.data().await {
            let part = part.map_err(broken)?;
            if body.len() + part.len() > ski::RESPONSE_BYTES_MAX {
                let most = ski::RESPONSE_BYTES_MAX;
                return Err(Error::Malformed(format!("an answer of more than {most} bytes")));
            }
            parts.flow_control().release_capacity(part.len()).map_err(broken)?;
            body.extend_from_slice(&part);
        }
        Ok(body)
    }

    /// The connection of `slot`, made anew if it is gone. Other requests wait for that attempt,
    /// unless the last one failed: waiting handshakes would block others.
    async fn connection(&self, slot: usize) -> anyhow::Result<Connection> {
        let slot = &self.connections[slot];
        let mut kept = match self.silent.load(Ordering::Relaxed) {
            false => slot.lock().await,
            true => {
                slot.try_lock().context("the last attempt failed; another one is in progress")?
            }
        };
        if let Some(Connection { sender, doubt }) = kept.clone()
            && let Ok(sender) = sender.ready().await
        {
            return Ok(Connection { sender, doubt });
        }
        let mut search = Search { silent: &self.silent, ended: false };
        let connected = self.connect().await;
        search.ended = true;
        let connection = connected?;
        *kept = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.configuration.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.connector.connect(self.server_name.clone(), stream).await?;
        let protocol = stream.get_ref().1.alpn_protocol();
        ensure!(
            protocol == Some(b"h2"),
            "expected HTTP/2 (ALPN h2), which the server does not support"
        );
        let mut builder = h2::client::Builder::new();
        let (sender, connection) = builder.enable_push(false).handshake(stream).await?;
        let doubt = Arc::new(Notify::new());
        let limit = self.configuration.patience / DOUBT;
        tokio::spawn(drive(connection, Arc::clone(&doubt), limit));
        Ok(Connection { sender, doubt })
    }
}

/// Records that it was dropped before its end, which means that all callers have timed out.
struct Search<'a> {
    silent: &'a AtomicBool,
    ended: bool,
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.silent.store(!self.ended, Ordering::Relaxed);
    }
}

/// Drives a connection until it breaks, or until a PING to the key server times out.
async fn drive(
    mut connection: h2::client::Connection<TlsStream<TcpStream>, Bytes>,
    doubt: Arc<Notify>,
    limit: Duration,
) {
    let mut pings = connection.ping_pong().expect("not taken before");
    let silence = async {
        loop {
            doubt.notified().await;
            if !matches!(timeout(limit, pings.ping(h2::Ping::opaque())).await, Ok(Ok(_))) {
                return;
            }
        }
    };
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "connection to the key server failed");
            }
        }
        // Dropped, it ends all that wait for answers.
        () = silence => tracing::debug!("connection to the key server closed: it does not answer"),
    }
}
