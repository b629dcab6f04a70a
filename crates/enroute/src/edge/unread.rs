//! Memory of unread request bodies of an HTTP/2 connection.
//!
//! Flow control bounds the bytes of such bodies, not the memory that they take: hyper keeps each
//! frame, and a frame keeps the whole buffer that it was read into, with whatever else came in it.
//! So what is kept is counted here by two bounds, of which the lower one holds: everything that was
//! read since the oldest frame that was not taken; and one buffer for each such frame.
//!
//! A frame leaves with the body that it is of, so each body must know its stream, which hyper does
//! not say. It hands over all requests that it has read before its task waits. Therefore nothing is
//! read past the headers of a request with a body until the task runs again: the next body that is
//! handed over is that one's.

use std::{
    collections::{HashMap, VecDeque},
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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::http2::{Found, Frames};

use super::room::{Account, Room};

/// What hyper reads into at once: the longest frame.
const BUFFER_BYTES: u64 = 16 << 10;
/// What a frame keeps beside its buffer.
const FRAME_BYTES: u64 = 1 << 10;
/// Frames that were taken are forgotten when they are this many more than those that were not.
const TAKEN_MAX: usize = 64;

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
    frames: Frames,
    /// Bytes passed on to hyper.
    read: u64,
    /// Bytes that were received and are not passed on yet.
    held: u64,
    /// The stream whose body hyper hands over next, if it accepts the request.
    begun: Option<u32>,
    /// Bodies that have not been given up, by stream.
    bodies: HashMap<u32, Numbers>,
    /// The frames of bodies in the order in which they were read; the first is not taken.
    order: VecDeque<Waiting>,
    /// How many of them are not taken.
    waiting: usize,
    counted: usize,
}

/// Numbers of a body's frames.
#[derive(Default)]
struct Numbers {
    read: u64,
    taken: u64,
}

struct Waiting {
    stream: u32,
    /// Among the frames of its body.
    number: u64,
    /// What had been read before it.
    from: u64,
}

impl Unread {
    /// For a new connection.
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

    /// The body that hyper hands over now.
    fn begin(self: &Arc<Self>) -> Option<Counted> {
        let stream = self.change(|state| {
            let stream = state.begun.take()?;
            state.bodies.insert(stream, Numbers::default());
            Some(stream)
        })?;
        Some(Counted { unread: Arc::clone(self), stream })
    }

    fn change<T>(&self, make: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let made = make(&mut state);
        let kept = state.kept();
        if kept != state.counted {
            self.room.clients().count(state.counted, kept);
            self.account.change(state.counted, kept);
            state.counted = kept;
        }
        made
    }
}

impl State {
    /// These bytes were received, and `most` of them can be passed on: how many may be in this
    /// turn, and whether it ends there.
    fn pass(&mut self, bytes: &[u8], most: usize) -> (usize, bool) {
        // A request that has not been handed over was refused.
        self.begun = None;
        let (mut at, most) = (0, most.min(bytes.len()));
        while at < most && self.begun.is_none() {
            let (more, found) = self.frames.next(&bytes[at..most]);
            at += more;
            self.read += more as u64;
            match found {
                Some(Found::Data(stream)) => self.came(stream),
                Some(Found::Request(stream)) => self.begun = Some(stream),
                None => {}
            }
        }
        self.held = (bytes.len() - at) as u64;
        (at, self.begun.is_some())
    }

    /// A frame of this stream's body was read. hyper keeps none of a body that was given up.
    fn came(&mut self, stream: u32) {
        if let Some(body) = self.bodies.get_mut(&stream) {
            self.order.push_back(Waiting { stream, number: body.read, from: self.read });
            body.read += 1;
            self.waiting += 1;
        }
    }

    /// The oldest frame of this body was taken.
    fn taken(&mut self, stream: u32) {
        if let Some(body) = self.bodies.get_mut(&stream).filter(|body| body.taken < body.read) {
            body.taken += 1;
            self.left(1);
        }
    }

    /// This body was given up, and its frames with it.
    fn ended(&mut self, stream: u32) {
        if let Some(body) = self.bodies.remove(&stream) {
            self.left((body.read - body.taken) as usize);
        }
    }

    fn left(&mut self, frames: usize) {
        self.waiting -= frames;
        let bodies = &self.bodies;
        let waits = |frame: &Waiting| {
            bodies.get(&frame.stream).is_some_and(|body| body.taken <= frame.number)
        };
        while self.order.front().is_some_and(|frame| !waits(frame)) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.waiting + TAKEN_MAX {
            self.order.retain(waits);
        }
    }

    fn kept(&self) -> usize {
        let waiting = self.waiting as u64;
        // Its buffer may begin before it.
        let oldest = self.order.front().map(|frame| frame.from.saturating_sub(BUFFER_BYTES));
        let read = oldest.map_or(0, |oldest| self.read - oldest);
        let by_frames = waiting.saturating_mul(BUFFER_BYTES + FRAME_BYTES);
        let frames = read.saturating_add(FRAME_BYTES * waiting).min(by_frames);
        (frames + self.held) as usize
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.room.clients().count(state.counted, 0);
        self.account.change(state.counted, 0);
    }
}

