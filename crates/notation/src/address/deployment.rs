//! The address of a MongoDB deployment: a replica set, or the mongos of a sharded cluster.

use std::fmt;

use super::{Address, AddressTls, Scheme, tls, with_port};

/// A deployment whose members say what they are: `HOST,HOST/?replicaSet=NAME`, or `MONGOS,MONGOS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Members to begin with, each `host:port`; none if [`Self::domain`] names them.
    pub seeds: Vec<String>,
    /// Domain whose records in DNS name members to begin with.
    pub domain: Option<String>,
    /// Name of the replica set, if the address states it.
    pub replica_set: Option<String>,
    /// A secondary is used, not the primary.
    pub secondary: bool,
}

impl Deployment {
    /// The same for every address of the same members: `host:port,host:port/name`.
    pub(super) fn name(&self) -> String {
        let mut seeds = self.seeds.clone();
        seeds.extend(self.domain.clone());
        seeds.sort();
        let set = self.replica_set.as_ref().map(|name| format!("/{name}"));
        seeds.join(",") + &set.unwrap_or_default()
    }

    /// Writes its address.
    pub(super) fn show(&self, tls: bool, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = [
            self.replica_set.as_ref().map(|name| format!("replicaSet={name}")),
            self.secondary.then(|| "readPreference=secondary".to_owned()),
            (tls && self.domain.is_none()).then(|| "tls=true".to_owned()),
            (!tls && self.domain.is_some()).then(|| "tls=false".to_owned()),
        ];
        let options: Vec<_> = options.into_iter().flatten().collect();
        let mark = if options.is_empty() { "" } else { "/?" };
        let (scheme, place) = match &self.domain {
            Some(domain) => ("mongodb+srv", domain.clone()),
            None => ("mongodb", self.seeds.join(",")),
        };
        write!(out, "{scheme}://{place}{mark}{}", options.join("&"))
    }
}

/// The options of a `mongodb://` address.
pub(super) struct Options {
    /// TLS, if they ask for it.
    pub(super) tls: Option<AddressTls>,
    replica_set: Option<String>,
    secondary: bool,
}

impl Options {
    /// Reads what follows `?`; `default_tls`: whether TLS is used if they do not say.
    pub(super) fn parse(text: &str, default_tls: bool) -> Result<Self, String> {
        let (mut tls, mut replica_set, mut secondary) = (tls::Options::default(), None, false);
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name.to_ascii_lowercase().as_str(), value) {
                ("replicaset", "") => return Err("names no replica set".to_owned()),
                ("replicaset", name) => replica_set = Some(name.to_owned()),
                ("readpreference", "primary") => secondary = false,
                ("readpreference", "secondary") => secondary = true,
                ("readpreference", _) => {
                    return Err(format!("has {option}, expected primary or secondary"));
                }
                (lower, value) if tls.take(lower, value)? => {}
                _ => {
                    return Err(format!(
                        "has the option {name}, expected replicaSet, readPreference, tls, ssl, \
                         tlsCAFile or tlsCertificateKeyFile"
                    ));
                }
            }
        }
        Ok(Self { tls: tls.finish(default_tls)?, replica_set, secondary })
    }

    /// The deployment of the members in `place`; none if it is one server.
    pub(super) fn deployment(self, place: &str) -> Result<Option<Deployment>, String> {
        let Self { replica_set, secondary, .. } = self;
        if secondary && replica_set.is_none() {
            return Err("has readPreference=secondary, expected replicaSet beside it".to_owned());
        }
        if replica_set.is_none() && !place.contains(',') {
            return Ok(None);
        }
        if place == Address::ORIGINAL {
            return Err("names a replica set, but `original` is no member of one".to_owned());
        }
        let with_port = |host| with_port(host, Scheme::Mongodb.port());
        let seeds = place.to_ascii_lowercase();
        let seeds: Vec<String> = seeds.split(',').map(with_port).collect::<Result<_, _>>()?;
        if let Some((_, twice)) =
            seeds.iter().enumerate().find(|(at, seed)| seeds[..*at].contains(seed))
        {
            return Err(format!("names {twice} twice"));
        }
        Ok(Some(Deployment { seeds, domain: None, replica_set, secondary }))
    }

    /// The deployment that the records of `domain` name.
    pub(super) fn by_records(self, domain: &str) -> Result<Deployment, String> {
        let Self { replica_set, secondary, .. } = self;
        if !domain.contains('.') || domain.contains([',', ':', '/', '[']) {
            return Err("is not one DOMAIN, without a port".to_owned());
        }
        let domain = Some(domain.to_ascii_lowercase());
        Ok(Deployment { seeds: Vec::new(), domain, replica_set, secondary })
    }
}

#[cfg(test)]
mod tests {
    use crate::address::{Address, FoundBy};

    #[test]
    fn a_deployment_is_named_by_its_members() {
        let read = |text: &str| {
            let address: Address = text.parse().expect(text);
            let Some(FoundBy::Deployment(found)) = address.found_by.clone() else {
                panic!("{address}")
            };
            (address, found)
        };
        let (address, set) = read("mongodb://B.example,a:1/?replicaSet=rs&tls=true");
        assert_eq!(set.seeds, ["b.example:27017", "a:1"]);
        assert_eq!((set.replica_set.as_deref(), set.secondary), (Some("rs"), false));
        let shown = "mongodb://b.example:27017,a:1/?replicaSet=rs&tls=true";
        assert_eq!((address.to_string().as_str(), address.tls.is_some()), (shown, true));
        // Independent of the order of the members and of the one in use.
        let (other, set) = read("mongodb://a:1,b.example/?replicaSet=rs&readPreference=secondary");
        assert_eq!((other.host_port == address.host_port, set.secondary), (true, true));
        assert!(other.to_string().ends_with("/?replicaSet=rs&readPreference=secondary"));
        let (address, mongos) = read("mongodb://m1,m2/");
        assert_eq!(address.to_string(), "mongodb://m1:27017,m2:27017");
        assert_eq!(mongos.replica_set, None);
        assert_eq!(read("mongodb://a/?replicaset=rs").1.seeds, ["a:27017"]);
        let (address, set) = read("mongodb+srv://Set.example.net/?replicaSet=rs");
        assert_eq!(address.to_string(), "mongodb+srv://set.example.net/?replicaSet=rs");
        assert_eq!((address.tls.is_some(), set.seeds.len()), (true, 0));
        assert_eq!(set.domain.as_deref(), Some("set.example.net"));
        let (address, _) = read("mongodb+srv://set.example.net/?tls=false");
        assert_eq!(address.to_string(), "mongodb+srv://set.example.net/?tls=false");
        assert_eq!(address.tls, None);
        for (text, why) in [
            ("mongodb+srv://set.example.net:27017", "is not one DOMAIN"),
            ("mongodb+srv://a.example,b.example", "is not one DOMAIN"),
            ("mongodb+srv://set", "is not one DOMAIN"),
            ("mongodb://a,a:27017", "names a:27017 twice"),
            ("mongodb://a,/?replicaSet=rs", "not one HOST:PORT"),
            ("mongodb://a/?replicaSet=", "names no replica set"),
            ("mongodb://a/?readPreference=secondary", "expected replicaSet beside"),
            ("mongodb://a,b/?replicaSet=rs&readPreference=nearest", "primary or secondary"),
            ("mongodb://original/?replicaSet=rs", "is no member"),
            ("mongodb://a/?w=1", "has the option w"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
