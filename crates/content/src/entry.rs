//! A stored response, and when it answers a request.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};

use crate::{
    age,
    directives::{has, seconds},
    headers::{end_to_end, value},
    key::Selecting,
};

/// A response as it is stored, its body beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, without those of the connection it came on.
    pub headers: HeaderMap,
    /// Which requests it answers.
    pub selecting: Selecting,
    /// When it came, since the Unix epoch.
    pub(crate) received: Duration,
    /// How old it was then.
    pub(crate) initial_age: Duration,
    /// The request carried credentials.
    pub(crate) authorized: bool,
    /// The whole body.
    pub body: Bytes,
}

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotStored {
    /// Its `Cache-Control`, its status, or credentials in the request forbid it.
    #[error("the origin or the request forbids it")]
    Forbidden,
    /// It would be stale at once, and nothing could make it fresh again.
    #[error("neither fresh for a moment nor to be validated")]
    NeverFresh,
    /// It sets a cookie, which is for one client.
    #[error("it sets a cookie")]
    SetsCookie,
    /// `Vary: *`, or a `Vary` that is not understood.
    #[error("nobody can say which requests it answers")]
    VariesByAnything,
}

/// How far a stored response goes for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usable {
    /// It is the answer.
    Fresh,
    /// It is the answer while it is made fresh behind it (`stale-while-revalidate`).
    WhileRevalidating,
    /// The origin must be asked; [`Entry::covers_an_error`] says what if it fails.
    AfterRevalidation,
}

impl Entry {
    /// Judges the answer to a `GET` with these headers, asked for at `asked`.
    ///
    /// # Errors
    /// Why it is not to be stored.
    pub fn admit(
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
        asked: Duration,
        now: Duration,
    ) -> Result<Self, NotStored> {
        if headers.contains_key(header::SET_COOKIE) {
            return Err(NotStored::SetsCookie);
        }
        let entry = Self {
            status,
            selecting: Selecting::of(request, headers).ok_or(NotStored::VariesByAnything)?,
            initial_age: age::initial(headers, asked, now),
            received: now,
            authorized: request.contains_key(header::AUTHORIZATION),
            headers: end_to_end(headers),
            body: Bytes::new(),
        };
        let policy = entry.policy();
        if has(request, "no-store") || !policy.is_storable() {
            return Err(NotStored::Forbidden);
        }
        let lasts = !policy.is_stale(at(now)) || entry.has_validator() || entry.may_go_stale();
        lasts.then_some(entry).ok_or(NotStored::NeverFresh)
    }

    /// The same response after the origin said 304 to its validators (RFC 9111 §4.3.4).
    #[must_use]
    pub fn refreshed(&self, not_modified: &HeaderMap, asked: Duration, now: Duration) -> Self {
        let mut entry = self.clone();
        let mut news = end_to_end(not_modified);
        // It is for the one client whose request made us ask.
        news.remove(header::SET_COOKIE);
        for name in news.keys().filter(|name| !DESCRIBES_THE_BODY.contains(name)) {
            entry.headers.remove(name);
            for value in news.get_all(name) {
                entry.headers.append(name.clone(), value.clone());
            }
        }
        entry.initial_age = age::initial(&news, asked, now);
        entry.received = now;
        entry
    }

    /// May it be stored and shared? A 304 can take that away.
    #[must_use]
    pub fn is_storable(&self) -> bool {
        self.policy().is_storable()
    }

    /// How far it goes for a request with these headers (which it [matches](Selecting::matches)).
    #[must_use]
    pub fn usable(&self, request: &HeaderMap, now: Duration) -> Usable {
        let judged = self.policy().before_request(&asking(request), at(now));
        if let BeforeRequest::Fresh(_) = judged {
            return Usable::Fresh;
        }
        if self.may_be_stale("stale-while-revalidate", request, now) {
            Usable::WhileRevalidating
        } else {
            Usable::AfterRevalidation
        }
    }

    /// Is it an answer although the origin failed at `now`?
    #[must_use]
    pub fn covers_an_error(&self, request: &HeaderMap, now: Duration) -> bool {
        self.may_be_stale("stale-if-error", request, now)
    }

    /// Did origin and client both allow it to be this stale? `s-maxage`, which forbids it too, does
    /// not where the origin allows it by name: RFC 5861 is more explicit.
    fn may_be_stale(&self, allowance: &str, request: &HeaderMap, now: Duration) -> bool {
        let forbidden = ["must-revalidate", "proxy-revalidate", "no-cache"];
        let limit = seconds(&self.headers, allowance);
        !forbidden.iter().any(|name| has(&self.headers, name))
            && !demands(request)
            && limit.is_some_and(|limit| self.staleness(now) < limit)
    }

