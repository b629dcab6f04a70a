//! Detects responses of a connection that its client does not read.
//!
//! A stream of HTTP/2 whose window stays closed looks like an open one to the kernel, and holds its
//! body in memory. hyper polls a body when the client's window is open, so a body that is not
//! polled is one that the client does not read.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use parking_lot::Mutex;

use super::body::{Body, BodyError};

/// Entries of finished responses are removed when there are this many entries.
const PRUNED_AT: usize = 256;
/// Stored instead of a time while the response waits for the origin.
const ORIGIN: u64 = u64::MAX;

/// The responses in progress on a connection, and when the client last read from each.
pub(super) struct Taking {
    /// Base of the times, so that a step of the clock does not count as silence.
    start: Instant,
    answers: Mutex<Vec<Weak<AtomicU64>>>,
}

impl Default for Taking {
    fn default() -> Self {
        Self { start: Instant::now(), answers: Mutex::default() }
    }
}

impl Taking {
    /// The same body, watched.
    pub(super) fn watch(&self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let taken = Arc::new(AtomicU64::new(milliseconds(self.start)));
        let mut answers = self.answers.lock();
        if answers.len() >= PRUNED_AT {
            answers.retain(|taken| taken.strong_count() > 0);
        }
        answers.push(Arc::downgrade(&taken));
        drop(answers);
        body.wrapped(|body| Watched { body, start: self.start, taken })
    }

    /// Whether there is a response of which the client has read nothing for `limit`.
    pub(super) fn has_stalled(&self, limit: Duration) -> bool {
        let (answers, now) = (self.answers.lock(), milliseconds(self.start));
        let mut taken = answers.iter().filter_map(Weak::upgrade).map(|taken| taken.load(Relaxed));
        taken.any(|taken| u128::from(now.saturating_sub(taken)) > limit.as_millis())
    }
}

fn milliseconds(start: Instant) -> u64 {
    start.elapsed().as_millis() as u64
}

struct Watched {
    body: UnsyncBoxBody<Bytes, BodyError>,
    start: Instant,
    taken: Arc<AtomicU64>,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let taken = if frame.is_pending() { ORIGIN } else { milliseconds(self.start) };
        self.taken.store(taken, Relaxed);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
