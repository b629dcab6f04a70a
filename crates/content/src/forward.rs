//! Table of the request headers that are forwarded to the origin.
//!
//! A response is stored under the site, the host, the target and the headers in `Vary`, so a client
//! must not be able to choose anything else that the origin may use. Headers by which proxies state
//! the client, host, scheme, path or method are therefore never accepted from a client.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::headers::end_to_end;

/// Handling of a request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The edge sets it; a client's value is used only if it was checked.
    Set,
    /// It is dropped.
    Dropped,
    /// It is dropped from a `GET` or `HEAD`, whose response may be shared; otherwise it passes.
    DroppedFromReads,
    /// It passes unchanged. The origin names it in `Vary`, or its response does not depend on it.
    Passed,
}

/// The table. Headers of one connection have already been removed ([`end_to_end`]).
#[must_use]
pub fn treatment(name: &HeaderName) -> Treatment {
    use Treatment::{Dropped, DroppedFromReads, Passed, Set};
    match name.as_str() {
        // The host of the target, which is checked and part of the key; the client's address and
        // scheme; all cookies in one line.
        "host" | "x-forwarded-for" | "x-forwarded-proto" | "cookie" => Set,
        // They could name another host, port, scheme or path than those of the target.
        "forwarded"
        | "x-host"
        | "x-http-host-override"
        | "x-rewrite-url"
        | "x-scheme"
        | "x-url-scheme"
        | "front-end-https"
        | "x-proxy-url"
        | "x-envoy-original-path"
        | "x-envoy-original-host"
        | "x-arr-ssl" => Dropped,
        // They could name another client.
        "x-real-ip"
        | "x-client-ip"
        | "x-cluster-client-ip"
        | "true-client-ip"
        | "client-ip"
        | "x-remote-ip"
        | "x-remote-addr"
        | "x-originating-ip"
        | "x-proxyuser-ip"
        | "cf-connecting-ip"
        | "cf-connecting-ipv6"
        | "fastly-client-ip"
        | "x-envoy-external-address"
        | "x-appengine-user-ip"
        | "x-azure-clientip" => Dropped,
        // They could name another user: by these headers a proxy in front of an origin states the
        // authenticated user.
        "x-remote-user"
        | "remote-user"
        | "x-authenticated-user"
        | "x-webauth-user"
        | "client-cert"
        | "client-cert-chain" => Dropped,
        // CGI programs read it as the address of their own proxy (CVE-2016-5385).
        "proxy" => Dropped,
        // They belong to the client's connection, like those of `end_to_end`: upgrades are not
        // forwarded, there is no early data, and the edge answers `Expect` itself.
        "http2-settings" | "early-data" | "expect" => Dropped,
        // They could name another method than the one the edge sees.
        "x-http-method-override" | "x-http-method" | "x-method-override" => DroppedFromReads,
        name if DROPPED.iter().any(|prefix| name.starts_with(prefix)) => Dropped,
        // Origins that read headers as environment variables treat `_` and `.` like `-`, so such a
        // name could stand for one of those above.
        name if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => Dropped,
        _ => Passed,
    }
}

/// Prefixes of headers that are dropped.
const DROPPED: [&str; 5] = ["x-forwarded", "x-original", "x-ssl-", "ssl-client", "x-client-cert"];

/// A `HEAD` is about the whole, whatever part it asks for (RFC 9110 §14.2).
const OF_A_PART: [HeaderName; 2] = [header::RANGE, header::IF_RANGE];

/// Headers that the edge adds to a request.
#[derive(Debug, Clone, Copy)]
pub struct Added<'a> {
    /// The host of the target, without port.
    pub host: &'a str,
    /// The address of the client.
    pub client: &'a str,
    /// The name of the edge in `Via`.
    pub via: &'static str,
}

