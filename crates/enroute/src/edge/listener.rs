//! Accepting, the TLS handshake, and one connection's requests.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use edge_tls::{HandshakeFailure, Protocol, Session, TlsStream};
use endpoint::{Listener, seldom};
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};
use tracing::debug;
use wire::detect;

use super::{
    Shared,
    answer::{Connection, answer},
    body::RequestBody,
    room::{REQUEST_BYTES, has_left},
    taking::Taking,
    unread::Unread,
};

/// Maximum of request body bytes that an HTTP/2 connection may send before they are read.
const WINDOW_BYTES: u32 = 256 << 10;
/// Maximum of bytes that wait for the window of one of its streams.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Accepts connections until shutdown is requested.
pub(super) async fn serve(socket: TcpListener, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(shared.limits.connections_max));
    let handshakes = Arc::new(Semaphore::new(shared.limits.handshakes_max));
    let mut ending = shared.ending.subscribe();
    let mut listener = Listener::new(socket, "the edge");
    loop {
        let accepted = tokio::select! {
            accepted = accept(&shared, &mut listener, &room) => accepted,
            () = end(&mut ending) => return,
        };
        let Some((permit, stream, peer)) = accepted else { continue };
        shared.stats.accepted.count();
        let (shared, handshakes) = (Arc::clone(&shared), Arc::clone(&handshakes));
        shared.connections.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            let guard = Counted(&shared);
            if let Some((stream, session)) = shake_hands(&shared, &handshakes, stream, peer).await {
                converse(&shared, stream, session, peer).await;
            }
            drop((guard, permit));
        });
    }
}

struct Counted<'a>(&'a Shared);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

async fn accept(
    shared: &Shared,
    listener: &mut Listener,
    room: &Arc<Semaphore>,
) -> Option<(tokio::sync::OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    let (stream, peer) = listener.accept().await;
    let _ = stream.set_nodelay(true);
    // The kernel ends a connection whose client reads nothing of an answer for this long.
    let patience = u32::try_from(shared.limits.idle_timeout.as_millis());
    let _ = sockopt::set_tcp_user_timeout(&stream, patience.unwrap_or(u32::MAX));
    Some((permit, stream, peer))
}

async fn shake_hands(
    shared: &Shared,
    handshakes: &Semaphore,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> Option<(TlsStream<TcpStream>, Session)> {
    let limit = shared.limits.handshake_timeout;
    let shaken = timeout(limit, async {
        if !shared.told.admit(detect::Protocol::Tls, &mut stream).await {
            return None;
        }
        let _permit = handshakes.acquire().await;
        Some(shared.acceptor.accept(stream).await)
    });
    let stats = &shared.stats;
    match shaken.await.map(Option::transpose) {
        Ok(Ok(None)) => {
            stats.handshakes_failed.count();
            None
        }
        Ok(Ok(Some((stream, session)))) => {
            let kind =
                if session.resumed { &stats.handshakes_resumed } else { &stats.handshakes_full };
            kind.count();
            Some((stream, session))
        }
        Ok(Err(failure @ HandshakeFailure { key_failed: true, .. })) => {
            stats.handshakes_without_key.count();
            seldom!(shared.told, Key => warn, %peer,
                "handshake failed with alert internal_error: {failure}");
            None
        }
        Ok(Err(failure)) => {
            stats.handshakes_failed.count();
            seldom!(shared.told, Handshake => info, %peer, "handshake failed: {failure}");
            None
        }
        Err(_) => {
            stats.handshakes_failed.count();
            seldom!(shared.told, Handshake => info, %peer,
                "handshake failed: not finished within {limit:?} (handshake_timeout)");
            None
        }
    }
}

async fn converse(
    shared: &Arc<Shared>,
    stream: TlsStream<TcpStream>,
    session: Session,
    peer: SocketAddr,
) {
    let Some(site) = shared.site(&session.site) else { return };
    let taking = (session.protocol == Protocol::Http2).then(Taking::default);
    let begun = AtomicU64::new(0);
    let open = shared.room.open(peer);
    let account = Arc::clone(&open.account);
    let connection = Connection { shared: Arc::clone(shared), site, peer, begun, taking, account };
    let connection = Arc::new(connection);
    let ended = tokio::select! {
        ended = serve_requests(&connection, stream, session.protocol) => ended,
        // Its memory is released with it.
        () = open.account.ending() => return,
    };
    if let Err(error) = ended {
        debug!(%peer, "connection failed: {error}");
    }
}

async fn serve_requests(
    connection: &Arc<Connection>,
    stream: TlsStream<TcpStream>,
    protocol: Protocol,
) -> hyper::Result<()> {
    let Connection { shared, peer, account, .. } = &**connection;
    let requests = Arc::clone(connection);
    let unread = (protocol == Protocol::Http2).then(|| Unread::new(&shared.room, account));
    let gate = shared.room.gate(stream, has_left);
    let of_requests = unread.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        // At once, not when the task is scheduled: many requests may arrive before that.
        let in_room = requests.shared.room.request(REQUEST_BYTES, &requests.account);
        let request = request.map(|body| RequestBody::new(body, of_requests.as_ref()));
        answer(Arc::clone(&requests), request, in_room)
    });
    let limits = &shared.limits;
    let mut ending = shared.ending.subscribe();
    match unread {
        None => {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.idle_timeout)
                .max_buf_size(limits.header_bytes_max.max(HTTP1_BUFFER_BYTES_MIN))
                .serve_connection(TokioIo::new(gate), service);
            endpoint::until(served, end(&mut ending)).await
        }
        Some(unread) => {
            let served = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(limits.streams_max)
                .max_header_list_size(limits.header_bytes_max as u32)
                .initial_connection_window_size(WINDOW_BYTES)
                .initial_stream_window_size(WINDOW_BYTES)
                .max_send_buf_size(SEND_BUFFER_BYTES)
                .keep_alive_interval(limits.idle_timeout)
                .keep_alive_timeout(limits.idle_timeout)
                .serve_connection(TokioIo::new(unread.watch(gate)), service);
            let over = async {
                tokio::select! {
                    () = idle(connection, limits.idle_timeout) => {}
                    () = end(&mut ending) => {}
                }
            };
            tokio::select! {
                ended = unread.serve(endpoint::until(served, over)) => ended,
                () = stalled(connection, limits.idle_timeout) => {
                    seldom!(shared.told, Buffers => info, %peer,
                        "connection closed: its client reads nothing of a response");
                    Ok(())
                }
            }
        }
    }
}

/// Waits until no request has begun for the idle timeout. Answers under way then continue to their
/// end; `PING` frames do not count as activity.
async fn idle(connection: &Connection, limit: Duration) {
    let mut seen = None;
    while seen != Some(connection.begun.load(Relaxed)) {
        seen = Some(connection.begun.load(Relaxed));
        sleep(limit).await;
    }
}

/// Waits until the client has read nothing of a response for the idle timeout.
async fn stalled(connection: &Connection, limit: Duration) {
    let has_stalled = |taking: &Taking| taking.has_stalled(limit);
    while !connection.taking.as_ref().is_some_and(has_stalled) {
        sleep(limit / 2).await;
    }
}

/// Minimum of hyper.
const HTTP1_BUFFER_BYTES_MIN: usize = 8 << 10;

/// Waits until the end is asked for.
async fn end(ending: &mut watch::Receiver<bool>) {
    // A guard held across an await would make the future not `Send`.
    drop(ending.wait_for(|ending| *ending).await);
}