/// A client's stream of HTTP/2, of which the bodies are counted.
pub(super) struct Watched<S> {
    stream: S,
    unread: Arc<Unread>,
    /// What was received and is not passed on yet; it begins at `at`.
    held: Vec<u8>,
    at: usize,
    /// The turn in which nothing more is passed on.
    over: Option<u64>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, unread: &Arc<Unread>) -> Self {
        Self { stream, unread: Arc::clone(unread), held: Vec::new(), at: 0, over: None }
    }

    /// How many of these bytes may be passed on, of `most` that can be.
    fn pass(&mut self, bytes: &[u8], most: usize) -> usize {
        let (passed, is_over) = self.unread.change(|state| state.pass(bytes, most));
        self.over = is_over.then(|| self.unread.turn.load(Relaxed));
        passed
    }

    /// Passes on what is held.
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

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
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
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let passed = before + self.pass(&into.filled()[before..], usize::MAX);
        self.held = into.filled()[passed..].to_vec();
        self.at = 0;
        into.set_filled(passed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A body in the count, until it is given up.
struct Counted {
    unread: Arc<Unread>,
    stream: u32,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.unread.change(|state| state.ended(self.stream));
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
            counted.unread.change(|state| state.taken(counted.stream));
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

    const MIB: u64 = 1 << 20;

    fn with_unread(test: impl FnOnce(&Arc<Unread>)) {
        let room = Room::new(1 << 30);
        let open = room.open(SocketAddr::from(([127, 0, 0, 1], 1)));
        let unread = Unread::new(&room, &open.account);
        pass(&unread, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        test(&unread);
        drop(unread);
        assert_eq!(room.clients().bytes(), 0);
    }

    /// All of these are received and passed on; whether they end the turn.
    fn pass(unread: &Unread, bytes: &[u8]) -> bool {
        let (passed, is_over) = unread.change(|state| state.pass(bytes, bytes.len()));
        assert_eq!(passed, bytes.len());
        is_over
    }

    fn frame(kind: u8, flags: u8, stream: u32, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), &vec![b'x'; bytes]].concat()
    }

    fn data(stream: u32, bytes: usize) -> Vec<u8> {
        frame(0, 0, stream, bytes)
    }

    /// The headers of a request with a body.
    fn request(stream: u32) -> Vec<u8> {
        frame(1, 4, stream, 20)
    }

    fn upload(unread: &Arc<Unread>, stream: u32) -> Counted {
        assert!(pass(unread, &request(stream)), "nothing is read past a request");
        unread.begin().expect("it is this one's")
    }

    fn counted(unread: &Unread) -> u64 {
        unread.room.clients().bytes() as u64
    }

    #[test]
    fn refused_uploads_next_to_a_long_one_leave_nothing_in_the_count() {
        with_unread(|unread| {
            let long = upload(unread, 1);
            for number in 1..2_000 {
                let stream = 2 * number + 1;
                let refused = upload(unread, stream);
                pass(unread, &data(stream, 1_000));
                drop(refused);
                // What its client sent before it knew.
                pass(unread, &[data(stream, 1_000), data(1, 1_000)].concat());
                assert!(counted(unread) < 64 << 10, "{} after {number}", counted(unread));
                unread.change(|state| state.taken(long.stream));
                assert_eq!(counted(unread), 0);
            }
            let order = &unread.state.lock().order;
            assert!(order.len() <= TAKEN_MAX);
        });
    }

    #[test]
    fn a_body_that_waits_costs_its_own_frames_while_another_is_read() {
        with_unread(|unread| {
            let waits = upload(unread, 1);
            pass(unread, &[data(1, 100), data(1, 100)].concat());
            let long = upload(unread, 3);
            for _ in 0..10_000 {
                pass(unread, &data(3, 1_000));
                unread.change(|state| state.taken(long.stream));
            }
            assert_eq!(counted(unread), 2 * (BUFFER_BYTES + FRAME_BYTES));
            assert!(unread.state.lock().order.len() <= 4 + TAKEN_MAX, "it is bounded");
            drop(waits);
            assert_eq!(counted(unread), 0);
        });
    }

    #[test]
    fn what_comes_with_a_request_is_counted() {
        with_unread(|unread| {
            // The turn ends between them.
            let both = [request(1), data(1, MIB as usize)].concat();
            let (passed, is_over) = unread.change(|state| state.pass(&both, both.len()));
            assert!(is_over && counted(unread) >= MIB, "what is held is counted");
            let body = unread.begin().expect("it is this one's");
            pass(unread, &both[passed..]);
            assert_eq!(counted(unread), BUFFER_BYTES + FRAME_BYTES);
            pass(unread, &data(1, 10));
            assert_eq!(counted(unread), 2 * (BUFFER_BYTES + FRAME_BYTES));
            drop(body);
        });
    }

    #[test]
    fn a_request_that_is_not_handed_over_is_forgotten() {
        with_unread(|unread| {
            assert!(pass(unread, &request(1)));
            assert!(!pass(unread, &data(1, 1_000)));
            assert!(unread.begin().is_none() && counted(unread) == 0);
        });
    }
}
