//! Which headers go on, and which end here (RFC 9110 §7.6.1).

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{entry::Entry, receiver::Receiver};

/// Headers of one connection, whether it names them or not.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers by which a client asks for less than the whole.
const PARTIAL: [HeaderName; 6] = [
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

/// Headers that are never of one connection, regardless of `Connection`: those by which caches
/// decide.
const OF_ALL: [HeaderName; 9] = [
    header::AGE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::COOKIE,
    header::DATE,
    header::EXPIRES,
    header::PRAGMA,
    header::SET_COOKIE,
    header::VARY,
];

/// The headers of a message that are meant for whatever is behind the next hop.
#[must_use]
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .into_iter()
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !OF_ALL.contains(name))
        .collect();
    let kept = headers
        .iter()
        .filter(|(name, _)| !HOP_BY_HOP.contains(name) && !named.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()));
    kept.collect()
}

/// The headers of a request for the whole response, to fill the cache with; with the validators of
/// a stored response, for a new one or "not modified".
#[must_use]
pub fn for_the_origin(request: &Receiver, stored: Option<&Entry>) -> HeaderMap {
    let mut headers = request.headers.clone();
    for name in PARTIAL {
        headers.remove(name);
    }
    if let Some(tag) = stored.and_then(|stored| stored.headers.get(header::ETAG)) {
        headers.insert(header::IF_NONE_MATCH, tag.clone());
    }
    if let Some(date) = stored.and_then(Entry::dated) {
        headers.insert(header::IF_MODIFIED_SINCE, date.clone());
    }
    headers
}

/// A header value from text of our own.
pub(crate) fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("text of our own is a header value")
}
