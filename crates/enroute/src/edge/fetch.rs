//! Fetching from the origin for a request, and storing the response.
//!
//! The origin is asked with the headers of the request that began the fetch, its cookies among
//! them. The response is for that client; the origin decides whether it may be shared: see
//! [`Entry::admit`].

use std::{sync::Arc, time::Duration};

use content::{
    Entry, Ground, How, MARKED_AFTER, NotStored, Outcome, Receiver, Refreshed, for_the_origin,
    is_failure, places,
};
use endpoint::seldom;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, response};
use http_body_util::BodyExt;
use hyper::{
    Request, Response,
    body::{Body as _, Bytes},
};
use platform::memory::transit::{Counted, Room};
use tokio::time::timeout;
use tracing::debug;

use super::{
    Shared, Site,
    body::{Body, FromOrigin, Resumed, full, passing},
    now,
    origin::Failure,
};

/// The parts of a request that the origin needs.
#[derive(Clone)]
pub(super) struct Wanted {
    /// Path and query.
    pub(super) target: Uri,
    /// The headers of the client that are forwarded to the origin.
    pub(super) receiver: Receiver,
    /// The primary key.
    pub(super) key: Vec<u8>,
    /// The key of the requested variant, if the target is known to have variants.
    pub(super) variant: Option<Vec<u8>>,
    /// Memory of the request, counted while other requests wait for it.
    pub(super) _room: Arc<Counted>,
}

/// Result of a fetch for the request that began it.
pub(super) enum Own {
    /// The origin's answer, which is not stored.
    Response(Response<Body>),
    /// The entry that is stored now, or was confirmed for this request.
    Entry {
        entry: Arc<Entry>,
        how: How,
        /// Cookies of a 304, for this client only.
        cookies: Vec<HeaderValue>,
    },
    /// There is no response, and no stored one may be used instead.
    Failed(StatusCode),
}

/// A fetch.
pub(super) struct Fetch {
    shared: Arc<Shared>,
    site: Arc<Site>,
    wanted: Wanted,
    stored: Option<Arc<Entry>>,
    /// Number of invalidations of the target when it began.
    changes: u64,
}

impl Fetch {
    pub(super) fn new(
        shared: &Arc<Shared>,
        site: &Arc<Site>,
        wanted: Wanted,
        stored: Option<Arc<Entry>>,
    ) -> Self {
        let changes = shared.content.memory().changes(&wanted.key);
        Self { shared: Arc::clone(shared), site: Arc::clone(site), wanted, stored, changes }
    }

    pub(super) async fn run(self) -> (Own, Outcome) {
        let validated = self.stored.as_ref().filter(|entry| entry.has_validator());
        let asked = now();
        let answer = match self.ask(validated.map(|entry| &**entry)).await {
            Ok(answer) => answer,
            Err(failure) => return self.unanswered(&failure),
        };
        if answer.status() != StatusCode::NOT_MODIFIED {
            return self.judge(answer, asked).await;
        }
        self.shared.stats.not_modified.count();
        let headers = answer.headers();
        let Some(entry) = validated else {
            let (base, why) = (self.site.origin.base(), "304 to a request without validators");
            return self.unanswered(&Failure::Unusable(base, why));
        };
        match entry.refreshed(&self.wanted.receiver, headers, asked, now()) {
            Refreshed::Storable(entry) => {
                self.keep(&entry).await;
                self.confirmed(entry, headers, true)
            }
            Refreshed::Personal(entry) => {
                self.withdraw().await;
                self.confirmed(entry, headers, false)
            }
            Refreshed::Another => {
                // Its turn may be the only one.
                drop(answer);
                let asked = now();
                match self.ask(None).await {
                    Ok(answer) => self.judge(answer, asked).await,
                    Err(failure) => self.unanswered(&failure),
                }
            }
        }
    }

