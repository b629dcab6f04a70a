//! A stored response: which responses may be stored, and for how long they are fresh.
//!
//! Code outside this crate cannot read an entry; [`Entry::release`] is its only way to a client.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::{
    age::{self, OLDEST, dates},
    directives::Directives,
    headers::{end_to_end, value},
    key::Selecting,
    receiver::Receiver,
};

/// A response as it is stored, its body beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub(crate) status: StatusCode,
    /// Without the headers of the connection it was received on.
    pub(crate) headers: HeaderMap,
    /// Which requests it answers.
    pub(crate) selecting: Selecting,
    /// Time of receipt, since the Unix epoch, in whole milliseconds as it is stored.
    pub(crate) received: Duration,
    /// Age when it was received.
    pub(crate) initial_age: Duration,
    /// The request carried `Authorization`.
    pub(crate) authorized: bool,
    /// The request carried `Cookie`.
    pub(crate) with_cookie: bool,
    /// The whole body.
    pub(crate) body: Bytes,
}

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotStored {
    /// Its `Cache-Control`, its status, or credentials in the request forbid it.
    #[error("the response or the request forbids storing (Cache-Control, Authorization)")]
    Forbidden,
    /// A `Cache-Control` line does not match the grammar, so it may forbid storing.
    #[error("its Cache-Control is not a valid list of directives")]
    Unreadable,
    /// It would be stale at once, and has no validator to make it fresh again.
    #[error("it is neither fresh for any time nor has a validator")]
    NeverFresh,
    /// It sets a cookie, which belongs to one client.
    #[error("it sets a cookie")]
    SetsCookie,
    /// `Vary: *`, or a `Vary` that cannot be read.
    #[error("its Vary header is `*` or invalid, so the requests it applies to are unknown")]
    VariesByAnything,
}

/// Result of a 304 for a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refreshed {
    /// It is fresh again.
    Storable(Entry),
    /// It is correct for the client that asked, but may no longer be stored or shared.
    Personal(Entry),
    /// The 304 refers to another response.
    Another,
}

