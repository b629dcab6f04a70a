//! Replies to clients: the headers that say what this cache did (RFC 9110 §7.6.3, RFC 9211).

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, Version, header};

use crate::{end_to_end, release::Released};

/// What this cache did, for diagnosis.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const NAME: &str = "enroute";
/// Name of this cache in `Via`.
pub const VIA: &str = "1.1 enroute";

/// A response with the headers of this cache, without the hop-by-hop headers of the origin.
pub fn finish<B>(mut response: Response<B>, how: &str) -> Response<B> {
    let mut headers = end_to_end(response.headers());
    if let Ok(status) = HeaderValue::from_str(&format!("{NAME}; {how}")) {
        headers.append(CACHE_STATUS, status);
    }
    headers.append(header::VIA, HeaderValue::from_static(VIA));
    *response.headers_mut() = headers;
    *response.version_mut() = Version::HTTP_11;
    response
}

/// A response released for a request.
#[must_use]
pub fn respond(released: Released, how: &str) -> Response<Bytes> {
    let mut response = Response::new(released.body);
    (*response.status_mut(), *response.headers_mut()) = (released.status, released.headers);
    finish(response, how)
}

/// The refusal of a request, with the reason as text.
#[must_use]
pub fn refuse(status: StatusCode, why: &str) -> Response<Bytes> {
    let text = format!("{status}: {why}\n");
    let length = text.len();
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    finish(response, "fwd=bypass; detail=refused")
}
