//! The first bytes of a client, which are left in its socket: a message of TLS, or others.

use std::{io, time::Duration};

use rustls::server::Acceptor;
use tokio::{net::TcpStream, time::sleep};

use super::HTTP2;

/// Longest first message of a client; those with post-quantum keys have 2 KiB.
pub const HELLO_BYTES_MAX: usize = 8 << 10;
/// Pauses while a first message is incomplete: from this
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// to this.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// An alert of TLS: fatal, `unrecognized_name` (RFC 8446 §6.2).
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// The first bytes of a client.
pub enum First {
    /// A message of TLS.
    Hello {
        /// The server name, if it has one.
        name: Option<String>,
        /// It offers HTTP/2.
        offers_http2: bool,
    },
    /// Not a first message of TLS.
    Other,
    /// The client closed the connection.
    Nothing,
    /// More bytes than a first message may have.
    Endless,
}

/// Waits for the first message.
///
/// # Errors
/// The connection is lost.
pub async fn first(stream: &TcpStream) -> io::Result<First> {
    let (mut bytes, mut pause) = (vec![0; HELLO_BYTES_MAX], PAUSE_MIN);
    loop {
        let count = stream.peek(&mut bytes).await?;
        if count == 0 {
            return Ok(First::Nothing);
        }
        let (mut acceptor, mut rest) = (Acceptor::default(), &bytes[..count]);
        while !rest.is_empty() {
            acceptor.read_tls(&mut rest)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let name = hello.server_name().map(str::to_owned);
                    let offers_http2 =
                        hello.alpn().is_some_and(|mut all| all.any(|one| one == HTTP2));
                    return Ok(First::Hello { name, offers_http2 });
                }
                Err(_) => return Ok(First::Other),
            }
        }
        if count == bytes.len() {
            return Ok(First::Endless);
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Waits until it is known whether the first bytes are `expected`.
///
/// # Errors
/// The connection is lost.
pub async fn begins_with(stream: &TcpStream, expected: &[u8]) -> io::Result<bool> {
    let (mut bytes, mut pause) = (vec![0; expected.len()], PAUSE_MIN);
    loop {
        let count = stream.peek(&mut bytes).await?;
        if count == 0 || count == expected.len() || bytes[..count] != expected[..count] {
            return Ok(bytes == expected);
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Tells a client, after its first message, that no server has the name.
pub fn refuse_name(stream: &TcpStream) {
    // Reading the message prevents a reset at close, which would discard the alert. The client may
    // be gone.
    let _ = stream.try_read(&mut [0; HELLO_BYTES_MAX]);
    let _ = stream.try_write(&UNRECOGNIZED_NAME);
}