    async fn ask(&self, validated: Option<&Entry>) -> Result<Response<FromOrigin>, Failure> {
        let mut request = Request::new(full(Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.headers_mut() = for_the_origin(&self.wanted.receiver, validated);
        *request.uri_mut() = self.wanted.target.clone();
        self.shared.ask(&self.site.origin, request).await
    }

    fn confirmed(&self, entry: Entry, headers: &HeaderMap, stored: bool) -> (Own, Outcome) {
        let entry = Arc::new(entry);
        let outcome = if stored { Outcome::Stored(Arc::clone(&entry)) } else { Outcome::NotShared };
        let cookies = headers.get_all(header::SET_COOKIE).into_iter().cloned().collect();
        (Own::Entry { entry, how: How::NotModified { stored }, cookies }, outcome)
    }

    /// Stores an answer, or hands it to the one client it is for.
    async fn judge(&self, answer: Response<FromOrigin>, asked: Duration) -> (Own, Outcome) {
        if is_failure(answer.status()) {
            let (outcome, status) = (Outcome::Failed(self.stored.clone(), None), answer.status());
            let own = self.covered(&format!("it answered with status {status}"));
            return (own.unwrap_or_else(|| Own::Response(answer.map(passing))), outcome);
        }
        let (head, body) = answer.into_parts();
        let request = &self.wanted.receiver;
        let admitted = Entry::admit(request, head.status, &head.headers, asked, now());
        let too_long = body.size_hint().lower() > self.site.body_bytes_max as u64;
        match admitted {
            Ok(entry) if !too_long => return self.fill(entry, head, body).await,
            Ok(_) => self.too_long().await,
            Err(NotStored::SetsCookie) => {
                debug!("{} is not stored: {}", self.wanted.target, NotStored::SetsCookie);
                self.mark(1);
            }
            Err(why) => {
                debug!("{} is not stored: {why}", self.wanted.target);
                self.withdraw().await;
            }
        }
        (Own::Response(Response::from_parts(head, passing(body))), Outcome::NotShared)
    }

    /// Stores an answer whose body has been received, or passes it on if it is too long.
    async fn fill(&self, entry: Entry, head: response::Parts, body: FromOrigin) -> (Own, Outcome) {
        let shared = &self.shared;
        let read = read(body, self.site.body_bytes_max, &shared.room);
        let read = timeout(shared.limits.origin_timeout, read);
        let status = match read.await {
            Ok(Ok(Read::Whole(bytes))) => {
                let entry = entry.with_body(bytes);
                self.keep(&entry).await;
                shared.stats.fills.count();
                shared.marks.clear(&self.wanted.key, now());
                let entry = Arc::new(entry);
                let outcome = Outcome::Stored(Arc::clone(&entry));
                return (Own::Entry { entry, how: How::Fetched, cookies: Vec::new() }, outcome);
            }
            Ok(Ok(Read::InPart(body, why))) => {
                match why {
                    Why::TooLong => self.too_long().await,
                    Why::NoRoom => debug!(
                        "{} is not stored: no memory is available for its body",
                        self.wanted.target
                    ),
                }
                let own = Own::Response(Response::from_parts(head, passing(body)));
                return (own, Outcome::NotShared);
            }
            Ok(Err(_)) => StatusCode::BAD_GATEWAY,
            Err(_) => StatusCode::GATEWAY_TIMEOUT,
        };
        seldom!(self.site.origin.told, Reply => warn,
            "{} is not answered: the origin {} did not send the whole response", self.wanted.target,
            self.site.origin.base());
        shared.stats.origin_failures.count();
        (Own::Failed(status), Outcome::Failed(None, Some(status)))
    }

    fn unanswered(&self, failure: &Failure) -> (Own, Outcome) {
        let status = failure.status();
        let own = self.covered(&failure.to_string());
        if own.is_none() {
            seldom!(self.site.origin.told, Origin => warn, "{failure}");
            self.shared.stats.origin_failures.count();
        }
        let outcome = Outcome::Failed(self.stored.clone(), Some(status));
        (own.unwrap_or(Own::Failed(status)), outcome)
    }

    /// Returns the stored entry if it may be used although the origin failed.
    fn covered(&self, why: &str) -> Option<Own> {
        let entry = Arc::clone(self.stored.as_ref()?);
        entry.release(&self.wanted.receiver, Ground::OriginFailed, now()).ok()?;
        seldom!(self.site.origin.told, Covered => info,
            "{} is answered from storage because the origin failed: {why}", self.wanted.target);
        self.shared.stats.origin_failures.count();
        Some(Own::Entry { entry, how: How::CoversError, cookies: Vec::new() })
    }

    async fn too_long(&self) {
        debug!(
            "{} is not stored: its body is longer than {} bytes (body_max)",
            self.wanted.target, self.site.body_bytes_max
        );
        self.withdraw().await;
        self.mark(MARKED_AFTER);
    }

    /// The origin no longer lets the target be stored.
    async fn withdraw(&self) {
        self.mark(1);
        if self.is_ordinary() && self.stored.is_some() {
            let key = self.wanted.variant.as_ref().unwrap_or(&self.wanted.key);
            self.shared.content.forget(key).await;
        }
    }

    /// Notes that answers for this target could not be shared.
    fn mark(&self, answers: u8) {
        if self.is_ordinary() {
            self.shared.marks.note(&self.wanted.key, answers, now());
        }
    }

    /// Whether its response applies to the target, and not only to the request of one client.
    fn is_ordinary(&self) -> bool {
        !self.wanted.receiver.demands() && !self.wanted.receiver.is_personal()
    }

    /// Stores `entry` under the keys it is found by.
    async fn keep(&self, entry: &Entry) {
        let (now, wanted) = (now(), &self.wanted);
        let Shared { content, room, .. } = &*self.shared;
        if self.is_revoked() {
            return;
        }
        let kept_for = entry.useful_for(now);
        let varies = entry.selecting().names().next().is_some();
        let known = match varies {
            true => content.lookup(&wanted.key, room, now).await.ok().flatten(),
            false => None,
        };
        for (key, record) in places(entry, &wanted.key, known.as_ref(), now) {
            content.store(&key, &record, kept_for, room, now).await;
        }
        // The target may have been invalidated between the check and the store.
        if self.is_revoked() {
            content.forget(&wanted.key).await;
        }
    }

    fn is_revoked(&self) -> bool {
        self.shared.content.memory().changes(&self.wanted.key) != self.changes
    }
}

/// A body, or the part of it that was read before it turned out too long to be kept.
enum Read {
    Whole(Bytes),
    InPart(Resumed<FromOrigin>, Why),
}

/// Reasons why a body is not kept whole.
enum Why {
    TooLong,
    /// Too much other data is in transit.
    NoRoom,
}

async fn read(mut body: FromOrigin, limit: usize, room: &Arc<Room>) -> hyper::Result<Read> {
    let expected = body.size_hint().lower() as usize;
    let Some(mut counted) = room.whole(expected) else {
        return Ok(Read::InPart(Resumed { read: Vec::new(), rest: body }, Why::NoRoom));
    };
    let mut bytes = Vec::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let length = bytes.len() + data.len();
        let capacity = length.max(2 * bytes.capacity()).min(limit + data.len());
        let has_room = length <= bytes.capacity() || counted.grow_to(capacity);
        if length > bytes.capacity() && has_room {
            bytes.reserve_exact(capacity - bytes.len());
        }
        if length > limit || !has_room {
            let why = if has_room { Why::TooLong } else { Why::NoRoom };
            let read = vec![data, counted.keeps(bytes)];
            return Ok(Read::InPart(Resumed { read, rest: body }, why));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Read::Whole(counted.keeps(bytes)))
}
