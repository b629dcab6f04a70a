//! Mistakes that involve several values of a document, with their positions.

use std::ops::Range;

use notation::FoundBy;

use super::{Document, ListenerDocument, Scheme, Scripts, UnknownExpiry};

impl Document {
    /// The first mistake that involves several values.
    pub(super) fn find_mistake(&self) -> Result<(), Mistake> {
        if self.listeners.is_empty() && self.edge.is_none() {
            let message =
                "no [[listener]] in the configuration: add one with `listen` and `origin`";
            return Err(Mistake { at: None, message: message.to_owned() });
        }
        if let Some(edge) = &self.edge {
            edge.find_mistake().map_err(|(site, field, message)| {
                let at = site.map_or(Place::Edge(field), |number| Place::Site(number, field));
                Mistake { at: Some(at), message }
            })?;
        }
        self.find_shared_port()?;
        self.find_shared_mistake()?;
        self.find_portion_mistake()?;
        for (number, listener) in self.listeners.iter().enumerate() {
            listener.find_mistake().map_err(|(field, message)| Mistake {
                at: Some(Place::Listener(number, field)),
                message,
            })?;
        }
        Ok(())
    }

    /// Whether an earlier listener has the same address and other server names.
    fn shares_port(&self, number: usize) -> Result<bool, Mistake> {
        let listener = &self.listeners[number];
        let mut found = false;
        for earlier in self.listeners[..number].iter().filter(|one| one.shares_port(listener)) {
            let names = earlier.names();
            if let Some(name) = listener.names().iter().find(|name| names.contains(name)) {
                let message =
                    format!("{name} is also a name of the listener above at {}", listener.listen);
                return Err(Mistake { at: Some(Place::Listener(number, "tls")), message });
            }
            found = true;
        }
        Ok(found)
    }

    /// The first listener that has the entries of another, and another ttl; or that of a cluster of
    /// which not every node reports the same keys.
    fn find_shared_mistake(&self) -> Result<(), Mistake> {
        for (number, listener) in self.listeners.iter().enumerate() {
            let earlier = self.listeners[..number].iter();
            for other in earlier.filter(|one| one.shares_entries(listener)) {
                let feeds = (other.feed.is_some(), listener.feed.is_some());
                let (field, message) = if other.ttl != listener.ttl {
                    ("ttl", "the same `ttl` as in the listener above at")
                } else if listener.cluster.is_none() {
                    continue;
                } else if feeds == (true, false) {
                    ("cluster", "`feed` as in the listener above at")
                } else if feeds == (false, true) {
                    ("feed", "no `feed`, or one also in the listener above at")
                } else if feeds == (true, true) && other.include != listener.include {
                    ("include", "the same `include` as in the listener above at")
                } else {
                    continue;
                };
                let message =
                    format!("expected {message} {}: both serve the same entries", other.listen);
                return Err(Mistake { at: Some(Place::Listener(number, field)), message });
            }
        }
        Ok(())
    }

    /// The first address that is used twice.
    fn find_shared_port(&self) -> Result<(), Mistake> {
        let listeners = self.listeners.iter().enumerate();
        let listeners = listeners.map(|(number, listener)| {
            (Some(Place::Listener(number, "listen")), listener.listen.host_port.clone())
        });
        let edge =
            self.edge.iter().map(|edge| (Some(Place::Edge("listen")), edge.listen.to_string()));
        let admin =
            self.admin.iter().map(|admin| (Some(Place::Admin("listen")), admin.listen.to_string()));
        let mut taken: Vec<String> = Vec::new();
        for (at, address) in listeners.chain(edge).chain(admin) {
            if let Some(Place::Listener(number, _)) = at
                && self.shares_port(number)?
            {
                continue;
            }
            if let Some(other) = taken.iter().find(|other| collide(other, &address)) {
                let message =
                    format!("{address} is used twice: {other} above listens on the same port");
                return Err(Mistake { at, message });
            }
            taken.push(address);
        }
        Ok(())
    }
}

/// Whether two addresses conflict. Port 0 never does.
fn collide(one: &str, other: &str) -> bool {
    let (Some((host, port)), Some((other_host, other_port))) =
        (one.rsplit_once(':'), other.rsplit_once(':'))
    else {
        return false;
    };
    let is_every = |host: &str| matches!(host, "0.0.0.0" | "[::]");
    port == other_port
        && port != "0"
        && (host == other_host || is_every(host) || is_every(other_host))
}

impl ListenerDocument {
    /// Whether an entry stored for one of the listeners is served by the other.
    pub(super) fn shares_entries(&self, other: &Self) -> bool {
        let of = |one: &Self| match &one.cluster {
            Some(cluster) => (one.listen.scheme, cluster.clone()),
            None => (one.listen.scheme, one.origin.host_port.clone()),
        };
        self.cluster.is_some() == other.cluster.is_some() && of(self) == of(other)
    }

