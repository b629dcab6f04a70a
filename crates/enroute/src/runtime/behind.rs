//! The origin of a connection, and its settings.
//!
//! Most listeners have one origin. A listener with `origin = "…://original"` serves connections
//! that the kernel has diverted to it (`enroute intercept`); the origin of each is its original
//! destination.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    sync::Arc,
};

use rustix::{io::Errno, net::sockopt};

use super::{Origin, Protocol};

/// Origin and settings of one connection.
#[derive(Clone)]
pub(super) struct Behind {
    pub(super) protocol: Protocol,
    pub(super) origin: Arc<Origin>,
}

impl Behind {
    /// The same with another address. Keys of different origins are distinct, because the settings
    /// contain the address.
    pub(super) fn at(&self, address: SocketAddr) -> Self {
        let name = address.to_string();
        let protocol = match &self.protocol {
            Protocol::Mongo(settings) => Protocol::Mongo(Arc::new(settings.at(name.clone()))),
            Protocol::Resp(settings) => Protocol::Resp(Arc::new(settings.at(name.clone()))),
            Protocol::Memcache(settings) => Protocol::Memcache(Arc::new(settings.at(name.clone()))),
        };
        Self { protocol, origin: Arc::new(self.origin.at(name)) }
    }
}

/// Original destination of a client that the kernel has diverted to `listening`.
///
/// # Errors
/// It was not diverted: it connected to the listener itself, so forwarding would form a loop.
pub(super) fn original_destination(
    stream: &TcpStream,
    listening: SocketAddr,
) -> io::Result<SocketAddr> {
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
