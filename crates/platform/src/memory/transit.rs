//! Memory accounting of data in transit between clients and origins.
//!
//! Counted in bytes, within a limit: a response copied out of storage, one that is being fetched,
//! the buffers of one that is forwarded, the headers and body of a request. A task that needs more
//! waits, and while the limit is reached nothing is read from clients; if that does not help, the
//! connection that uses the most is closed.
//!
//! Decision: `docs/decisions/0143-edge-memory-limits.md`.

use std::{
    collections::HashMap,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::Notify,
    time::{Sleep, sleep},
};

use super::Clients;
use crate::governed::{Governed, Reads};

/// A longer response is copied or fetched as a whole only while part of the limit is free.
const SMALL_BYTES: usize = 64 << 10;

/// Maximum wait for memory.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Interval of checks for free memory.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The transit memory of a service.
pub struct Room {
    clients: Clients,
    open: Mutex<Open>,
    /// Connections closed to free memory.
    ended: AtomicU64,
}

/// Connections, by number.
struct Open {
    accounts: HashMap<u64, Arc<Account>>,
    next: u64,
    /// Time at which a connection was last chosen to be closed.
    looked: Instant,
}

impl Room {
    /// Accounting of at most `share` bytes.
    pub fn new(share: usize) -> Arc<Self> {
        let open = Open { accounts: HashMap::new(), next: 0, looked: Instant::now() };
        let (open, ended) = (Mutex::new(open), AtomicU64::new(0));
        Arc::new(Self { clients: Clients::new(share), open, ended })
    }

    /// Bytes of all connections.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Number of connections closed to free memory.
    pub fn ended(&self) -> u64 {
        self.ended.load(Relaxed)
    }

    /// Whether little is left.
    pub fn is_tight(&self) -> bool {
        self.clients.bytes() > self.whole_max()
    }

    /// Reserves `bytes` for a response that is kept whole, if available now. A long one leaves part
    /// of the limit free.
    pub fn whole(self: &Arc<Self>, bytes: usize) -> Option<Counted> {
        let most = if bytes > SMALL_BYTES { self.whole_max() } else { self.clients.share() };
        self.reserve(bytes, most)
    }

    fn whole_max(&self) -> usize {
        self.clients.share() / 4 * 3
    }

    fn reserve(self: &Arc<Self>, bytes: usize, most: usize) -> Option<Counted> {
        let reserved = self.clients.reserve(bytes, most);
        reserved.then(|| Counted { room: Arc::clone(self), bytes })
    }

    /// Waits until `bytes` that are not in memory yet can be reserved; `None` after the timeout.
    pub async fn wait(self: &Arc<Self>, bytes: usize) -> Option<Counted> {
        let began = Instant::now();
        loop {
            if let Some(counted) = self.reserve(bytes, self.clients.share()) {
                return Some(counted);
            }
            self.make_way(began).await?;
        }
    }

    /// Counts `bytes` that are already in memory, and waits until everything is within the share;
    /// `None` if that does not happen.
    pub async fn admit(self: &Arc<Self>, bytes: usize) -> Option<Counted> {
        let counted = self.count(bytes);
        let began = Instant::now();
        while self.is_full() {
            self.make_way(began).await?;
        }
        Some(counted)
    }

    /// Counts `bytes` that are in memory already.
    fn count(self: &Arc<Self>, bytes: usize) -> Counted {
        self.clients.count(0, bytes);
        Counted { room: Arc::clone(self), bytes }
    }

    /// Counts `bytes` of a request of this account, besides its headers and bodies.
    pub fn request(self: &Arc<Self>, bytes: usize, account: &Arc<Account>) -> InRoom {
        InRoom { _counted: self.count(bytes), _charged: account.charge(bytes) }
    }

    /// Whether the limit is reached.
    fn is_full(&self) -> bool {
        self.clients.bytes() >= self.clients.share()
    }

    async fn make_way(&self, began: Instant) -> Option<()> {
        let waited = began.elapsed();
        if waited >= WAIT_MAX {
            return None;
        }
        self.end_one(waited >= WAIT_MAX / 2);
        sleep(LOOK_PAUSE).await;
        Some(())
    }

    /// Closes the connection that uses the most, if it is above a threshold or `has_waited`.
    fn end_one(&self, has_waited: bool) {
        // If another task is searching already, this one need not.
        let Some(mut open) = self.open.try_lock() else { return };
        let is_ending = |account: &Arc<Account>| account.is_ending.load(SeqCst);
        if open.looked.elapsed() < LOOK_PAUSE || open.accounts.values().any(is_ending) {
            return;
        }
        open.looked = Instant::now();
        let most = open.accounts.values().max_by_key(|account| account.bytes.load(Relaxed));
        let Some(account) = most else { return };
        let bytes = account.bytes.load(Relaxed);
        if bytes >= self.clients.greedy(has_waited) {
            self.clients.tell(account.peer, bytes);
            self.ended.fetch_add(1, Relaxed);
            account.is_ending.store(true, SeqCst);
            account.end.notify_one();
        }
    }

