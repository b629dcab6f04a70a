//! The names by which the endpoint may be asked.
//!
//! A web page can point a name of its own at this machine's address (DNS rebinding), and its scripts
//! then read and write here as if it were their own server. Its name stands in `Host`.

use std::net::Ipv6Addr;

use hyper::{
    Request,
    header::{HOST, HeaderValue},
};

/// Names besides addresses and `localhost`: the machine's, and those that were configured.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn new(configured: Vec<String>) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let names = configured.into_iter().chain([machine, "localhost".to_owned()]);
        Self(names.map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Was the request meant for this endpoint? What names no host was not sent by a browser.
    pub(super) fn allow<B>(&self, request: &Request<B>) -> bool {
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
