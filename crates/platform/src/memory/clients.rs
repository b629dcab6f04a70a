//! Waiting data of all clients in memory, and their limit.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use reactor::Seldom;
use tracing::warn;

/// Room of each client's buffers while much is kept.
const TIGHT_ROOM_BYTES: usize = 64 << 10;
/// A client that keeps less than this is not counted, and never closed.
pub const COUNTED_BYTES: usize = 4 << 10;
/// A client that keeps less than this part of the share is not closed while another one may keep
/// more.
const GREEDY_PART: usize = 64;

/// Time between two lines about clients that were closed.
const TOLD_PAUSE: Duration = Duration::from_secs(10);

/// Waiting data of all clients.
pub struct Clients {
    bytes: AtomicUsize,
    /// The limit, in bytes.
    share: usize,
    told: Mutex<Seldom>,
}

impl Clients {
    /// Creates the accounting of clients that may keep `share` bytes.
    pub fn new(share: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), share, told: Mutex::new(Seldom::new(TOLD_PAUSE)) }
    }

    /// A client that kept `before` bytes now keeps `now`.
    pub fn count(&self, before: usize, now: usize) {
        self.bytes.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Counts `more` bytes, unless there would then be more than `most`.
    pub fn reserve(&self, more: usize, most: usize) -> bool {
        let next = |bytes: usize| bytes.checked_add(more).filter(|&bytes| bytes <= most);
        self.bytes.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    /// Bytes that all clients keep.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The limit, in bytes.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Buffer space of each client now; 0 while nothing may be read.
    pub fn room(&self) -> usize {
        match self.bytes() {
            bytes if bytes < self.share / 2 => usize::MAX,
            bytes if bytes < self.share => TIGHT_ROOM_BYTES,
            _ => 0,
        }
    }

    /// Returns the bytes a client must keep to be closed; `others_are_not` if other clients were
    /// not examined before.
    pub fn greedy(&self, others_are_not: bool) -> usize {
        if others_are_not { COUNTED_BYTES } else { self.share / GREEDY_PART }
    }

    /// Logs that a client which kept `bytes` was closed; not for each one, if there are many.
    pub fn tell(&self, peer: SocketAddr, bytes: usize) {
        if let Some(closed) = self.told.lock().note(Instant::now()) {
            let (all, share) = (self.bytes(), self.share);
            warn!(
                %peer, closed,
                "closing the client with the largest buffers: {bytes} of {all} bytes of all clients, \
                 whose limit is {share}; the client should read replies sooner or request less \
                 at once"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: usize = 64 << 20;

    #[test]
    fn room_shrinks_and_ends_before_the_share_is_spent() {
        let clients = Clients::new(SHARE);
        assert_eq!(clients.room(), usize::MAX);
        clients.count(0, SHARE / 2);
        assert_eq!(clients.room(), TIGHT_ROOM_BYTES);
        clients.count(100, SHARE / 2 + 100);
        assert_eq!(clients.room(), 0);
        clients.count(SHARE, 0);
        assert_eq!((clients.bytes(), clients.room()), (0, usize::MAX));
    }

    #[test]
    fn no_more_is_reserved_than_may_be() {
        let clients = Clients::new(SHARE);
        assert!(clients.reserve(SHARE / 2, SHARE) && clients.reserve(SHARE / 2, SHARE));
        assert!(!clients.reserve(1, SHARE) && !clients.reserve(usize::MAX, usize::MAX));
        assert_eq!(clients.bytes(), SHARE);
    }
}
