//! Which headers go on, and which end here (RFC 9110 §7.6.1).

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers of one connection, whether it names them or not.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
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

/// The headers of a message that are meant for whoever is behind the next hop.
#[must_use]
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .into_iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    let kept = headers
        .iter()
        .filter(|(name, _)| !HOP_BY_HOP.contains(name) && !named.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()));
    kept.collect()
}

/// The headers of a request for the whole response, to fill the cache with; with the validators of a
/// stored response, for a new one or "not modified".
#[must_use]
pub fn for_the_origin(request: &HeaderMap, stored: Option<&HeaderMap>) -> HeaderMap {
    let mut headers = end_to_end(request);
    for name in PARTIAL {
        headers.remove(name);
    }
    let validator = |name| stored.and_then(|stored| stored.get(name)).cloned();
    if let Some(tag) = validator(header::ETAG) {
        headers.insert(header::IF_NONE_MATCH, tag);
    }
    if let Some(date) = validator(header::LAST_MODIFIED) {
        headers.insert(header::IF_MODIFIED_SINCE, date);
    }
    headers
}

/// A header value from text of our own.
pub(crate) fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("text of our own is a header value")
}
