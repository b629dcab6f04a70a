//! Listening sockets of services: handed over by systemd, or new.
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

/// The first descriptor that systemd hands over (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;
/// Most sockets that are taken over; a configuration has fewer listeners.
const HANDED_OVER_MAX: i32 = 64;

/// What is left of the sockets that were handed over; `None` if there never were any.
static HANDED_OVER: LazyLock<Mutex<Option<Vec<TcpListener>>>> =
    LazyLock::new(|| Mutex::new(handed_over()));

/// A socket that listens on `address`. If systemd has handed over sockets (`LISTEN_FDS`), it is the
/// one with this address: every listener of the service then needs its `ListenStream=`.
///
/// # Errors
/// If the address cannot be listened on, or no socket that was handed over has it.
pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let mut handed_over = HANDED_OVER.lock();
    let Some(sockets) = handed_over.as_mut() else {
        return TcpListener::bind(address).with_context(|| {
            format!("cannot listen on {address}; check that no other process uses the address")
        });
    };
    let own = |socket: &TcpListener| socket.local_addr().ok();
    if let Some(place) = sockets.iter().position(|socket| own(socket) == Some(address)) {
        return Ok(sockets.swap_remove(place));
    }
    let found: Vec<_> = sockets.iter().filter_map(own).map(|address| address.to_string()).collect();
    bail!(
        "cannot listen on {address}: expected a socket of systemd with this address, found {}; \
         correct ListenStream= of the .socket unit",
        if found.is_empty() { "no other".to_owned() } else { found.join(", ") }
    );
}

/// As sd_listen_fds(3) describes it.
fn handed_over() -> Option<Vec<TcpListener>> {
    let number = |name| env::var(name).ok()?.parse::<i32>().ok();
    if number("LISTEN_PID")?.cast_unsigned() != process::id() {
        return None;
    }
    let count = number("LISTEN_FDS")?.clamp(0, HANDED_OVER_MAX);
    Some((FIRST..FIRST + count).filter_map(adopt).collect())
}

/// The descriptor, if it is a listening socket of TCP; else it is closed.
fn adopt(descriptor: i32) -> Option<TcpListener> {
    // SAFETY: systemd made the descriptor for this process, which takes it here and nowhere else.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs that the service runs must not inherit it.
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).ok()?;
    let is_listening = sockopt::socket_acceptconn(&descriptor).ok()?;
    let socket = TcpListener::from(descriptor);
    (is_listening && socket.local_addr().is_ok()).then_some(socket)
}
