//! The first message of a client of TLS, which is left in its socket.

use std::{io, time::Duration};

use rustls::server::Acceptor;
use tokio::{net::TcpStream, time::sleep};

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
    /// A message of TLS with a server name, or with none.
    Name(Option<String>),
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
                    return Ok(First::Name(hello.server_name().map(str::to_owned)));
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

/// Tells a client, after its first message, that no server has the name.
pub fn refuse_name(stream: &TcpStream) {
    // Reading the message prevents a reset at close, which would discard the alert. The client may
    // be gone.
    let _ = stream.try_read(&mut [0; HELLO_BYTES_MAX]);
    let _ = stream.try_write(&UNRECOGNIZED_NAME);
}
