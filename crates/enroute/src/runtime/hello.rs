//! Clients of a port with several origins: the server name in their first message (SNI) selects the
//! listener.
//!
//! The message is left in the socket, and the handshake is that of any client of the listener; or
//! the connection is relayed to an origin that decrypts it itself.

use std::{io, net::SocketAddr, sync::Arc};

use cache::stats::WhyNot;
use endpoint::seldom;
use platform::tls::hello::{First, HELLO_BYTES_MAX, first, refuse_name};
use tokio::{io::copy_bidirectional, net::TcpStream, sync::mpsc, task::spawn_local, time::timeout};
use tracing::debug;

use super::{
    Listener, Shared,
    listener::admit,
    tls::{HANDSHAKE_MAX, Shaking},
};

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

    /// Gives the client to the listener of the name that it requests.
    async fn answer(self, shared: &Shared) -> io::Result<()> {
        let Self { stream, peer, turn, listener, place } = self;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        if listener.names.is_empty() {
            drop(place);
            return relay(shared, &listener, stream, peer).await;
        }
        let found = match timeout(HANDSHAKE_MAX, first(&stream)).await {
            Ok(first) => match first? {
                First::Name(name) => {
                    if let Some(chosen) = select(shared, &listener, name.as_deref()) {
                        if chosen.passes {
                            drop(place);
                            return relay(shared, chosen, stream, peer).await;
                        }
                        admit(shared, turn, (stream.into_std()?, peer), chosen);
                        return Ok(());
                    }
                    refuse_name(&stream);
                    name.map_or_else(|| "no server name".to_owned(), |name| format!("\"{name}\""))
                }
                First::Other if listener.passes => "another protocol than TLS".to_owned(),
                First::Other => {
                    // The handshake states what was expected.
                    admit(shared, turn, (stream.into_std()?, peer), &listener);
                    return Ok(());
                }
                First::Nothing => return Ok(()),
                First::Endless => format!("a first message of more than {HELLO_BYTES_MAX} bytes"),
            },
            Err(_) => format!("no complete first message within {HANDSHAKE_MAX:?}"),
        };
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
pub(super) async fn pass_on(shared: Arc<Shared>, mut hellos: mpsc::UnboundedReceiver<Hello>) {
    while let Some(hello) = hellos.recv().await {
        let shared = Arc::clone(&shared);
        spawn_local(async move {
            let peer = hello.peer;
            if let Err(error) = hello.answer(&shared).await {
                debug!(%peer, %error, "client connection failed before its handshake, or relayed");
            }
        });
    }
}
