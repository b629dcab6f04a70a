//! Log lines about what clients can cause any number of times, and the answer to clients that
//! speak another protocol than a port serves.

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

/// Time between two log lines about one cause.
const TOLD_PAUSE: Duration = Duration::from_secs(10);
/// Interval of checks of a client that has sent too little to identify its protocol.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What a client can cause any number of times. A line about it is written once per interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A client speaks another protocol.
    Foreign(Protocol),
    /// A client violates the protocol.
    Malformed,
    /// The maximum number of clients is reached.
    Full,
    /// The socket of a client cannot be set up.
    Socket,
    /// A client does not complete its TLS handshake as configured.
    Handshake,
    /// A certificate is not valid at this time.
    Expired,
    /// The key of a TLS handshake cannot be used: its key server does not answer or refuses.
    Key,
    /// A client exceeds its memory or does not read.
    Buffers,
    /// The origin does not answer or ends the connection.
    Origin,
    /// The origin violates the protocol.
    Reply,
    /// The origin fails, and the answer is from storage.
    Covered,
    /// The database of the service does not answer.
    Database,
    /// A stored record cannot be read.
    Record,
    /// The audit log cannot be written.
    Audit,
}

/// Log state of one listener or service: by cause, so that strangers cannot fill the log, and
/// frequent lines about one cause hide no other.
#[derive(Debug)]
pub struct Told(Mutex<Vec<(Cause, Seldom)>>);

/// `seldom!(told, Full => warn, %peer, "text")`: a log line about a [`Cause`], at this level and
/// with these fields, unless one was written within the interval. `times` counts those left out,
/// too.
#[macro_export]
macro_rules! seldom {
    ($told:expr, $cause:ident => $level:ident, $($line:tt)+) => {
        if let Some(times) = $told.note($crate::Cause::$cause) {
            tracing::$level!(times, $($line)+);
        }
    };
}

impl Default for Told {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl Told {
    /// Logs why the client at `peer` is closed, once per interval for each cause.
    pub fn tell(&self, listen: SocketAddr, peer: SocketAddr, error: &Error) {
        let cause = match error {
            Error::Foreign { found, .. } => Cause::Foreign(*found),
            _ => Cause::Malformed,
        };
        if let Some(times) = self.note(cause) {
            warn!(%peer, %listen, times, "closing: {error}");
        }
    }

    /// Counts an occurrence of `cause`. Returns how many there were since the last line if another
    /// line is due.
    pub fn note(&self, cause: Cause) -> Option<u64> {
        let mut told = self.0.lock();
        let place = told.iter().position(|(known, _)| *known == cause).unwrap_or_else(|| {
            told.push((cause, Seldom::new(TOLD_PAUSE)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_lines_about_one_cause_hide_no_other() {
        let told = Told::default();
        let noted: Vec<_> = (0..1_000).filter_map(|_| told.note(Cause::Malformed)).collect();
        assert_eq!(noted, [1]);
        assert_eq!(told.note(Cause::Foreign(Protocol::Http)), Some(1));
        assert_eq!(told.note(Cause::Foreign(Protocol::Tls)), Some(1));
        assert_eq!(told.note(Cause::Full), Some(1));
        assert_eq!(told.note(Cause::Foreign(Protocol::Http)), None);
    }
}
