//! Memory of unread request bodies of an HTTP/2 connection.
//!
//! [`wire::http2::unread`] says what is kept and why it is counted; here it is counted in the room
//! of the edge, and hyper's task and its reads are held to the turns that the count needs.
//!
//! Decision: `docs/decisions/0143-edge-memory-limits.md`.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use platform::{
    governed::{Governed, Reads},
    memory::transit::{Account, Room},
};
use tokio::io::{AsyncRead, ReadBuf};
use wire::http2::unread::Bodies;

/// The bodies of one connection's requests.
pub(super) struct Unread {
    room: Arc<Room>,
    account: Arc<Account>,
    state: Mutex<State>,
    /// How often the connection's task has run.
    turn: AtomicU64,
}

#[derive(Default)]
struct State {
    bodies: Bodies,
    counted: usize,
}

impl Unread {
    /// State of a new connection.
    pub(super) fn new(room: &Arc<Room>, account: &Arc<Account>) -> Arc<Self> {
        let (room, account) = (Arc::clone(room), Arc::clone(account));
        Arc::new(Self { room, account, state: Mutex::default(), turn: AtomicU64::new(0) })
    }

    /// Runs the connection's task.
    pub(super) async fn serve<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        poll_fn(|context| {
            self.turn.fetch_add(1, Relaxed);
            task.as_mut().poll(context)
        })
        .await
    }

    /// The same stream, of which the bodies are counted.
    pub(super) fn watch<S: AsyncRead + Unpin>(
        self: &Arc<Self>,
        stream: S,
    ) -> Governed<S, Watching> {
        let unread = Arc::clone(self);
        Governed::new(stream, Watching { unread, held: Vec::new(), at: 0, over: None })
    }

    /// The body that hyper hands over now.
    fn begin(self: &Arc<Self>) -> Option<Counted> {
        let stream = self.change(Bodies::begin)?;
        Some(Counted { unread: Arc::clone(self), stream })
    }

    fn change<T>(&self, make: impl FnOnce(&mut Bodies) -> T) -> T {
        let mut state = self.state.lock();
        let made = make(&mut state.bodies);
        let kept = state.bodies.kept();
        if kept != state.counted {
            self.room.clients().count(state.counted, kept);
            self.account.change(state.counted, kept);
            state.counted = kept;
        }
        made
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.room.clients().count(state.counted, 0);
        self.account.change(state.counted, 0);
    }
}

/// Reads a client's stream of HTTP/2, of which the bodies are counted.
pub(super) struct Watching {
    unread: Arc<Unread>,
    /// Received bytes that are not passed on yet, from offset `at`.
    held: Vec<u8>,
    at: usize,
    /// Turn of the task in which no more bytes are passed on.
    over: Option<u64>,
}

impl Watching {
    /// How many of these bytes may be passed on, of `most` that can be.
    fn pass(&mut self, bytes: &[u8], most: usize) -> usize {
        let (passed, is_over) = self.unread.change(|bodies| bodies.pass(bytes, most));
        self.over = is_over.then(|| self.unread.turn.load(Relaxed));
        passed
    }

    /// Passes held bytes on.
    fn resume(&mut self, into: &mut ReadBuf<'_>) {
        let held = std::mem::take(&mut self.held);
        let rest = &held[self.at..];
        let passed = self.pass(rest, into.remaining());
        into.put_slice(&rest[..passed]);
        self.at += passed;
        if self.at < held.len() {
            self.held = held;
        }
    }
}

impl<S: AsyncRead + Unpin> Reads<S> for Watching {
    fn poll_read(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.over == Some(self.unread.turn.load(Relaxed)) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !self.held.is_empty() {
            self.resume(into);
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        ready!(Pin::new(stream).poll_read(context, into))?;
        let passed = before + self.pass(&into.filled()[before..], usize::MAX);
        self.held = into.filled()[passed..].to_vec();
        self.at = 0;
        into.set_filled(passed);
        Poll::Ready(Ok(()))
    }
}

/// A body in the count, until it is given up.
struct Counted {
    unread: Arc<Unread>,
    stream: u32,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.unread.change(|bodies| bodies.ended(self.stream));
    }
}

/// The body of a request as it comes in; with HTTP/2, what is kept of it is counted.
pub(super) struct Arriving {
    body: Incoming,
    /// Dropped after the frames that it counts.
    counted: Option<Counted>,
}

impl Arriving {
    pub(super) fn new(body: Incoming, unread: Option<&Arc<Unread>>) -> Self {
        let unread = unread.filter(|_| !body.is_end_stream());
        Self { body, counted: unread.and_then(Unread::begin) }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let (Poll::Ready(Some(Ok(frame))), Some(counted)) = (&polled, &self.counted)
            && frame.is_data()
        {
            counted.unread.change(|bodies| bodies.taken(counted.stream));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn what_is_kept_is_in_the_room_until_its_body_or_the_connection_ends() {
        let room = Room::new(1 << 30);
        let open = room.open(SocketAddr::from(([127, 0, 0, 1], 1)));
        let unread = Unread::new(&room, &open.account);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let request = b"\0\0\x01\x01\x04\0\0\0\x01x";
        let data = b"\0\0\x01\0\0\0\0\0\x01x";
        let received = |bytes: &[u8]| unread.change(|bodies| bodies.pass(bytes, bytes.len()));
        assert_eq!(received(&[&preface[..], request].concat()), (34, true));
        let body = unread.begin().expect("it is this one's");
        assert_eq!(received(data), (10, false));
        assert!(room.clients().bytes() > 0);
        drop(body);
        assert_eq!(room.clients().bytes(), 0);
        // What is held counts until the connection ends.
        unread.change(|bodies| bodies.pass(data, 1));
        assert!(room.clients().bytes() > 0);
        drop(unread);
        assert_eq!(room.clients().bytes(), 0);
    }
}