    /// Opens the account of a connection.
    pub fn open(self: &Arc<Self>, peer: SocketAddr) -> OpenAccount {
        let mut open = self.open.lock();
        let (number, account) = (open.next, Arc::new(Account::new(peer)));
        open.next += 1;
        open.accounts.insert(number, Arc::clone(&account));
        OpenAccount { room: Arc::clone(self), number, account }
    }
}

/// Reads nothing of a client's stream while the share is used up. A client that has disconnected is
/// not waited for then, because other connections may need the memory that it holds.
pub struct Gate<S> {
    room: Arc<Room>,
    has_left: fn(&S) -> bool,
    /// Time since which the gate is closed, and the timer of the next check.
    closed: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Room {
    /// The same stream, within the share; `has_left` says whether its client has closed its side.
    pub fn gate<S: AsyncRead + Unpin>(
        self: &Arc<Self>,
        stream: S,
        has_left: fn(&S) -> bool,
    ) -> Governed<S, Gate<S>> {
        Governed::new(stream, Gate { room: Arc::clone(self), has_left, closed: None })
    }
}

impl<S: AsyncRead + Unpin> Reads<S> for Gate<S> {
    fn poll_read(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.room.is_full() {
            if (self.has_left)(stream) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            let looks = || (Instant::now(), Box::pin(sleep(LOOK_PAUSE)));
            let (began, pause) = self.closed.get_or_insert_with(looks);
            ready!(pause.as_mut().poll(context));
            *pause = Box::pin(sleep(LOOK_PAUSE));
            self.room.end_one(began.elapsed() >= WAIT_MAX / 2);
        }
        self.closed = None;
        Pin::new(stream).poll_read(context, into)
    }
}

/// The account of a connection, while it is open.
pub struct OpenAccount {
    room: Arc<Room>,
    number: u64,
    /// What the connection is charged for.
    pub account: Arc<Account>,
}

impl Drop for OpenAccount {
    fn drop(&mut self) {
        self.room.open.lock().accounts.remove(&self.number);
    }
}

/// Memory of one connection. Data that several wait for counts for each of them.
pub struct Account {
    peer: SocketAddr,
    bytes: AtomicUsize,
    is_ending: AtomicBool,
    end: Notify,
}

impl Account {
    fn new(peer: SocketAddr) -> Self {
        let (bytes, is_ending) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { peer, bytes, is_ending, end: Notify::new() }
    }

    /// Charges it for `bytes`, until the returned value is dropped.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charged {
        self.bytes.fetch_add(bytes, Relaxed);
        Charged { account: Arc::clone(self), bytes }
    }

    /// Replaces the charge `before` of one kind by `now`.
    pub fn change(&self, before: usize, now: usize) {
        self.bytes.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Waits until the connection must be closed to free memory.
    pub async fn ending(&self) {
        self.end.notified().await;
    }
}

/// Bytes that a connection is charged for.
pub struct Charged {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.account.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// A request that is counted, until its answer is sent.
pub struct InRoom {
    _counted: Counted,
    _charged: Charged,
}

/// Bytes of memory that are counted.
pub struct Counted {
    room: Arc<Room>,
    bytes: usize,
}

impl Counted {
    /// Changes the count to `bytes`, if an increase fits.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let grows = self.room.clients.reserve(more, self.room.whole_max());
        self.bytes += if grows { more } else { 0 };
        grows
    }

    /// The same bytes, counted while any part of them is kept.
    pub fn keeps(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Kept { bytes, _counted: self })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.room.clients.count(self.bytes, 0);
    }
}

struct Kept {
    bytes: Vec<u8>,
    _counted: Counted,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_while_any_part_of_them_is_kept() {
        let room = Room::new(1 << 20);
        let bytes = room.whole(1_000).expect("room").keeps(vec![7; 1_000]);
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(room.clients.bytes(), 1_000);
        drop(part);
        assert_eq!(room.clients.bytes(), 0);
    }

    #[test]
    fn a_long_answer_leaves_room_for_others() {
        let room = Room::new(1 << 20);
        let mut long = room.whole(700 << 10).expect("room");
        assert!(room.whole(100 << 10).is_none() && !long.grow_to(800 << 10));
        assert!(room.whole(SMALL_BYTES).is_some());
        drop(long);
        assert_eq!(room.clients.bytes(), 0);
    }

    #[tokio::test]
    async fn the_connection_that_keeps_the_most_is_ended() {
        let room = Room::new(1 << 20);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let (small, large) = (room.open(peer), room.open(peer));
        let kept = room.whole(700 << 10).expect("room");
        let charged = (small.account.charge(50 << 10), large.account.charge(700 << 10));
        let waits = room.wait(500 << 10);
        let ended = async {
            large.account.ending().await;
            drop((large, charged, kept));
        };
        let (found, ()) = tokio::join!(waits, ended);
        assert!(found.is_some() && !small.account.is_ending.load(SeqCst));
    }
}
