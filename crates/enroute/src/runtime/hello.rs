//! Clients whose first bytes decide how they are served. On a port with several origins the server
//! name in their first message (SNI) selects the listener; HTTP/2 is told from HTTP/1.1.
//!
//! The message is left in the socket, and the handshake is that of any client of the listener; or
//! the connection is relayed to an origin that decrypts it itself.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use cache::stats::WhyNot;
use endpoint::seldom;
use platform::tls::HANDSHAKE_MAX;
use platform::tls::hello::{First, HELLO_BYTES_MAX, begins_with, first, refuse_name};
use tokio::{io::copy_bidirectional, net::TcpStream, sync::mpsc, task::spawn_local, time::timeout};
use tracing::debug;
use wire::dynamodb::request::PREFACE;

use super::{Listener, Shared, listener::admit, streams::Streams, tls::Shaking};

/// Time for a client to show that it uses HTTP/2, which it does at once. After it, a client is one
/// of HTTP/1.1.
const PREFACE_MAX: Duration = Duration::from_secs(2);

/// A client that was accepted at the port of `listener`. Its place bounds the number of them.
pub(super) struct Hello {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    turn: usize,
    listener: Arc<Listener>,
    place: Option<Shaking>,
}

impl Hello {
    pub(super) fn new(
        stream: std::net::TcpStream,
        peer: SocketAddr,
        turn: usize,
        listener: &Arc<Listener>,
    ) -> Self {
        let (place, listener) = (Shaking::begin(listener), Arc::clone(listener));
        Self { stream, peer, turn, listener, place }
    }

    /// Gives the client to the listener of the name that it requests, as one of the protocol that
    /// it speaks.
    async fn answer(self, shared: &Shared, streams: &Streams) -> io::Result<()> {
        let Self { stream, peer, turn, listener, place } = self;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        let is_named = !listener.names.is_empty();
        if listener.passes && !is_named {
            drop(place);
            return relay(shared, &listener, stream, peer).await;
        }
        if listener.tls.is_none() && !is_named {
            let first = timeout(PREFACE_MAX, begins_with(&stream, PREFACE)).await;
            let client = (stream.into_std()?, peer);
            match first.unwrap_or(Ok(false))? {
                true => return streams.take(shared, turn, client, &listener),
                false => admit(shared, turn, client, &listener),
            }
            return Ok(());
        }
        let found = match timeout(HANDSHAKE_MAX, first(&stream)).await {
            Ok(first) => match first? {
                First::Hello { name, offers_http2 } => {
                    let chosen = match is_named {
                        true => select(shared, &listener, name.as_deref()),
                        false => Some(&listener),
                    };
                    if let Some(chosen) = chosen {
                        if chosen.passes {
                            drop(place);
                            return relay(shared, chosen, stream, peer).await;
                        }
                        let client = (stream.into_std()?, peer);
                        if offers_http2 && chosen.takes_http2() {
                            return streams.take(shared, turn, client, chosen);
                        }
                        admit(shared, turn, client, chosen);
                        return Ok(());
                    }
                    refuse_name(&stream);
                    name.map_or_else(|| "no server name".to_owned(), |name| format!("\"{name}\""))
                }
                First::Other if listener.passes => "another protocol than TLS".to_owned(),
                First::Nothing => return Ok(()),
                First::Endless if is_named => {
                    format!("a first message of more than {HELLO_BYTES_MAX} bytes")
                }
                First::Other | First::Endless => {
                    // The handshake states what was expected.
                    admit(shared, turn, (stream.into_std()?, peer), &listener);
                    return Ok(());
                }
            },
            Err(_) => format!("no complete first message within {HANDSHAKE_MAX:?}"),
        };
        if !is_named {
            let expected = "TLS 1.2 or 1.3";
            seldom!(listener.told, Handshake => warn, %peer, listen = %listener.address,
                "closing: TLS handshake failed: expected {expected}, found: {found}");
            return Ok(());
        }
        seldom!(listener.told, Handshake => warn, %peer, listen = %listener.address,
            "closing: expected a server name (SNI) in `names` of a listener of this address, \
             found: {found}");
        Ok(())
    }
}

/// Relays what the client and the origin of `listener` encrypt for each other.
async fn relay(
    shared: &Shared,
    listener: &Listener,
    mut client: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    if !listener.enter() {
        listener.report_full(peer);
        return Ok(());
    }
    if let Some(stats) = shared.relay_stats() {
        stats.why_not(WhyNot::PassThrough);
    }
    let relayed = match listener.origin.connect().await {
        Ok(origin) => {
            // Without it, messages are late and nothing is wrong.
            let _ = client.set_nodelay(true);
            copy_bidirectional(&mut client, &mut origin.into_duplex()).await
        }
        Err(error) => {
            listener.origin.report(&error);
            Err(error)
        }
    };
    listener.left();
    relayed.map(|_| ())
}

/// The listener of the server name `name`, among those of the address of `listener`.
fn select<'a>(
    shared: &'a Shared,
    listener: &Listener,
    name: Option<&str>,
) -> Option<&'a Arc<Listener>> {
    let name = name?;
    let has_name = |one: &Listener| one.names.iter().any(|own| own.eq_ignore_ascii_case(name));
    shared.listeners.iter().find(|one| one.address == listener.address && has_name(one))
}

/// Passes clients on to the listeners that they want.
pub(super) async fn pass_on(
    shared: Arc<Shared>,
    mut hellos: mpsc::UnboundedReceiver<Hello>,
    streams: Streams,
) {
    while let Some(hello) = hellos.recv().await {
        let (shared, streams) = (Arc::clone(&shared), streams.clone());
        spawn_local(async move {
            let peer = hello.peer;
            if let Err(error) = hello.answer(&shared, &streams).await {
                debug!(%peer, %error, "client connection failed before its handshake, or relayed");
            }
        });
    }
}