    /// Its age at `now`.
    #[must_use]
    pub fn age(&self, now: Duration) -> Duration {
        self.initial_age + now.saturating_sub(self.received)
    }

    /// Its headers as they are sent at `now`: with the `Age` of RFC 9111 §5.1.
    #[must_use]
    pub fn headers_at(&self, now: Duration) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header::AGE, value(&self.age(now).as_secs().to_string()));
        if !headers.contains_key(header::DATE) {
            headers.insert(header::DATE, value(&age::date(self.received)));
        }
        headers
    }

    /// How long from `now` on it can be of use: fresh, stale but allowed, or at least as something to
    /// validate.
    #[must_use]
    pub fn useful_for(&self, now: Duration) -> Duration {
        let stale = |name| seconds(&self.headers, name).unwrap_or_default();
        let after = stale("stale-while-revalidate").max(stale("stale-if-error"));
        let validated = if self.has_validator() { VALIDATOR_KEPT } else { Duration::ZERO };
        self.policy().time_to_live(at(now)) + after.max(validated)
    }

    /// What can be shown to the origin, to hear that nothing changed.
    #[must_use]
    pub fn has_validator(&self) -> bool {
        self.headers.contains_key(header::ETAG) || self.headers.contains_key(header::LAST_MODIFIED)
    }

    fn may_go_stale(&self) -> bool {
        ["stale-while-revalidate", "stale-if-error"].iter().any(|name| has(&self.headers, name))
    }

    /// How long it has been stale at `now`.
    fn staleness(&self, now: Duration) -> Duration {
        // The policy says how long it stays fresh, so ask it as if it had just been made.
        let lifetime = self.policy_at_age(Duration::ZERO).time_to_live(at(self.received));
        self.age(now).saturating_sub(lifetime)
    }

    /// What `http-cache-semantics` judges by, and nothing else: it keeps one line of each header, and
    /// compares directives by case.
    fn policy(&self) -> CachePolicy {
        self.policy_at_age(self.initial_age)
    }

    fn policy_at_age(&self, age_at_receipt: Duration) -> CachePolicy {
        let mut request = HeaderMap::new();
        if self.authorized {
            request.insert(header::AUTHORIZATION, value("present"));
        }
        let mut headers = HeaderMap::new();
        let names = [header::CACHE_CONTROL, header::PRAGMA, header::EXPIRES, header::DATE];
        for name in names.into_iter().chain([header::LAST_MODIFIED]) {
            let lines =
                self.headers.get_all(&name).into_iter().filter_map(|line| line.to_str().ok());
            let text = lines.collect::<Vec<_>>().join(", ");
            let written = match age::since_epoch(&text) {
                Some(since) => age::date(since),
                None => text.to_ascii_lowercase(),
            };
            if !written.is_empty() {
                headers.insert(name, value(&written));
            }
        }
        headers.insert(header::AGE, value(&age_at_receipt.as_secs().to_string()));
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        let options = CacheOptions { shared: true, ..CacheOptions::default() };
        CachePolicy::new_options(&asking(&request), &response, at(self.received), options)
    }
}

/// A validator is kept this long beyond freshness: asking costs less than fetching.
const VALIDATOR_KEPT: Duration = Duration::from_secs(24 * 3600);

/// What a 304 must not change, because the body stays.
const DESCRIBES_THE_BODY: [header::HeaderName; 4] =
    [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE, header::CONTENT_TYPE];

/// The client wants it fresher than the origin promised.
fn demands(request: &HeaderMap) -> bool {
    ["no-cache", "max-age", "min-fresh"].iter().any(|name| has(request, name))
        || (!request.contains_key(header::CACHE_CONTROL) && request.contains_key(header::PRAGMA))
}

/// A request as the policy looks at it: the target is the key's business.
fn asking(request: &HeaderMap) -> request::Parts {
    let mut parts =
        Request::builder().method(Method::GET).uri("/").body(()).expect("plain").into_parts().0;
    for name in [header::CACHE_CONTROL, header::PRAGMA, header::AUTHORIZATION] {
        let lines = request.get_all(&name).into_iter().filter_map(|line| line.to_str().ok());
        let text = lines.collect::<Vec<_>>().join(", ").to_ascii_lowercase();
        if !text.is_empty() {
            parts.headers.insert(name, value(&text));
        }
    }
    parts
}

fn at(since_epoch: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + since_epoch
}
