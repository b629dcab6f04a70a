//! Valid host names of an HTTP endpoint, and the browser requests that it rejects.
//!
//! A web page can point a name of its own at this machine's address (DNS rebinding), and its
//! scripts then read and write here as if it were their own server. Such a request has the page's
//! name in `Host`. Without rebinding, a page can still send a `POST`, with the page's address in
//! `Origin`.

use std::net::Ipv6Addr;

use hyper::{
    Method, Request, StatusCode,
    header::{HOST, HeaderMap, HeaderValue, ORIGIN},
};

/// Names besides addresses and `localhost`: the machine's, and those that were configured.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn new(configured: Vec<String>) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let names = configured.into_iter().chain([machine, "localhost".to_owned()]);
        Self(names.map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Why a request is refused that a browser may have sent for a page of another server; none if
    /// it may be answered.
    pub(super) fn refusal<B>(&self, request: &Request<B>) -> Option<(StatusCode, &'static str)> {
        const NAME: &str = "the Host header is not a name of this endpoint; use its IP address, or add the name \
                            (`names` of [admin], or --name)";
        const PAGE: &str = "the request was sent by a page of another origin; only the page of \
                            this endpoint may send it";
        if !self.allow(request) {
            return Some((StatusCode::MISDIRECTED_REQUEST, NAME));
        }
        let changes = request.method() == Method::POST && is_from_elsewhere(request.headers());
        changes.then_some((StatusCode::FORBIDDEN, PAGE))
    }

    /// Whether the request is for this endpoint. A request without `Host` is not from a browser.
    fn allow<B>(&self, request: &Request<B>) -> bool {
        let mut hosts = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
        let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        hosts.all(|host| self.allows(host)) && target.is_none_or(|host| self.allows(host))
    }

    fn allows(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split_once(']').map(|(address, _)| address);
            return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        name.parse::<std::net::Ipv4Addr>().is_ok()
            || name.ends_with(".localhost")
            || self.0.iter().any(|own| own == name)
    }
}

/// Whether a browser sent this for a page of another origin. Such a page can reach a loopback
/// address although its author cannot.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = origin.as_bytes().strip_prefix(b"http://");
    host.is_none() || host != headers.get(HOST).map(HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn addresses_and_own_names_are_allowed() {
        let names = Names::new(vec!["Cache.Example".to_owned()]);
        let own = ["127.0.0.1", "10.1.2.3:9900", "[::1]:9900", "localhost:1", "a.localhost"];
        for host in own.into_iter().chain(["LOCALHOST.", "cache.example:9900"]) {
            assert!(names.allows(host.as_bytes()), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:9900", "localhost.evil", "", "[::1"] {
            assert!(!names.allows(host.as_bytes()), "{host}");
        }
    }
}
