//! Which headers of a client's request its origin is shown: the table.
//!
//! An answer is stored under the site, the host, the target and what `Vary` names, so whatever else
//! the origin looks at must not be a client's to choose. Headers by which proxies tell origins of
//! the client, the host, the scheme, the path or the method are therefore never a client's.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::headers::end_to_end;

/// Handling of a request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The edge sets it; the client's value counts only where it is checked.
    Set,
    /// It ends at the edge.
    Dropped,
    /// It ends at the edge in a `GET` or `HEAD`, whose answers may be shared; otherwise it passes.
    DroppedFromReads,
    /// It goes on as it came. The origin names it in `Vary`, or its answer does not depend on it.
    Passed,
}

/// The table. Headers of one connection ([`end_to_end`]) end here before it is asked.
#[must_use]
pub fn treatment(name: &HeaderName) -> Treatment {
    use Treatment::{Dropped, DroppedFromReads, Passed, Set};
    match name.as_str() {
        // The host of the target, checked and part of the key; what the edge knows of the client;
        // all cookies in one line.
        "host" | "x-forwarded-for" | "x-forwarded-proto" | "cookie" => Set,
        // Another host, port, scheme or path than those of the target.
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
        // Another client than the one that asks.
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
        // Another user: headers by which a proxy in front of an origin names the authenticated
        // user.
        "x-remote-user"
        | "remote-user"
        | "x-authenticated-user"
        | "x-webauth-user"
        | "client-cert"
        | "client-cert-chain" => Dropped,
        // Read by CGI programs as the address of their own proxy (CVE-2016-5385).
        "proxy" => Dropped,
        // Of the client's connection, like those of `end_to_end`: no upgrade goes on, there is no
        // early data, and the edge answers `Expect` itself.
        "http2-settings" | "early-data" | "expect" => Dropped,
        // Another method than the one by which the edge decides.
        "x-http-method-override" | "x-http-method" | "x-method-override" => DroppedFromReads,
        name if DROPPED.iter().any(|prefix| name.starts_with(prefix)) => Dropped,
        // Origins that read headers as environment variables take `_` or `.` for `-`, so that these
        // would be one of those above.
        name if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => Dropped,
        _ => Passed,
    }
}

/// Whole families of them.
const DROPPED: [&str; 5] = ["x-forwarded", "x-original", "x-ssl-", "ssl-client", "x-client-cert"];

/// Headers that the edge adds to a request.
#[derive(Debug, Clone, Copy)]
pub struct Added<'a> {
    /// The host of the target, without port.
    pub host: &'a str,
    /// The address of the client.
    pub client: &'a str,
    /// Its own name for `Via`.
    pub via: &'static str,
}

/// The headers of a request as its origin is to see them; `None` where what is added is no header
/// value.
#[must_use]
pub fn forwarded(method: &Method, headers: &HeaderMap, added: Added<'_>) -> Option<HeaderMap> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let mut headers = end_to_end(headers);
    let cookies: Vec<&[u8]> =
        headers.get_all(header::COOKIE).into_iter().map(HeaderValue::as_bytes).collect();
    // HTTP/2 clients send one line for each cookie; HTTP/1.1 knows one for all (RFC 9113 §8.2.3).
    let cookies = HeaderValue::from_bytes(&cookies.join(b"; ".as_slice())).ok()?;
    let ending: Vec<HeaderName> = headers
        .keys()
        .filter(|name| match treatment(name) {
            Treatment::Set | Treatment::Dropped => true,
            Treatment::DroppedFromReads => is_read,
            Treatment::Passed => false,
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
