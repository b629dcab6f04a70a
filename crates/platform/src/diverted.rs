//! Connections that the kernel has diverted to a listener (`enroute intercept`).

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
};

use rustix::{io::Errno, net::sockopt};
use socket2::SockRef;
use tracing::info;

/// Lets TPROXY hand the socket connections to other machines' addresses. Without the privilege, the
/// socket still serves redirected connections.
pub fn accept_any_destination(socket: &TcpListener) {
    // The option applies to both address families, although its name refers to IPv4.
    if let Err(error) = SockRef::from(socket).set_ip_transparent_v4(true) {
        info!(
            "cannot set IP_TRANSPARENT: connections diverted by TPROXY do not reach this listener, those of mode \
             redirect do: {error}; give the process CAP_NET_ADMIN for TPROXY"
        );
    }
}

/// Original destination of a client that the kernel has diverted to `listening`.
///
/// # Errors
/// It was not diverted: it connected to the listener itself, so forwarding would form a loop.
pub fn original_destination(stream: &TcpStream, listening: SocketAddr) -> io::Result<SocketAddr> {
    let reached = stream.local_addr()?;
    let original = match reached {
        SocketAddr::V4(_) => sockopt::ip_original_dst(stream).map(SocketAddr::V4),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(stream).map(SocketAddr::V6),
    };
    let original = match original {
        Ok(original) => original,
        // Not rewritten by NAT: with TPROXY the destination is the socket's own address.
        Err(Errno::NOENT | Errno::NOPROTOOPT) => reached,
        Err(error) => return Err(error.into()),
    };
    if original.port() == listening.port() && is_own(original.ip()) {
        return Err(io::Error::other(
            "it connected to this listener itself, which serves diverted connections only \
             (`enroute intercept --help`)",
        ));
    }
    Ok(original)
}

/// Whether it is an address of this machine.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
