//! Bodies of answers (none, local, or forwarded) and of requests (which may remain unread).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::{BodyExt, Empty, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use platform::memory::transit::{Account, Charged, Counted, InRoom};
use tokio::{runtime::Handle, sync::OwnedSemaphorePermit, time::timeout};

use super::{
    room::PASSING_BYTES,
    unread::{Arriving, Unread},
};

/// Errors while a body is forwarded.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body of any kind.
pub(super) struct Body {
    bytes: UnsyncBoxBody<Bytes, BodyError>,
    /// Its bytes in memory.
    kept: usize,
    charged: Option<(Charged, InRoom)>,
}

impl Body {
    /// The same as the response to a request of this account, which is charged for both.
    pub(super) fn answers(mut self, request: InRoom, account: &Arc<Account>) -> Self {
        self.charged = Some((account.charge(self.kept), request));
        self
    }

    /// The same inside of another.
    pub(super) fn wrapped<B>(self, make: impl FnOnce(UnsyncBoxBody<Bytes, BodyError>) -> B) -> Self
    where
        B: hyper::body::Body<Data = Bytes, Error = BodyError> + Send + 'static,
    {
        Self { bytes: make(self.bytes).boxed_unsync(), ..self }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.bytes).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}

/// A complete body.
pub(super) fn full(bytes: Bytes) -> Body {
    let kept = bytes.len();
    let bytes = Resumed { read: vec![bytes], rest: Empty::new() };
    Body { bytes: bytes.map_err(|never| match never {}).boxed_unsync(), kept, charged: None }
}

/// A body in transit.
pub(super) fn passing<B>(body: B) -> Body
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
    let kept = length.unwrap_or(PASSING_BYTES).min(PASSING_BYTES);
    Body { bytes: body.map_err(Into::into).boxed_unsync(), kept, charged: None }
}

/// The body of an origin's response, with its connection permit and memory until it ends.
pub(super) struct FromOrigin {
    pub(super) body: Incoming,
    pub(super) _turn: OwnedSemaphorePermit,
    pub(super) _room: Counted,
}

impl hyper::body::Body for FromOrigin {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Size of the slices in which a body is handed over: the longest TLS record. Slices show whether
/// the client reads them, and limit what is copied into its buffers before it does.
const SLICE_BYTES: usize = 16 << 10;

/// A body of which some was read already, or all.
pub(super) struct Resumed<R> {
    /// In reverse order: the last element is sent first.
    pub(super) read: Vec<Bytes>,
    pub(super) rest: R,
}

impl<R: hyper::body::Body<Data = Bytes> + Unpin> hyper::body::Body for Resumed<R> {
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        while let Some(mut read) = self.read.pop() {
            let slice = read.split_to(read.len().min(SLICE_BYTES));
            if !read.is_empty() {
                self.read.push(read);
            }
            if !slice.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(slice))));
            }
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.read.iter().all(Bytes::is_empty) && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.iter().map(Bytes::len).sum::<usize>() as u64;
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + read);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + read);
        }
        hint
    }
}

/// Maximum number of bytes read of an unused request body ...
const UNWANTED_BYTES_MAX: usize = 1 << 20;
/// ... and maximum time for that.
const UNWANTED_TIME_MAX: Duration = Duration::from_secs(2);

/// A client's request body.
///
/// A client that is refused while it still sends may never read why: if its connection is reset,
/// many clients report only the reset. So a body that is dropped unread is read a little further
/// and discarded (a lingering close, RFC 9112 §9.6).
pub(super) struct RequestBody {
    body: Option<Arriving>,
    /// Memory counted for it.
    room: Option<Counted>,
}

impl RequestBody {
    /// The body of a request of a connection with these.
    pub(super) fn new(body: Incoming, unread: Option<&Arc<Unread>>) -> Self {
        let body = (!body.is_end_stream()).then(|| Arriving::new(body, unread));
        Self { body, room: None }
    }

    /// The same, with memory counted for the bytes kept of it.
    pub(super) fn with(mut self, room: Counted) -> Self {
        self.room = Some(room);
        self
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Arriving::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Arriving::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        // Without a runtime everything ends anyway.
        if let (Some(body), Ok(runtime)) = (unread, Handle::try_current()) {
            let rest = Limited::new(body, UNWANTED_BYTES_MAX);
            runtime.spawn(timeout(UNWANTED_TIME_MAX, discard(rest, self.room.take())));
        }
    }
}

async fn discard(mut body: Limited<Arriving>, room: Option<Counted>) {
    while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
    drop(room);
}
