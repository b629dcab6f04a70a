//! The address of several memcached servers that share the keys.

use std::fmt;

/// Several memcached servers, each of which has a part of the keys:
/// `HOST:PORT:WEIGHT=NAME,…/?hash=HASH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// The servers, at least two.
    pub servers: Vec<Server>,
    /// Hash of keys.
    pub hash: KeyHash,
}

/// One of several memcached servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `host:port`.
    pub host_port: String,
    /// Its share of the keys, relative to those of the others.
    pub weight: u32,
    /// What its place among the keys depends on: libmemcached and twemproxy use `host:port`,
    /// without the port if it is 11211, unless a name is given.
    pub name: String,
}

/// Hash of keys, by the name that twemproxy gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyHash {
    /// `fnv1a_64`
    #[default]
    Fnv1a64,
    /// `md5`
    Md5,
    /// `one_at_a_time`
    OneAtATime,
}

/// Their names in an address.
const HASHES: [(&str, KeyHash); 3] =
    [("fnv1a_64", KeyHash::Fnv1a64), ("md5", KeyHash::Md5), ("one_at_a_time", KeyHash::OneAtATime)];

/// The port without which libmemcached names a server.
const PORT: u16 = 11211;
/// Maximum number of servers.
const SERVERS_MAX: usize = 1_024;
/// Longest name; twemproxy cuts longer ones.
const NAME_BYTES_MAX: usize = 64;
/// Largest weight.
const WEIGHT_MAX: u32 = 65_535;

impl Servers {
    /// Reads what follows `memcached://`: the servers, and what follows `?`.
    pub(super) fn parse(place: &str, options: &str) -> Result<Self, String> {
        let mut hash = KeyHash::default();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let known = |value| HASHES.into_iter().find(|(name, _)| *name == value);
            hash = match option.split_once('=') {
                Some(("hash", value)) => {
                    let found = known(value);
                    found.ok_or_else(|| format!("has {option}, expected {}", names()))?.1
                }
                _ => return Err(format!("has the option {option}, expected hash={}", names())),
            };
        }
        let servers: Vec<_> = place.split(',').map(Server::parse).collect::<Result<_, _>>()?;
        if !(2..=SERVERS_MAX).contains(&servers.len()) {
            return Err(format!(
                "names {} servers, expected at least 2, at most {SERVERS_MAX}",
                servers.len()
            ));
        }
        for (at, server) in servers.iter().enumerate() {
            let mut earlier = servers[..at].iter();
            if earlier.any(|one| one.name == server.name || one.host_port == server.host_port) {
                return Err(format!("names {server} twice"));
            }
        }
        Ok(Self { servers, hash })
    }
}

fn names() -> String {
    HASHES.map(|(name, _)| name).join(", ")
}

impl Server {
    /// Reads `HOST[:PORT[:WEIGHT]][=NAME]`.
    fn parse(text: &str) -> Result<Self, String> {
        let (place, name) = match text.split_once('=') {
            Some((place, name)) => (place, Some(name)),
            None => (text, None),
        };
        let after_host = place.find(']').map_or(0, |end| end + 1);
        let end = place[after_host..].find(':').map_or(place.len(), |colon| after_host + colon);
        let (host, rest) = place.split_at(end);
        let mut numbers = rest.strip_prefix(':').map(|rest| rest.split(':')).into_iter().flatten();
        let port = numbers.next().map_or(Ok(PORT), str::parse);
        let weight = numbers.next().map_or(Ok(1), str::parse);
        let (Ok(port), Ok(weight @ 1..=WEIGHT_MAX), None) = (port, weight, numbers.next()) else {
            return Err(format!(
                "has {text}, expected HOST[:PORT[:WEIGHT]][=NAME], WEIGHT from 1 to {WEIGHT_MAX}"
            ));
        };
        if host.is_empty() || host.contains(['/', '?']) {
            return Err(format!("has {text}, expected HOST[:PORT[:WEIGHT]][=NAME]"));
        }
        let is_valid = |byte: u8| byte.is_ascii_graphic() && !b",/?=&".contains(&byte);
        let name = match name {
            Some(name) if (1..=NAME_BYTES_MAX).contains(&name.len()) => name.to_owned(),
            Some(name) => {
                return Err(format!("has the name {name:?}, expected 1 to {NAME_BYTES_MAX} bytes"));
            }
            None if host.starts_with('[') => {
                return Err(format!("has {text}, expected =NAME after the address of IPv6"));
            }
            None => default_name(host, port),
        };
        if !name.bytes().all(is_valid) {
            return Err(format!(
                "has the name {name:?}, expected printable ASCII without , / ? = &"
            ));
        }
        Ok(Self { host_port: format!("{host}:{port}"), weight, name })
    }
}

