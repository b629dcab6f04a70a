//! Clients of HTTP/2: each of their requests continues in HTTP/1.1 with a worker, over a socket
//! pair, as that of any other client ([`endpoint::streams`]). One thread serves all of them.

use std::{
    cell::Cell,
    io,
    net::{self, SocketAddr},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
};

use endpoint::streams::{self, Limits};
use hyper_util::rt::TokioIo;
use platform::tls::HANDSHAKE_MAX;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::spawn_local,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    Listener, Shared,
    behind::Behind,
    connector::block_on,
    listener::{LOOK_PAUSE, admit, hand_over},
    tls::Shaking,
    worker::Accepted,
};

/// Maximum number of clients of HTTP/2, each of which can take 2 MiB of memory. Further ones are
/// told to use HTTP/1.1.
const CLIENTS_MAX: usize = 64;

/// The way to the thread that serves clients of HTTP/2.
#[derive(Clone)]
pub(super) struct Streams {
    clients: mpsc::UnboundedSender<Client>,
    places: Arc<Semaphore>,
}

/// Clients for the thread that serves them.
pub(super) struct Taken {
    clients: mpsc::UnboundedReceiver<Client>,
    places: Arc<Semaphore>,
}

/// A client whose first bytes are those of HTTP/2, or of TLS that offers it.
pub(super) struct Client {
    stream: net::TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    behind: Behind,
    shaking: Option<Shaking>,
    place: OwnedSemaphorePermit,
}

impl Streams {
    pub(super) fn new() -> (Self, Taken) {
        let (clients, taken) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        (Self { clients, places: Arc::clone(&places) }, Taken { clients: taken, places })
    }

    /// Takes a client of `listener`; without a place it is one of HTTP/1.1.
    pub(super) fn take(
        &self,
        shared: &Shared,
        turn: usize,
        (stream, peer): (net::TcpStream, SocketAddr),
        listener: &Arc<Listener>,
    ) -> io::Result<()> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            admit(shared, turn, (stream, peer), listener);
            return Ok(());
        };
        if !listener.enter() {
            listener.report_full(peer);
            return Ok(());
        }
        let (behind, listener) = (listener.behind(&stream)?, Arc::clone(listener));
        let shaking = Shaking::begin(&listener);
        let client = Client { stream, peer, listener, behind, shaking, place };
        self.clients.send(client).map_err(|_| io::Error::other("the thread of HTTP/2 has ended"))
    }
}

impl Client {
    async fn serve(self, shared: &Arc<Shared>) -> io::Result<()> {
        let _place = self.place;
        self.stream.set_nodelay(true)?;
        let (peer, listener) = (self.peer, Arc::clone(&self.listener));
        let stream = TcpStream::from_std(self.stream)?;
        let (turn, behind, server) = (Cell::new(0), self.behind, Arc::clone(shared));
        let open = move || {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let ours = tokio::net::UnixStream::from_std(ours)?;
            if !listener.enter() {
                listener.report_full(peer);
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            turn.set((turn.get() + 1) % server.post.len());
            let stream = net::TcpStream::from(OwnedFd::from(theirs));
            let (listener, behind) = (Arc::clone(&listener), behind.clone());
            let accepted = Accepted { stream, peer, listener, behind, shaking: None };
            hand_over(&server, turn.get(), accepted);
            Ok(ours)
        };
        let end = async {
            while !shared.is_draining() {
                sleep(LOOK_PAUSE).await;
            }
        };
        let limits = Limits::default();
        let served = match &self.listener.tls {
            None => streams::serve(TokioIo::new(stream), &limits, open, end).await,
            Some(tls) => {
                let stream = timeout(HANDSHAKE_MAX, tls.accept_http2(stream)).await??;
                drop(self.shaking);
                streams::serve(TokioIo::new(stream), &limits, open, end).await
            }
        };
        served.map_err(io::Error::other)
    }
}

/// Serves clients until none can come any more, and the requests of all are completed.
pub(super) fn run(shared: &Arc<Shared>, Taken { mut clients, places }: Taken) {
    block_on("serves clients of HTTP/2", async {
        while let Some(client) = clients.recv().await {
            let shared = Arc::clone(shared);
            spawn_local(async move {
                let (peer, listener) = (client.peer, Arc::clone(&client.listener));
                if let Err(error) = client.serve(&shared).await {
                    debug!(%peer, %error, "client connection of HTTP/2 failed");
                }
                listener.left();
            });
        }
        let all = places.acquire_many(CLIENTS_MAX as u32);
        // What is open after it is dropped.
        let _ = timeout(shared.limits.drain_timeout, all).await;
    });
}