impl Entry {
    /// Decides whether the response to a `GET` of this receiver, sent at `asked`, is stored.
    ///
    /// # Errors
    /// Why it is not stored.
    pub fn admit(
        request: &Receiver,
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
            received: milliseconds(now),
            authorized: request.headers.contains_key(header::AUTHORIZATION),
            with_cookie: request.has_cookie(),
            headers: end_to_end(headers),
            body: Bytes::new(),
        };
        let said = entry.said();
        if said.unreadable {
            return Err(NotStored::Unreadable);
        }
        if request.said.no_store || !entry.is_storable(&said) {
            return Err(NotStored::Forbidden);
        }
        let goes_stale = said.stale_while_revalidate.max(said.stale_if_error).is_some();
        let lasts = entry.is_fresh(&said, now) || entry.has_validator() || goes_stale;
        lasts.then_some(entry).ok_or(NotStored::NeverFresh)
    }

    /// The same with its body.
    #[must_use]
    pub fn with_body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// The same response after the origin answered 304 to its validators in a request of this
    /// receiver (RFC 9111 §4.3.4).
    #[must_use]
    pub fn refreshed(
        &self,
        request: &Receiver,
        not_modified: &HeaderMap,
        asked: Duration,
        now: Duration,
    ) -> Refreshed {
        if !self.is_meant_by(not_modified) {
            return Refreshed::Another;
        }
        let mut entry = self.clone();
        let mut news = end_to_end(not_modified);
        // The cookie is only for the client whose request began the fetch.
        news.remove(header::SET_COOKIE);
        for name in news.keys().filter(|name| !DESCRIBES_THE_BODY.contains(name)) {
            entry.headers.remove(name);
            for value in news.get_all(name) {
                entry.headers.append(name.clone(), value.clone());
            }
        }
        entry.initial_age = age::initial(&news, asked, now);
        entry.received = milliseconds(now);
        entry.authorized |= request.headers.contains_key(header::AUTHORIZATION);
        entry.with_cookie |= request.has_cookie();
        // `Vary` may name more headers than before.
        let Some(selecting) = Selecting::of(request, &entry.headers) else {
            return Refreshed::Personal(entry);
        };
        entry.selecting = selecting;
        let storable = entry.is_storable(&entry.said());
        if storable { Refreshed::Storable(entry) } else { Refreshed::Personal(entry) }
    }

    /// Returns whether it is the variant for this request.
    #[must_use]
    pub fn answers(&self, request: &Receiver) -> bool {
        self.selecting.matches(request)
    }

    /// Which requests it answers.
    #[must_use]
    pub fn selecting(&self) -> &Selecting {
        &self.selecting
    }

    /// Returns how long after `now` it can be used: fresh, stale where that is allowed, or for
    /// revalidation.
    #[must_use]
    pub fn useful_for(&self, now: Duration) -> Duration {
        let said = self.said();
        let stale = said.stale_while_revalidate.max(said.stale_if_error).unwrap_or_default();
        let validated = if self.has_validator() { VALIDATOR_KEPT } else { Duration::ZERO };
        self.lifetime(&said).saturating_sub(self.age(now)) + stale.max(validated)
    }

    /// Validators for a conditional request to the origin. A date is no validator if the request
    /// had a cookie: the pages of two users often have the same date.
    #[must_use]
    pub fn has_validator(&self) -> bool {
        self.headers.contains_key(header::ETAG) || self.dated().is_some()
    }

    /// Its `Last-Modified`, where that is a validator.
    pub(crate) fn dated(&self) -> Option<&HeaderValue> {
        self.headers.get(header::LAST_MODIFIED).filter(|_| !self.with_cookie)
    }

    /// Its headers as sent at `now`, with the `Age` of RFC 9111 §5.1.
    pub(crate) fn headers_at(&self, now: Duration) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header::AGE, self.age(now).as_secs().into());
        if !headers.contains_key(header::DATE) {
            headers.insert(header::DATE, value(&age::date(self.received)));
        }
        headers
    }

    pub(crate) fn said(&self) -> Directives {
        Directives::of(&self.headers)
    }

    /// Its age at `now`; unknown, and therefore the greatest, if the clock was set back to before
    /// it was received.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        let is_known = self.received <= now + CLOCKS_DIFFER;
        self.initial_age + if is_known { now.saturating_sub(self.received) } else { OLDEST }
    }

    pub(crate) fn is_fresh(&self, said: &Directives, now: Duration) -> bool {
        self.age(now) < self.lifetime(said)
    }

    /// RFC 9111 §4.2.1, and §4.2.2 if it cannot depend on a client's cookie.
    pub(crate) fn lifetime(&self, said: &Directives) -> Duration {
        if said.no_cache {
            return Duration::ZERO;
        }
        let said = said.s_maxage.or(said.max_age);
        said.or_else(|| self.expires_after()).unwrap_or_else(|| self.guessed())
    }

    /// The value of `Expires`. Of several, one that is no date counts, otherwise the earliest.
    fn expires_after(&self) -> Option<Duration> {
        let earliest = dates(&self.headers, &header::EXPIRES).min()?;
        Some(earliest.unwrap_or_default().saturating_sub(self.date()))
    }

    /// A tenth of the time since it was changed, a day at most.
    fn guessed(&self) -> Duration {
        let modified = dates(&self.headers, &header::LAST_MODIFIED).max().flatten();
        let may_guess = !self.with_cookie && BY_DEFAULT.contains(&self.status.as_u16());
        let since = modified.filter(|_| may_guess).map(|at| self.date().saturating_sub(at));
        (since.unwrap_or_default() / 10).min(GUESSED_MAX)
    }

    /// Returns the time at which the origin generated it: its `Date`, or else when it was received.
    fn date(&self) -> Duration {
        dates(&self.headers, &header::DATE).flatten().max().unwrap_or(self.received)
    }

    /// RFC 9111 §3, for a shared cache.
    fn is_storable(&self, said: &Directives) -> bool {
        let status = self.status.as_u16();
        let explicit = said.max_age.or(said.s_maxage).is_some()
            || said.public
            || self.headers.contains_key(header::EXPIRES);
        !said.no_store
            && !said.private
            && (!self.authorized || said.public || said.must_revalidate || said.s_maxage.is_some())
            && (BY_DEFAULT.contains(&status) || explicit && IF_SAID.contains(&status))
    }

    /// Returns whether a 304 with these headers refers to this response (RFC 9111 §4.3.4).
    fn is_meant_by<'a>(&'a self, not_modified: &'a HeaderMap) -> bool {
        let tag = |headers: &'a HeaderMap| headers.get(header::ETAG).map(opaque);
        let modified = |headers: &'a HeaderMap| headers.get(header::LAST_MODIFIED);
        match (tag(not_modified), modified(not_modified)) {
            (Some(named), _) => tag(&self.headers).is_some_and(|own| own == named),
            (None, Some(at)) => modified(&self.headers).is_none_or(|own| own == at),
            (None, None) => true,
        }
    }
}

fn milliseconds(time: Duration) -> Duration {
    Duration::new(time.as_secs(), time.subsec_millis() * 1_000_000)
}

/// An entity tag without its mark of weakness.
fn opaque(tag: &HeaderValue) -> &[u8] {
    let tag = tag.as_bytes();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// An entry with a validator is kept for this time after it becomes stale: revalidating costs less
/// than fetching.
const VALIDATOR_KEPT: Duration = Duration::from_secs(24 * 3600);
/// The clocks of edges that share a database differ by no more.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);
/// Maximum heuristic freshness.
const GUESSED_MAX: Duration = Duration::from_secs(24 * 3600);

/// Statuses that may be stored by default (RFC 9110 §15.1), except 206, which is incomplete.
const BY_DEFAULT: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
/// Further statuses that may be stored if the origin states for how long.
const IF_SAID: [u16; 3] = [302, 303, 307];

/// Headers that a 304 must not change, because the body stays the same.
const DESCRIBES_THE_BODY: [header::HeaderName; 4] =
    [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE, header::CONTENT_TYPE];
