//! Which headers are forwarded and which belong to one connection (RFC 9110 §7.6.1).

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{entry::Entry, receiver::Receiver};

/// Headers of one connection, even if `Connection` does not name them.
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

/// Headers by which a client asks for less than the whole response.
const PARTIAL: [HeaderName; 6] = [
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

/// Headers that are always forwarded, even if `Connection` names them: the decisions of caches
/// depend on them.
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

/// The headers of a message that are forwarded beyond the next hop.
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

/// The headers of a request for the whole response, to fill the cache. With the validators of a
/// stored response the origin answers with a new response or with 304.
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
