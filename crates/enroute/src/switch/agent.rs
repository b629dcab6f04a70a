//! A key-value server for NetCache's protocol: the agent and a map in memory.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context, bail};
use switch::agent::{Agent, Config, Stats, Store};
use wire::netcache::Message;

use super::{CONTROL_PORT_ABOVE, now, secret};

/// Longest wait for a packet, so that a signal is seen.
const WAIT: Duration = Duration::from_millis(50);

/// Receives from `socket`, for [`serve`].
pub fn receive(
    socket: &UdpSocket,
) -> impl FnMut(&mut [u8], Duration) -> io::Result<(usize, SocketAddr)> {
    |buffer, wait| {
        socket.set_read_timeout(Some(wait))?;
        socket.recv_from(buffer)
    }
}

/// Serves `store` until `stop` is set. `receive` returns the length and the sender of the next
/// datagram, which it waits for at most for the given time.
///
/// # Errors
/// The socket fails, or the store fails.
pub fn serve(
    socket: &UdpSocket,
    switch: IpAddr,
    store: &mut impl Store,
    mut receive: impl FnMut(&mut [u8], Duration) -> io::Result<(usize, SocketAddr)>,
    stop: &AtomicBool,
) -> anyhow::Result<Stats> {
    let port = socket.local_addr()?.port();
    let controller = SocketAddr::new(switch, port + CONTROL_PORT_ABOVE);
    let data_plane = SocketAddr::new(switch, port);
    let mut agent = Agent::new(Config::default(), controller, data_plane, secret(), now());
    let mut buffer = vec![0; 65_536];
    while !stop.load(Relaxed) {
        let until = agent.poll_timeout().map_or(WAIT, |at| at.saturating_sub(now()).min(WAIT));
        match receive(&mut buffer, until.max(Duration::from_micros(100))) {
            Ok((bytes, from)) => match Message::decode(&buffer[..bytes]) {
                Ok(message) => agent.receive(from, &message, store, now()),
                Err(error) => tracing::debug!("datagram from {from} ignored: {error}"),
            },
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(error).context("cannot receive"),
        }
        if agent.poll_timeout().is_some_and(|at| at <= now()) {
            agent.handle_timeout(store, now());
        }
        for key in store.changed() {
            agent.changed(key, store, now());
        }
        if let Some(why) = store.failure() {
            bail!(why);
        }
        while let Some((to, bytes)) = agent.poll_output() {
            // An unreachable client retries.
            let _ = socket.send_to(&bytes, to);
        }
    }
    Ok(agent.stats())
}

fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
}