/// The headers of a request as forwarded to its origin; `None` if an added value is no valid header
/// value.
#[must_use]
pub fn forwarded(method: &Method, headers: &HeaderMap, added: Added<'_>) -> Option<HeaderMap> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let mut headers = end_to_end(headers);
    let cookies: Vec<&[u8]> =
        headers.get_all(header::COOKIE).into_iter().map(HeaderValue::as_bytes).collect();
    // HTTP/2 clients send one line for each cookie; HTTP/1.1 has one line for all (RFC 9113
    // §8.2.3).
    let cookies = HeaderValue::from_bytes(&cookies.join(b"; ".as_slice())).ok()?;
    let ending: Vec<HeaderName> = headers
        .keys()
        .filter(|name| match treatment(name) {
            Treatment::Set | Treatment::Dropped => true,
            Treatment::DroppedFromReads => is_read,
            Treatment::Passed => *method == Method::HEAD && OF_A_PART.contains(name),
        })
        .cloned()
        .collect();
    for name in ending {
        headers.remove(name);
    }
    headers.insert(header::HOST, HeaderValue::from_str(added.host).ok()?);
    let client = HeaderValue::from_str(added.client).ok()?;
    headers.insert(HeaderName::from_static("x-forwarded-for"), client);
    let proto = HeaderName::from_static("x-forwarded-proto");
    headers.insert(proto, HeaderValue::from_static("https"));
    if !cookies.is_empty() {
        headers.insert(header::COOKIE, cookies);
    }
    headers.append(header::VIA, HeaderValue::from_static(added.via));
    Some(headers)
}

/// A request that cannot be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unforwardable {
    /// Its body has a transfer coding that cannot be forwarded.
    #[error("expected the transfer coding chunked")]
    Coding,
    /// It has passed a cache of this name more than [`HOPS_MAX`] times.
    #[error("the request has passed this edge before (Via)")]
    Loop,
}

/// Maximum number of caches of this name that a request may have passed; above it, a loop is
/// assumed.
const HOPS_MAX: usize = 8;

/// Whether a request with these headers can be forwarded by the cache whose name in `Via` is `via`.
///
/// # Errors
/// Why it cannot be forwarded.
pub fn check_framing(headers: &HeaderMap, via: &str) -> Result<(), Unforwardable> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let is_plain = codings.next().is_none_or(is_chunked) && codings.next().is_none();
    if !is_plain {
        return Err(Unforwardable::Coding);
    }
    let lines = headers.get_all(header::VIA).into_iter();
    let hops = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    if hops.filter(|hop| hop.trim_ascii() == via.as_bytes()).count() >= HOPS_MAX {
        return Err(Unforwardable::Loop);
    }
    Ok(())
}

/// Why a response cannot be passed on: its connection was upgraded, or its body has a transfer
/// coding that cannot be forwarded.
#[must_use]
pub fn unusable_answer(status: StatusCode, headers: &HeaderMap) -> Option<&'static str> {
    if status.is_informational() {
        return Some("an interim status");
    }
    let coded = !headers.get_all(header::TRANSFER_ENCODING).into_iter().all(is_chunked);
    coded.then_some("a transfer coding other than chunked")
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().eq_ignore_ascii_case(b"chunked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc9111::headers;

    #[test]
    fn codings_other_than_chunked_and_loops_are_not_forwarded() {
        let check = |lines: &[&str]| check_framing(&headers(lines), "1.1 enroute");
        let (via, seven) = (
            "via: 1.1 enroute",
            "via: 1.1 enroute, 1.1 enroute ,1.1 enroute,1.1 \
                             enroute,1.1 enroute,1.1 enroute,1.1 enroute, 1.1 other",
        );
        let coding = Err(Unforwardable::Coding);
        assert_eq!(check(&["transfer-encoding: Chunked", seven]), Ok(()));
        assert_eq!(check(&["transfer-encoding: gzip, chunked"]), coding);
        assert_eq!(check(&["transfer-encoding: chunked", "transfer-encoding: chunked"]), coding);
        assert_eq!(check(&[via, seven]), Err(Unforwardable::Loop));
    }

    #[test]
    fn an_answer_is_whole_and_not_coded_for_one_connection() {
        let unusable = |status, lines: &[&str]| unusable_answer(status, &headers(lines));
        assert_eq!(unusable(StatusCode::OK, &["transfer-encoding: CHUNKED"]), None);
        assert!(unusable(StatusCode::OK, &["transfer-encoding: gzip"]).is_some());
        assert!(unusable(StatusCode::SWITCHING_PROTOCOLS, &[]).is_some());
    }
}