fn default_name(host: &str, port: u16) -> String {
    match port {
        PORT => host.to_owned(),
        port => format!("{host}:{port}"),
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host_port, weight, name } = self;
        out.write_str(host_port)?;
        if *weight != 1 {
            write!(out, ":{weight}")?;
        }
        let (host, port) = host_port.rsplit_once(':').unwrap_or((host_port, ""));
        match port.parse().map(|port| default_name(host, port)) {
            Ok(default) if default == *name => Ok(()),
            _ => write!(out, "={name}"),
        }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, server) in self.servers.iter().enumerate() {
            write!(out, "{}{server}", if number > 0 { "," } else { "" })?;
        }
        match HASHES.iter().find(|(_, hash)| *hash == self.hash) {
            Some((name, hash)) if *hash != KeyHash::default() => write!(out, "/?hash={name}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyHash, Server};
    use crate::address::{Address, FoundBy};

    #[test]
    fn several_memcacheds_have_weights_and_names() {
        let read = |text: &str| {
            let address: Address = text.parse().expect(text);
            let Some(FoundBy::Servers(found)) = address.found_by.clone() else {
                panic!("{address}")
            };
            (address.to_string(), found)
        };
        let (shown, found) = read("memcached://a,b:1,c:11211:3,d:2:1=four,[::1]:5=v6/");
        assert_eq!(shown, "memcached://a:11211,b:1,c:11211:3,d:2=four,[::1]:5=v6");
        let parts = |server: &Server| (server.name.clone(), server.weight);
        let parts: Vec<_> = found.servers.iter().map(parts).collect();
        let expected = [("a", 1), ("b:1", 1), ("c", 3), ("four", 1), ("v6", 1)];
        assert_eq!(parts, expected.map(|(name, weight)| (name.to_owned(), weight)));
        assert_eq!(found.hash, KeyHash::Fnv1a64);
        assert_eq!(read(&shown), (shown.clone(), found));
        let (shown, found) = read("memcached://a,b/?hash=md5");
        assert_eq!(
            (shown.as_str(), found.hash),
            ("memcached://a:11211,b:11211/?hash=md5", KeyHash::Md5)
        );
        for (text, why) in [
            ("memcached://a,a:11211", "names a:11211 twice"),
            ("memcached://a=n,b=n", "names b:11211=n twice"),
            ("memcached://a,", "expected HOST[:PORT[:WEIGHT]][=NAME]"),
            ("memcached://a,b:x", "expected HOST[:PORT[:WEIGHT]][=NAME]"),
            ("memcached://a,b:1:0", "WEIGHT from 1 to 65535"),
            ("memcached://a,b:1:1:1", "expected HOST[:PORT[:WEIGHT]][=NAME]"),
            ("memcached://a,[::1]:5", "expected =NAME after the address of IPv6"),
            ("memcached://a,b=", "expected 1 to 64 bytes"),
            ("memcached://a,b=c d", "printable ASCII"),
            ("memcached://a,b/c", "expected HOST[:PORT[:WEIGHT]][=NAME]"),
            ("memcached://a,b/?hash=crc", "expected fnv1a_64, md5, one_at_a_time"),
            ("memcached://a,b/?distribution=modula", "expected hash=fnv1a_64"),
            ("memcached://a/?hash=md5", "expected at least 2"),
            ("memcached://me@a,b", "contains a password"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
