//! Listening sockets of services: handed over by systemd or by the predecessor, or new.
//!
//! A `.socket` unit keeps the socket open while its service restarts: clients wait in the backlog
//! instead of being refused.
#![allow(unsafe_code)]

use std::{
    env,
    net::{SocketAddr, TcpListener},
    os::fd::{FromRawFd, OwnedFd},
    process,
    sync::LazyLock,
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use rustix::{io::FdFlags, net::sockopt};

use crate::succession;

/// The first descriptor that systemd hands over (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;
/// Most sockets that are taken over; a configuration has fewer listeners.
const HANDED_OVER_MAX: i32 = 64;

/// Sockets that another process made.
struct HandedOver {
    left: Vec<TcpListener>,
    /// By systemd, which must then have made all; else by the predecessor.
    by_systemd: bool,
}

/// What is left of the sockets that were handed over; `None` if there never were any.
static HANDED_OVER: LazyLock<Mutex<Option<HandedOver>>> =
    LazyLock::new(|| Mutex::new(handed_over()));

/// A socket that listens on `address`. If systemd has handed over sockets (`LISTEN_FDS`), it is the
/// one with this address: every listener of the service then needs its `ListenStream=`. If the
/// predecessor has one with this address ([`crate::succession`]), it is that one.
///
/// # Errors
/// If the address cannot be listened on, or no socket that systemd handed over has it.
pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let mut handed_over = HANDED_OVER.lock();
    if let Some(HandedOver { left, by_systemd }) = handed_over.as_mut() {
        if let Some(socket) = take(left, address, !*by_systemd) {
            return Ok(socket);
        }
        if *by_systemd {
            let found: Vec<_> = left.iter().filter_map(own).map(|own| own.to_string()).collect();
            bail!(
                "cannot listen on {address}: expected a socket of systemd with this address, found \
                 {}; correct ListenStream= of the .socket unit",
                if found.is_empty() { "no other".to_owned() } else { found.join(", ") }
            );
        }
    }
    new(address)
}

/// A socket that listens on `address` and is no listener of the service: the predecessor's, or a
/// new one even if systemd has handed over those of the listeners.
///
/// # Errors
/// If the address cannot be listened on.
pub fn bind_aside(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let mut handed_over = HANDED_OVER.lock();
    let inherited = handed_over.as_mut().and_then(|sockets| take(&mut sockets.left, address, true));
    inherited.map_or_else(|| new(address), Ok)
}

/// Closes the sockets that were handed over and that are not bound: clients are refused instead
/// of waiting there.
pub fn close_rest() {
    if let Some(HandedOver { left, .. }) = HANDED_OVER.lock().as_mut() {
        left.clear();
    }
}

fn new(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; check that no other process uses the address")
    })
}

fn own(socket: &TcpListener) -> Option<SocketAddr> {
    socket.local_addr().ok()
}

/// The socket with this address; with `any_port` and port 0, one with another port.
fn take(
    sockets: &mut Vec<TcpListener>,
    address: SocketAddr,
    any_port: bool,
) -> Option<TcpListener> {
    let place = sockets.iter().position(|socket| {
        let Some(own) = own(socket) else { return false };
        own == address || any_port && address.port() == 0 && own.ip() == address.ip()
    })?;
    // In order, so that listeners on port 0 keep theirs.
    Some(sockets.remove(place))
}

/// As sd_listen_fds(3) describes it, or of the predecessor.
fn handed_over() -> Option<HandedOver> {
    if let Some(numbers) = succession::sockets() {
        let left = numbers.into_iter().filter_map(adopt).collect();
        return Some(HandedOver { left, by_systemd: false });
    }
    let number = |name| env::var(name).ok()?.parse::<i32>().ok();
    if number("LISTEN_PID")?.cast_unsigned() != process::id() {
        return None;
    }
    let count = number("LISTEN_FDS")?.clamp(0, HANDED_OVER_MAX);
    let left = (FIRST..FIRST + count).filter_map(adopt).collect();
    Some(HandedOver { left, by_systemd: true })
}

/// The descriptor, if it is a listening socket of TCP; else it is closed.
fn adopt(descriptor: i32) -> Option<TcpListener> {
    // SAFETY: another process made the descriptor for this one, which takes it here and nowhere
    // else.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs that the service runs must not inherit it.
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).ok()?;
    let is_listening = sockopt::socket_acceptconn(&descriptor).ok()?;
    let socket = TcpListener::from(descriptor);
    (is_listening && socket.local_addr().is_ok()).then_some(socket)
}
