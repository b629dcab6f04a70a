//! Memory of unread request bodies of an HTTP/2 connection.
//!
//! Flow control bounds the bytes of such bodies, not the memory that they take: hyper keeps each
//! frame, and a frame keeps the whole buffer that it was read into, with whatever else came in it.
//! So what is kept is counted here by two bounds, of which the lower one holds: everything that was
//! read since the oldest frame that was not taken; and one buffer for each such frame.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use wire::http2::Frames;

use super::room::{Account, Room};

/// What hyper reads into at once, and has not looked at yet when it asks for more: the longest
/// frame.
const BUFFER_BYTES: u64 = 16 << 10;
/// What a frame keeps beside its buffer.
const FRAME_BYTES: u64 = 1 << 10;
/// Length of a frame header.
const HEAD_BYTES: u64 = 9;

/// The bodies of one connection's requests.
pub(super) struct Unread {
    room: Arc<Room>,
    account: Arc<Account>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    frames: Frames,
    /// Bytes read from the client.
    read: u64,
    /// What had been read when nothing more was there: requests before it have begun.
    begun: u64,
    /// Frames of bodies that were read, and not taken as far as is known: those of a body that is
    /// given up never are.
    waiting: u64,
    /// Bodies that have not ended, by number: no frame of one that is not taken was read before
    /// this.
    bodies: HashMap<u64, u64>,
    next: u64,
    counted: usize,
}

impl Unread {
    /// For a new connection.
    pub(super) fn new(room: &Arc<Room>, account: &Arc<Account>) -> Arc<Self> {
        let (room, account) = (Arc::clone(room), Arc::clone(account));
        Arc::new(Self { room, account, state: Mutex::default() })
    }

    /// `bytes` were received.
    pub(super) fn read(&self, bytes: &[u8]) {
        self.change(|state| {
            state.waiting += state.frames.bodies(bytes) as u64;
            state.read += bytes.len() as u64;
        });
    }

    /// No more data are available.
    pub(super) fn is_idle(&self) {
        self.change(|state| {
            state.begun = state.read;
            if state.bodies.is_empty() {
                state.waiting = 0;
            }
        });
    }

    fn change<T>(&self, make: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let made = make(&mut state);
        let kept = if state.waiting == 0 { 0 } else { state.kept() };
        if kept != state.counted {
            self.room.clients().count(state.counted, kept);
            self.account.change(state.counted, kept);
            state.counted = kept;
        }
        made
    }
}

impl State {
    fn kept(&self) -> usize {
        let oldest = self.bodies.values().fold(self.begun, |oldest, &from| oldest.min(from));
        let by_frames = self.waiting.saturating_mul(BUFFER_BYTES + FRAME_BYTES);
        (self.read - oldest).saturating_add(FRAME_BYTES * self.waiting).min(by_frames) as usize
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.room.clients().count(state.counted, 0);
        self.account.change(state.counted, 0);
    }
}

/// The body of a request as it comes in; with HTTP/2, what is kept of it is counted.
pub(super) struct Arriving {
    body: Incoming,
    of: Option<(Arc<Unread>, u64)>,
}

impl Arriving {
    pub(super) fn new(body: Incoming, unread: Option<&Arc<Unread>>) -> Self {
        let unread = unread.filter(|_| !body.is_end_stream());
        let of = unread.map(|unread| {
            let number = unread.change(|state| {
                state.next += 1;
                state.bodies.insert(state.next, state.begun);
                state.next
            });
            (Arc::clone(unread), number)
        });
        Self { body, of }
    }

    /// Notes what was taken.
    fn note(&self, frame: &Poll<Option<Result<Frame<Bytes>, hyper::Error>>>) {
        let Some((unread, number)) = &self.of else { return };
        let taken = match frame {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len) as u64,
            Poll::Ready(_) => return,
            Poll::Pending => 0,
        };
        unread.change(|state| {
            let read = state.read;
            let Some(from) = state.bodies.get_mut(number) else { return };
            if taken > 0 {
                *from = (*from + HEAD_BYTES + taken).min(read);
                state.waiting = state.waiting.saturating_sub(1);
            } else if frame.is_pending() {
                // All that has come of it is taken.
                *from = (*from).max(read.saturating_sub(BUFFER_BYTES));
            }
        });
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some((unread, number)) = &self.of {
            unread.change(|state| state.bodies.remove(number));
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.note(&frame);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
