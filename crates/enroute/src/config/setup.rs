//! Converts the configuration to the sockets, limits and policies of the runtime.

use std::{
    hash::{BuildHasher, RandomState},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use cache::{
    feed,
    filter::{dynamodb, memcache, mongo, resp},
    monitor::Pace,
    rules::{LiveRules, Pattern, Rules},
    sentinel,
    session::{self, Verify},
    storage, topology,
};
use notation::{Deployment, FoundBy, KeyHash, Sentinels};
use platform::{diverted, listening, private_file, wall_clock};
use wire::{memcache::ring, sigv4::Credentials};

use super::{
    Address, Bytes, Document, FeedDocument, ListenerDocument, Population, Scheme, Share, Time,
    cluster,
};
use crate::runtime::{Limits, Listener, Monitored, Origin, Protocol, Servers, Setup};

pub(super) const CONNECTIONS_MAX: usize = 16_384;
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Default number of reads within a period that make a key hot.
pub(super) const HOT_THRESHOLD: u16 = 3;

impl Document {
    /// Opens the sockets and builds the settings of the runtime.
    ///
    /// # Errors
    /// An address cannot be used.
    pub fn setup(&self) -> anyhow::Result<Setup> {
        let queries = self.listeners.iter().any(|listener| listener.cache_queries);
        let tables = Arc::new(dynamodb::Tables::new(queries));
        let common = (RandomState::new().hash_one(0u8), &tables);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let sockets = self.bind()?;
        let addresses = Arc::new(cluster::addresses(&self.listeners, &sockets)?);
        let members = cluster::members(&self.listeners, &sockets)?;
        Ok(Setup {
            is_successor: false,
            workers: self.workers.unwrap_or(cores),
            storage: storage::Config { portions: self.portions(common.0), ..self.storage() },
            limits: Limits {
                drain_timeout: self.drain_timeout.map_or(DRAIN_TIMEOUT, Time::duration),
            },
            listeners: self
                .listeners
                .iter()
                .zip(sockets.into_iter().zip(members))
                .map(|(listener, (socket, members))| {
                    self.listener(listener, socket, (&addresses, members), common)
                })
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// The sockets of all listeners; those that share a port have copies of one.
    fn bind(&self) -> anyhow::Result<Vec<TcpListener>> {
        let mut sockets: Vec<TcpListener> = Vec::new();
        for listener in &self.listeners {
            let earlier = self.listeners[..sockets.len()].iter();
            let shared = sockets.iter().zip(earlier).find(|(_, other)| other.shares_port(listener));
            let socket = match shared {
                Some((socket, _)) => socket.try_clone()?,
                None => listener.bind()?,
            };
            if listener.is_transparent() {
                diverted::accept_any_destination(&socket);
            }
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Limits and policies of storage.
    #[must_use]
    pub fn storage(&self) -> storage::Config {
        let written = &self.storage;
        let default = storage::Config::default();
        let mut memory = store::Config::default();
        memory.items_max = written.capacity.unwrap_or(memory.items_max);
        memory.bytes_max = written.memory.map_or(memory.bytes_max, Bytes::count);
        memory.value_bytes_max = written.value_max.map_or(memory.value_bytes_max, Bytes::count);
        memory.replacement = written.replacement.map_or(memory.replacement, Into::into);
        let population = match written.population.unwrap_or_default() {
            Population::OnMiss => storage::Population::OnMiss,
            Population::OnWrite => storage::Population::OnWrite,
            Population::Hot => storage::Population::Hot {
                threshold: written.hot_threshold.unwrap_or(HOT_THRESHOLD),
            },
        };
        storage::Config {
            memory,
            population,
            quarantine: written.quarantine.map_or(default.quarantine, Time::duration),
            hot_period: written.hot_period.map_or(default.hot_period, Time::duration),
            observe: written.observe,
            ..default
        }
    }

    /// Limits of each session.
    pub(crate) fn session(&self) -> session::Config {
        let default = session::Config::default();
        let written = &self.limits;
        session::Config {
            pipeline_max: written.pipeline_max.unwrap_or(default.pipeline_max),
            buffered_bytes_max: written
                .buffered_bytes_max
                .map_or(default.buffered_bytes_max, Bytes::count),
            captured_bytes_max: self
                .storage
                .value_max
                .map_or(default.captured_bytes_max, Bytes::count),
            coalesce_wait_max: written
                .coalesce_wait_max
                .map_or(default.coalesce_wait_max, Time::duration),
            authorization_lease: self
                .storage
                .authorization_lease
                .map_or(default.authorization_lease, Time::duration),
            verify: self.storage.verify.map(Share::of_one).and_then(Verify::share).map(Arc::new),
            ..default
        }
    }

    /// Maximum number of clients of one listener.
    pub(crate) fn connections_max(&self) -> usize {
        self.limits.connections_max.unwrap_or(CONNECTIONS_MAX)
    }

    /// Which keys a listener stores, and for how long.
    pub(crate) fn rules(&self, written: &ListenerDocument) -> Rules {
        let patterns =
            |texts: &[String]| texts.iter().map(|text| Pattern::from(text.as_str())).collect();
        let by_pattern = |(text, ttl): (&String, &Time)| (text.as_str().into(), ttl.duration());
        let default = Rules::default();
        let mut exclude: Vec<_> = patterns(&written.exclude);
        if written.uses_secondary() {
            // It lags behind its primary, whose entries are under the same keys.
            exclude.push(Pattern::from("*"));
        }
        Rules {
            include: patterns(&written.include),
            exclude,
            ttl: self.storage.ttl.map_or(default.ttl, Time::duration),
            ttls: written.ttl.iter().map(by_pattern).collect(),
            ..default
        }
    }

    fn listener(
        &self,
        written: &ListenerDocument,
        socket: TcpListener,
        nodes: (&Arc<resp::Addresses>, mongo::Advertised),
        common: (u64, &Arc<dynamodb::Tables>),
    ) -> anyhow::Result<(TcpListener, Listener)> {
        let bound = socket.local_addr()?;
        let timeout = self.limits.connect_timeout.map_or(CONNECT_TIMEOUT, Time::duration);
        let feed = written.feed.as_ref().map(FeedDocument::config).transpose()?;
        let node_login = feed.as_ref().and_then(|feed| feed.login.clone());
        let monitor = written.monitor(node_login)?;
        let name = written.origin.host_port.clone();
        let origin = match monitor {
            None => Origin::new(name, timeout),
            Some(_) => Origin::sought(name, timeout),
        };
        let listener = Listener::new(
            self.protocol(written, bound, nodes, common)?,
            origin.with_tls(written.client_tls()?).with_servers(self.servers(written, timeout)),
            self.session(),
            self.connections_max(),
            bound,
        );
        let server = written.feed_server(timeout)?;
        let listener = listener.with_feed(feed, server).with_monitor(monitor);
        let listener = listener.with_lender(written.credentials_url.clone());
        let listener = listener.with_tls(written.server_tls()?, written.names());
        let listener = listener.with_pass_through(written.passes_through());
        Ok((socket, listener.with_diverted(written.origin.is_original())))
    }

    /// The servers that share the keys of its origin, if it is several.
    fn servers(&self, written: &ListenerDocument, timeout: Duration) -> Option<Servers> {
        let Some(FoundBy::Servers(servers)) = &written.origin.found_by else { return None };
        let hash = match servers.hash {
            KeyHash::Fnv1a64 => ring::Hash::Fnv1a64,
            KeyHash::Md5 => ring::Hash::Md5,
            KeyHash::OneAtATime => ring::Hash::OneAtATime,
        };
        let named = servers.servers.iter().map(|server| (server.name.clone(), server.weight));
        let ring = ring::Ring::new(&named.collect::<Vec<_>>(), hash);
        let limits =
            wire::memcache::Limits::of_values(self.limits.frame_bytes_max.map(Bytes::count));
        let origin = |server: &notation::Server| Origin::new(server.host_port.clone(), timeout);
        Some(Servers::new(ring, limits, servers.servers.iter().map(origin).collect()))
    }

    fn protocol(
        &self,
        written: &ListenerDocument,
        bound: SocketAddr,
        (addresses, members): (&Arc<resp::Addresses>, mongo::Advertised),
        (secret, tables): (u64, &Arc<dynamodb::Tables>),
    ) -> anyhow::Result<Protocol> {
        let rules = Arc::new(LiveRules::from(self.rules(written)));
        let origin = written.origin_name();
        written.warn_of_wildcard(bound);
        let frame_bytes_max = self.limits.frame_bytes_max.map(Bytes::count);
        let on_write = self.storage().population == storage::Population::OnWrite;
        Ok(match written.listen.scheme {
            Scheme::Mongodb => Protocol::Mongo(Arc::new(mongo::Settings {
                origin,
                secret,
                limits: wire::mongo::frame::Limits::of_frames(frame_bytes_max),
                namespaces: rules,
                on_write,
                unique_fields: written.unique_fields.iter().map(|field| field.0.clone()).collect(),
                advertise: (!written.is_transparent()).then_some(members),
                ..mongo::Settings::default()
            })),
            Scheme::Redis => Protocol::Resp(Arc::new(resp::Settings {
                origin,
                secret,
                limits: wire::resp::Limits::of_messages(frame_bytes_max),
                keys: rules,
                scripts: written.scripts.into(),
                on_write,
                unknown_expiry: written.unknown_expiry.into(),
                feed: written.feed.is_some(),
                clustered: written.cluster.is_some(),
                node: resp::Node::at(written.origin.host_port.clone()),
                addresses: if written.is_transparent() {
                    Arc::default()
                } else {
                    Arc::clone(addresses)
                },
                ..resp::Settings::default()
            })),
            Scheme::Memcached => Protocol::Memcache(Arc::new(memcache::Settings {
                origin,
                secret,
                limits: wire::memcache::Limits::of_values(frame_bytes_max),
                keys: rules,
                on_write,
                clock: wall_clock::now(),
                ..memcache::Settings::default()
            })),
            Scheme::Dynamodb => Protocol::DynamoDb(Arc::new(dynamodb::Settings {
                origin,
                secret,
                limits: wire::http1::Limits::of_body(frame_bytes_max),
                keys: rules,
                credentials: Arc::new(written.credentials()?.into()),
                lends: written.credentials_url.is_some(),
                caches_queries: written.cache_queries,
                tables: Arc::clone(tables),
                streams: written.streams(),
                clock: wall_clock::now(),
                ..dynamodb::Settings::default()
            })),
        })
    }
}

impl ListenerDocument {
    /// The access keys of DynamoDB clients: of the file, and of the environment; none for other
    /// protocols.
    pub(crate) fn credentials(&self) -> anyhow::Result<Credentials> {
        if self.listen.scheme != Scheme::Dynamodb {
            return Ok(Credentials::default());
        }
        let path = self.credentials_file.as_deref();
        let read = |path| private_file::read_secret_text(path, "credentials file");
        let text = path.map(read).transpose()?.unwrap_or_default();
        let all = Credentials::parse(&text)
            .and_then(|all| all.with_environment(|name| std::env::var(name).ok()));
        let place = path.unwrap_or(Path::new("the environment")).display();
        all.with_context(|| format!("cannot use the credentials in {place}"))
    }

    /// How its feed reads streams; none for other protocols.
    fn streams(&self) -> Option<dynamodb::Streams> {
        let feed = self.feed.as_ref()?;
        let server = feed.endpoint.as_ref().unwrap_or(&self.origin);
        let (access_key, region) = (feed.access_key.clone()?, feed.region.clone()?);
        Some(dynamodb::Streams { host: server.host(), access_key, region, ..Default::default() })
    }

    /// Checks that the secret of its feed's access key is known.
    pub(super) fn check_access_key(&self) -> anyhow::Result<()> {
        let access_key = self.feed.as_ref().and_then(|feed| feed.access_key.as_deref());
        let Some(access_key) = access_key else { return Ok(()) };
        anyhow::ensure!(
            self.credentials()?.know(access_key),
            "expected the secret of {access_key} in `credentials_file` or in the environment, found \
             none"
        );
        Ok(())
    }

    /// The server of its feed, if that is not the origin.
    fn feed_server(&self, timeout: Duration) -> anyhow::Result<Option<Origin>> {
        let Some(server) = self.feed.as_ref().and_then(|feed| feed.endpoint.clone()) else {
            return Ok(None);
        };
        let origin = Origin::new(server.host_port.clone(), timeout);
        let tls = Self { origin: server, ..self.clone() }.client_tls()?;
        Ok(Some(origin.with_tls(tls)))
    }

    /// What finds the server of its origin, unless the address states it.
    fn monitor(&self, node_login: Option<sentinel::Login>) -> anyhow::Result<Option<Monitored>> {
        Ok(match self.origin.found_by.clone() {
            None | Some(FoundBy::Servers(_)) => None,
            Some(FoundBy::Sentinels(Sentinels { name, hosts: sentinels })) => {
                let login = self.sentinel.as_ref().map(FeedDocument::login).transpose()?.flatten();
                let pace = Pace::default();
                let config = sentinel::Config { name, sentinels, login, node_login, pace };
                Some(Monitored::BySentinels(config))
            }
            Some(FoundBy::Deployment(Deployment { seeds, domain, replica_set, secondary })) => {
                let pace = Pace::default();
                let config = topology::Config { seeds, domain, replica_set, secondary, pace };
                Some(Monitored::ByMembers(config))
            }
        })
    }

    /// Says that clients cannot be sent to the listener by the address it is bound to.
    fn warn_of_wildcard(&self, bound: SocketAddr) {
        let names_nodes = matches!(self.listen.scheme, Scheme::Mongodb | Scheme::Redis);
        let names_nodes = names_nodes && !self.is_transparent();
        let named = self.advertise.is_some() || !self.names().is_empty();
        if names_nodes && !named && bound.ip().is_unspecified() {
            tracing::warn!(
                listen = %self.listen,
                "the wildcard address cannot be advertised to clients of a replica set or \
                 cluster; set `advertise`"
            );
        }
    }

    fn bind(&self) -> anyhow::Result<TcpListener> {
        let listen = self
            .listen
            .host_port
            .to_socket_addrs()
            .with_context(|| format!("cannot resolve listen = \"{}\"", self.listen))?
            .next()
            .with_context(|| format!("listen = \"{}\" resolves to no address", self.listen))?;
        listening::bind(listen)
    }
}

impl FeedDocument {
    /// Why it cannot be the feed of an origin of this protocol.
    pub(super) fn mistake(&self, scheme: Scheme) -> Option<&'static str> {
        let (login, account) = (
            self.user.is_some() || self.password_file.is_some(),
            self.access_key.is_some() || self.region.is_some(),
        );
        let reads = self.endpoint.is_some() || self.interval.is_some();
        match scheme {
            Scheme::Dynamodb if login => {
                Some("`user` and `password_file` are not for DynamoDB; write `access_key`")
            }
            Scheme::Dynamodb if self.access_key.is_none() || self.region.is_none() => {
                Some("expected `access_key` and `region`, which sign the reads of the streams")
            }
            Scheme::Dynamodb if self.has_foreign_endpoint() => {
                Some("expected endpoint = \"dynamodb://HOST:PORT\" or \"dynamodbs://HOST\"")
            }
            Scheme::Dynamodb if !feed::dynamodb::INTERVALS.contains(&self.interval()) => {
                Some("expected an `interval` of 200ms to 1min: DynamoDB allows five reads a second")
            }
            Scheme::Dynamodb => None,
            _ if account || reads => Some(
                "`access_key`, `region`, `endpoint` and `interval` are for DynamoDB listeners only",
            ),
            Scheme::Mongodb if self.password_file.is_some() && self.user.is_none() => {
                Some("expected `user` beside `password_file`: MongoDB has no default user")
            }
            _ => None,
        }
    }

    fn has_foreign_endpoint(&self) -> bool {
        let is_foreign =
            |server: &Address| server.scheme != Scheme::Dynamodb || server.is_original();
        self.endpoint.as_ref().is_some_and(is_foreign)
    }

    /// Time between two liveness checks, or reads.
    fn interval(&self) -> Duration {
        self.interval.map_or(feed::Config::default().ping_interval, Time::duration)
    }

    fn config(&self) -> anyhow::Result<feed::Config> {
        Ok(feed::Config::new(self.login()?, self.interval()))
    }

    /// User and password, from the file.
    fn login(&self) -> anyhow::Result<Option<sentinel::Login>> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let password = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read password_file {}", path.display()))?;
        Ok(Some((self.user.clone(), password.trim_end().to_owned())))
    }
}
