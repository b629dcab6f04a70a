//! Clients that make a server buffer as much as possible.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sends as much as the server reads.
pub fn insist(address: SocketAddr, pieces: impl Iterator<Item = Vec<u8>>) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    for piece in pieces {
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    stream
}

/// A SET of a value of this number of megabytes.
pub fn bulk(megabytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", megabytes * 1_000_000);
    let body = (0..megabytes).map(|_| vec![b'v'; 1_000_000]);
    std::iter::once(head.into_bytes()).chain(body)
}
