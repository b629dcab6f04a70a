//! Clients that speak another protocol than a port serves: logged, and answered in their own
//! protocol.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use reactor::Seldom;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tracing::warn;
use wire::{
    Error,
    detect::{self, LOOK_BYTES, Protocol},
};

/// Time between two log lines about one protocol at one listener.
const TOLD_PAUSE: Duration = Duration::from_secs(10);
/// Interval of checks of a client that has sent too little to identify its protocol.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Log state of one listener for clients of other protocols.
#[derive(Debug)]
pub struct Foreigners {
    /// By protocol; there are five.
    told: Mutex<Vec<(Protocol, Seldom)>>,
}

impl Default for Foreigners {
    fn default() -> Self {
        Self { told: Mutex::new(Vec::new()) }
    }
}

impl Foreigners {
    /// Logs why the client at `peer` is closed: another protocol once per interval, other reasons
    /// at once.
    pub fn tell(&self, listen: SocketAddr, peer: SocketAddr, error: &Error) {
        let Error::Foreign { found, .. } = error else {
            warn!(%peer, %listen, "closing: {error}");
            return;
        };
        if let Some(connections) = self.note(*found) {
            warn!(%peer, %listen, connections, "closing: {error}");
        }
    }

    /// Counts a client of `found`; how many there were since the last line, if another is due.
    pub fn note(&self, found: Protocol) -> Option<u64> {
        let mut told = self.told.lock();
        let place = told.iter().position(|(protocol, _)| *protocol == found).unwrap_or_else(|| {
            told.push((found, Seldom::new(TOLD_PAUSE)));
            told.len() - 1
        });
        told.get_mut(place)?.1.note(Instant::now())
    }

    /// Peeks at the first bytes of a client, and closes a client of another protocol. Returns
    /// whether it speaks `expected`. The caller limits the time.
    pub async fn admit(&self, expected: Protocol, stream: &mut TcpStream) -> bool {
        let Some(error) = look(expected, stream).await else { return true };
        if let (Ok(listen), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) {
            self.tell(listen, peer, &error);
        }
        let Error::Foreign { found, first, .. } = &error else { return false };
        let mut told = Vec::new();
        detect::refuse(*found, first, &error.to_string(), &mut told);
        // Unread data would turn the close into a reset, and the client would not see the answer.
        let _ = stream.try_read(&mut [0; UNREAD_BYTES_MAX]);
        let _ = stream.write_all(&told).await;
        let _ = stream.shutdown().await;
        false
    }
}

/// Maximum number of bytes read from a closed client: a request with its headers.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// Reason why the first bytes are not `expected`; `None` if they may be.
async fn look(expected: Protocol, stream: &TcpStream) -> Option<Error> {
    let mut first = [0; LOOK_BYTES];
    let mut seen = 0;
    loop {
        // End of stream or a connection error: the next read returns it too.
        let count = stream.peek(&mut first).await.ok().filter(|&count| count > seen || seen > 0)?;
        match detect::expect(expected, first.get(..count)?) {
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => return Some(error),
        }
        seen = count;
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}
