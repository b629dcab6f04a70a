//! Bodies: of answers, none, one of ours or one that passes through; of requests, one that may be
//! left unread.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use tokio::{runtime::Handle, time::timeout};

/// What can go wrong while a body passes through.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A body of whatever kind.
pub(super) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body that is all there.
pub(super) fn full(bytes: Bytes) -> Body {
    if bytes.len() > SLICE_BYTES {
        return Sliced(bytes).map_err(|never| match never {}).boxed_unsync();
    }
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// More of a body is handed over in slices, so that it shows whether its client takes them.
const SLICE_BYTES: usize = 64 << 10;

struct Sliced(Bytes);

impl hyper::body::Body for Sliced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.0.len().min(SLICE_BYTES);
        let slice = self.0.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// A body on its way.
pub(super) fn passing<B>(body: B) -> Body
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// A body of which some was read already, to see whether it is small enough to store.
pub(super) struct Resumed {
    pub(super) read: Option<Bytes>,
    pub(super) rest: Incoming,
}

impl hyper::body::Body for Resumed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.read.take() {
            Some(read) => Poll::Ready(Some(Ok(Frame::data(read)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.as_ref().map_or(0, Bytes::len) as u64;
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + read);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + read);
        }
        hint
    }
}

/// What is still read of a request's body that nobody wants ...
const UNWANTED_BYTES_MAX: usize = 1 << 20;
/// ... and for how long.
const UNWANTED_TIME_MAX: Duration = Duration::from_secs(2);

/// A client's request body.
///
/// A client that is refused while it still sends may never read why: reset in the middle of its
/// sending, many report the reset. So what is dropped unread is read a little further and thrown
/// away (a lingering close, RFC 9112 §9.6).
pub(super) struct RequestBody(Option<Incoming>);

impl RequestBody {
    pub(super) fn new(body: Incoming) -> RequestBody {
        RequestBody((!body.is_end_stream()).then_some(body))
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let unread = self.0.take().filter(|body| !body.is_end_stream());
        // Without a runtime everything ends anyway.
        if let (Some(body), Ok(runtime)) = (unread, Handle::try_current()) {
            let rest = Limited::new(body, UNWANTED_BYTES_MAX);
            runtime.spawn(timeout(UNWANTED_TIME_MAX, discard(rest)));
        }
    }
}

async fn discard(mut body: Limited<Incoming>) {
    while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
}