    /// The field that conflicts with others, and the reason.
    fn find_mistake(&self) -> Result<(), (&'static str, String)> {
        let Self { listen, origin, .. } = self;
        let mistake = |field, message: &str| Err((field, message.to_owned()));
        if listen.is_original() {
            return mistake("listen", "expected HOST:PORT; only `origin` can be `original`");
        }
        if listen.scheme != origin.scheme {
            let message = format!(
                "expected the same protocol for listen = \"{listen}\" and origin = \"{origin}\""
            );
            return Err(("origin", message));
        }
        if listen.host_port == origin.host_port {
            return Err((
                "origin",
                format!("origin = \"{origin}\" is the address of the listener itself"),
            ));
        }
        if matches!(listen.scheme, Scheme::Memcached | Scheme::Dynamodb)
            && let Some(option) = self.find_foreign_option()
        {
            let name = listen.scheme.name();
            return Err((option, format!("`{option}` is not for {name} listeners; remove it")));
        }
        for (field, written) in [("feed", &self.feed), ("sentinel", &self.sentinel)] {
            if let Some(why) = written.as_ref().and_then(|written| written.mistake(listen.scheme)) {
                return mistake(field, why);
            }
        }
        self.find_tls_mistake()?;
        self.find_monitor_mistake()?;
        match listen.scheme {
            _ if self.feed.is_some() && origin.is_original() => mistake(
                "feed",
                "`feed` cannot be combined with origin `original`: a feed covers one origin only",
            ),
            Scheme::Mongodb if self.cluster.is_some() => {
                mistake("cluster", "`cluster` is for Redis listeners only; remove it")
            }
            Scheme::Mongodb | Scheme::Redis if self.credentials_file.is_some() => mistake(
                "credentials_file",
                "`credentials_file` is for DynamoDB listeners only; remove it",
            ),
            Scheme::Mongodb | Scheme::Redis if self.credentials_url.is_some() => mistake(
                "credentials_url",
                "`credentials_url` is for DynamoDB listeners only; remove it",
            ),
            Scheme::Mongodb | Scheme::Redis if self.cache_queries => mistake(
                "cache_queries",
                "`cache_queries` is for DynamoDB listeners only; remove it",
            ),
            Scheme::Redis if !self.unique_fields.is_empty() => {
                mistake("unique_fields", "`unique_fields` is for MongoDB listeners only; remove it")
            }
            _ => Ok(()),
        }
    }
}

impl ListenerDocument {
    /// The first mistake in what concerns an origin that is found.
    fn find_monitor_mistake(&self) -> Result<(), (&'static str, String)> {
        let mistake = |field, message: &str| Err((field, message.to_owned()));
        if self.listen.found_by.is_some() {
            return mistake("listen", "expected one HOST:PORT; only `origin` can name several");
        }
        match &self.origin.found_by {
            Some(FoundBy::Servers(several))
                if several.servers.iter().any(|one| one.host_port == self.listen.host_port) =>
            {
                let listen = &self.listen;
                Err(("origin", format!("origin has {listen}, the address of the listener itself")))
            }
            Some(FoundBy::Sentinels(_)) if self.cluster.is_some() => mistake(
                "cluster",
                "`cluster` cannot be combined with an origin that Sentinels name: a cluster has \
                 none",
            ),
            Some(_) if self.passes_through() => mistake(
                "tls",
                "`pass_through` cannot be combined with an origin that is found: its server can \
                 change",
            ),
            Some(_) if self.uses_secondary() && self.feed.is_some() => mistake(
                "feed",
                "`feed` cannot be combined with readPreference=secondary: nothing is stored",
            ),
            Some(FoundBy::Sentinels(_)) => Ok(()),
            _ if self.sentinel.is_some() => mistake(
                "sentinel",
                "expected origin = \"redis+sentinel://HOST,HOST/NAME\" beside `sentinel`",
            ),
            _ => Ok(()),
        }
    }

    /// Returns an option that is set although memcached or DynamoDB listeners do not have it.
    fn find_foreign_option(&self) -> Option<&'static str> {
        let is_plain = self.listen.scheme == Scheme::Memcached;
        let options = [
            ("tls", is_plain && self.tls.is_some()),
            ("origin_tls", is_plain && self.origin_tls.is_some()),
            ("feed", is_plain && self.feed.is_some()),
            ("sentinel", self.sentinel.is_some()),
            ("cluster", self.cluster.is_some()),
            ("advertise", self.advertise.is_some()),
            ("unique_fields", !self.unique_fields.is_empty()),
            ("scripts", self.scripts != Scripts::default()),
            ("unknown_expiry", self.unknown_expiry != UnknownExpiry::default()),
            ("credentials_file", is_plain && self.credentials_file.is_some()),
            ("credentials_url", is_plain && self.credentials_url.is_some()),
            ("cache_queries", is_plain && self.cache_queries),
        ];
        options.into_iter().find_map(|(option, is_set)| is_set.then_some(option))
    }
}

/// A mistake in a document whose single values are valid.
pub(super) struct Mistake {
    pub(super) at: Option<Place>,
    pub(super) message: String,
}

/// A field: of a listener, of `[storage]`, `[admin]` or `[edge]`, of a site.
pub(super) enum Place {
    Storage(&'static str),
    Admin(&'static str),
    Listener(usize, &'static str),
    Edge(&'static str),
    Site(usize, &'static str),
}

impl Mistake {
    /// Its position in `text`.
    pub(super) fn span(&self, text: &str) -> Option<Range<usize>> {
        let document = toml::de::DeTable::parse(text).ok()?;
        let document = document.get_ref();
        let edge = || document.get("edge");
        let (table, field) = match self.at.as_ref()? {
            Place::Listener(number, field) => {
                (document.get("listener")?.get_ref().get(*number)?, field)
            }
            Place::Storage(field) => (document.get("storage")?, field),
            Place::Admin(field) => (document.get("admin")?, field),
            Place::Edge(field) => (edge()?, field),
            Place::Site(number, field) => {
                (edge()?.get_ref().get("site")?.get_ref().get(*number)?, field)
            }
        };
        Some(table.get_ref().get(field).unwrap_or(table).span())
    }
}
