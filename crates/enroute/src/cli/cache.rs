//! `enroute cache`: the cache on the path.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::bail;
use cache::stats::line;
use clap::{Args, builder::RangedU64ValueParser};
use endpoint::losses::Cause;
use platform::{listening, open_files, signal::Asked, succession::Predecessor};

mod tls;
mod upgrade;

use super::{admin::Admin, reload::Reload, signal::EndSignal};
use crate::{
    admin,
    config::{
        Address, AdminDocument, Bytes, Document, FeedDocument, ListenerDocument, Population,
        Replacement, Share, Time,
    },
    runtime::{Protocol, Runtime, Shared},
};
use upgrade::Sockets;

const EXAMPLES: &str = "\
EXAMPLES:
  In front of a remote MongoDB; connect the application to mongodb://127.0.0.1:27018:
    enroute cache --listen mongodb://127.0.0.1:27018 --origin mongodb://db.example:27017 \\
      --capacity 10000

  In front of Redis, with 512 MiB for items; prints hit and miss counts every second:
    enroute cache --listen redis://127.0.0.1:6380 --origin redis://db.example:6379 \\
      --memory 512MiB --statistics 1s

  In front of memcached; a write that bypasses the cache stays invisible for at most 30 s:
    enroute cache --listen memcached://127.0.0.1:11210 --origin memcached://db.example:11211 \\
      --ttl 30s

  One hit in a hundred is asked at the origin too, and compared with what is stored:
    enroute cache --listen redis://127.0.0.1:6380 --origin redis://db.example:6379 --verify 1%

  What would caching gain? Serves nothing from storage; prints a forecast every minute:
    enroute cache --listen redis://127.0.0.1:6380 --origin redis://db.example:6379 --observe \\
      --statistics 1min

  Several listeners and all options, from a configuration file; check the file first:
    enroute config check enroute.toml
    enroute cache --config enroute.toml

  With TLS to clients and to the database:
    enroute cache --listen rediss://0.0.0.0:6380 --tls-cert server.pem --tls-key server.key \\
      --origin rediss://db.example:6379

  With an admin endpoint: statistics, metrics, live changes and `enroute explain`, on port 9900:
    enroute cache --config enroute.toml --admin 127.0.0.1:9900

SIGTERM and Ctrl-C wait for outstanding replies (drain_timeout, 10 s), then exit. SIGHUP, and
POST /reload of the admin endpoint, read the file of --config, the TLS files and --credentials-file
again and apply capacity, memory, ttl, include, exclude and most limits without closing connections;
the log names what has changed and what needs a restart. SIGUSR2 starts the program file again, on the
same ports, and ends this process when its clients have left or drain_timeout has passed: an upgrade
(docs/guide/install.md). docs/guide/configuration.md describes all options.";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Configuration file, TOML; replaces --listen and --origin. Options on the command line
    /// override the file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "origin"])]
    config: Option<PathBuf>,

    /// Address that clients connect to: mongodb://HOST:PORT, redis://HOST:PORT,
    /// memcached://HOST:PORT or dynamodb://HOST:PORT; with --tls-cert also rediss://HOST:PORT and
    /// dynamodbs://HOST:PORT. Port 0 picks a free port, which is printed
    #[arg(long, value_name = "ADDRESS", requires = "origin")]
    listen: Option<Address>,

    /// Address of the database: mongodb://HOST:PORT, redis://HOST:PORT, memcached://HOST:PORT or
    /// dynamodb://HOST:PORT, the same protocol as --listen; with TLS
    /// mongodb://HOST:PORT/?tls=true, rediss://HOST:PORT or dynamodbs://HOST.
    /// A primary that Sentinels name: redis+sentinel://HOST,HOST/NAME. A replica set:
    /// mongodb://HOST,HOST/?replicaSet=NAME. A sharded cluster: mongodb://MONGOS,MONGOS. Either
    /// by its records in DNS, with TLS: mongodb+srv://DOMAIN. Several memcacheds that share the
    /// keys by ketama: memcached://HOST,HOST:PORT:WEIGHT=NAME/?hash=md5
    #[arg(long, value_name = "ADDRESS", requires = "listen")]
    origin: Option<Address>,

    /// Maximum number of items over all listeners [default: limited by --memory alone]
    #[arg(long, value_name = "ITEMS", value_parser = at_least_one())]
    capacity: Option<usize>,

    /// Memory for items: keys, values and bookkeeping. The process uses at most this, plus 1/16 of
    /// it, plus 96 MiB [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,

    /// Largest reply that is stored; a larger one is forwarded only [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    value_max: Option<Bytes>,

    /// Longest time for which an entry is served. Bounds how long a write that bypassed the cache
    /// stays invisible. `ttl` of a [[listener]] in --config sets it by key [default: 5min]
    #[arg(long, value_name = "TIME")]
    ttl: Option<Time>,

    /// Replacement policy: selects the item to evict when storage is full [default: sieve]
    #[arg(long, value_enum, value_name = "POLICY")]
    replacement: Option<Replacement>,

    /// Replies to store [default: on-miss]
    #[arg(long, value_enum, value_name = "WHEN")]
    population: Option<Population>,

    /// Store only keys that match: `database.collection` for MongoDB, the key for Redis and
    /// memcached, the table for DynamoDB; `*` and `?` are wildcards. Repeatable [default: all]
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,

    /// Never store keys that match; overrides --include. Repeatable [default: none]
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,

    /// Let the origin report writes that bypass the cache: Redis by CLIENT TRACKING, MongoDB (a
    /// replica set) by a change stream. While the feed is down, nothing is cached. A username and
    /// password, and the feed of DynamoDB, can be set only in --config
    #[arg(long, requires = "listen")]
    feed: bool,

    /// File of the access keys of DynamoDB clients, in the form of ~/.aws/credentials: only
    /// requests that one of them has signed are answered from storage. No other user may read it
    /// [default: the key in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, if set]
    #[arg(long, value_name = "FILE", requires = "listen")]
    credentials_file: Option<PathBuf>,

    #[command(flatten)]
    tls: tls::Arguments,

    /// Share of the hits that are asked at the origin too, as in 1%: the client receives the reply
    /// of the origin, which is compared with what is stored. A difference is logged and counted
    /// [default: none]
    #[arg(long, value_name = "SHARE")]
    verify: Option<Share>,

    /// Observe only: forward everything, store nothing, and forecast what caching would answer, by
    /// memory size, command and key prefix; printed at the end and with --statistics
    #[arg(long)]
    observe: bool,

    /// Number of worker threads, 1 to 1024 [default: one per core]
    #[arg(long, value_name = "COUNT", value_parser = super::threads())]
    workers: Option<usize>,

    /// Address of the admin endpoint, HTTP: statistics, metrics and live changes. It has no
    /// authentication: use a loopback address [default: no admin endpoint]
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT")]
    admin: Option<SocketAddr>,

    /// Interval at which hit and miss counts are printed on standard output; 0: never [default: 0]
    #[arg(long, value_name = "TIME")]
    statistics: Option<Time>,
}

pub(super) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

impl Arguments {
    fn document(&self) -> anyhow::Result<Document> {
        let mut document = match (&self.config, &self.listen, &self.origin) {
            (Some(path), ..) => Document::read(path)?,
            (None, Some(listen), Some(origin)) => {
                let listener = ListenerDocument {
                    include: self.include.clone(),
                    exclude: self.exclude.clone(),
                    feed: self.feed.then(FeedDocument::default),
                    credentials_file: self.credentials_file.clone(),
                    tls: self.tls.clients(),
                    origin_tls: self.tls.origin(),
                    ..ListenerDocument::new(listen.clone(), origin.clone())
                };
                Document { listeners: vec![listener], ..Document::default() }
            }
            _ => bail!("expected --listen and --origin, or --config; see `enroute cache --help`"),
        };
        // Options on the command line override the file.
        document.workers = self.workers.or(document.workers);
        let storage = &mut document.storage;
        storage.capacity = self.capacity.or(storage.capacity);
        storage.memory = self.memory.or(storage.memory);
        storage.value_max = self.value_max.or(storage.value_max);
        storage.ttl = self.ttl.or(storage.ttl);
        storage.replacement = self.replacement.or(storage.replacement);
        storage.population = self.population.or(storage.population);
        storage.verify = self.verify.or(storage.verify);
        storage.observe |= self.observe;
        document.admin = match (self.admin, document.admin) {
            (Some(listen), written) => {
                let names = written.map(|written| written.names).unwrap_or_default();
                Some(AdminDocument { listen, names })
            }
            (None, written) => written,
        };
        document.check("the command line")?;
        if document.listeners.is_empty() {
            bail!("no [[listener]] in the configuration: add one with `listen` and `origin`");
        }
        Ok(document)
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let document = arguments.document()?;
    let end = EndSignal::with_upgrades()?;
    open_files::raise();
    let mut predecessor = Predecessor::of_this_process();
    let admin = Admin::listen(document.admin.as_ref())?;
    let mut setup = document.setup()?;
    let sockets = Sockets::of(&setup, admin.as_ref().map(Admin::socket).transpose()?)?;
    listening::close_rest();
    if let Some(predecessor) = &mut predecessor {
        setup.is_successor = true;
        predecessor.await_turn()?;
    }
    let mut runtime = Runtime::start(setup)?;
    announce(runtime.shared());
    let shared = Arc::clone(runtime.shared());
    let mut observed = admin::Cache { shared: Arc::clone(&shared), reload: None };
    if arguments.config.is_some() || shared.uses_tls() || arguments.credentials_file.is_some() {
        let arguments = arguments.clone();
        let reload = Reload::start(document, shared, move || arguments.document())?;
        observed.reload = Some(Box::new(move || reload.apply("POST /reload")));
    }
    let admin = admin.map(|admin| admin.serve(Arc::new(observed))).transpose()?;
    let period = arguments.statistics.map(Time::duration).filter(|period| !period.is_zero());
    if let Some(predecessor) = predecessor {
        upgrade::succeed(predecessor, runtime.shared());
    }
    let successor = loop {
        match end.next(period) {
            None => print_statistics(runtime.shared()),
            Some(Asked::End) => break None,
            Some(Asked::Upgrade) => match sockets.hand_over(runtime.shared()) {
                None => {}
                successor => break successor,
            },
        }
    };
    // Clients that connect while it drains are refused, or are the successor's.
    drop(sockets);
    let (shared, mut admin) = (Arc::clone(runtime.shared()), admin);
    if let Some(successor) = &successor {
        drop(admin.take());
        upgrade::serve_out(&mut runtime, successor, &end);
    }
    runtime.stop();
    // Last, so that monitoring sees the drain.
    drop(admin);
    if period.is_some() || shared.shards.observer().is_some() {
        print_statistics(&shared);
    }
    if let Some(successor) = successor.filter(|_| shared.shards.is_idle()) {
        successor.end_clean();
    }
    Ok(())
}

/// Prints each listener, its origin and its staleness bound.
fn announce(shared: &Shared) {
    for listener in &shared.listeners {
        let tls = if listener.origin.tls().is_some() { " (TLS)" } else { "" };
        eprintln!("{} -> {}{tls}", listener.url(), listener.origin);
        if shared.shards.observer().is_some() {
            eprintln!("{}: reads are only observed: nothing is stored", listener.url());
            continue;
        }
        let bound = listener.staleness_bound();
        let why = match (&listener.feed, &listener.protocol) {
            (Some(_), Protocol::DynamoDb(_)) => {
                "feed, and the delay of its streams, which DynamoDB does not state; while it is down, \
                 nothing is cached"
            }
            (Some(_), _) => "feed; while it is down, nothing is cached",
            (None, Protocol::Memcache(_)) => "no feed: the bound is `ttl`; UDP is not served",
            (None, Protocol::DynamoDb(settings)) => settings.bound_by(),
            (None, _) => "no feed: the bound is `ttl`",
        };
        eprintln!(
            "{}: a write that bypasses the cache is visible after at most {bound:?} ({why})",
            listener.url()
        );
    }
}

/// One line: hits, misses by reason, stored items; then the forecast, if reads are only observed.
#[allow(clippy::print_stdout, reason = "statistics were asked for on standard output")]
fn print_statistics(shared: &Shared) {
    let causes = shared.listeners.iter().flat_map(|listener| listener.origin.quarantine_causes());
    let causes = causes.map(|Cause { client, command, writes, .. }| {
        format!("quarantined-by.{command}@{client}={writes}")
    });
    println!("{}", line(&shared.stats, &shared.shards.memory(), shared.connections(), causes));
    if let Some(forecast) = shared.forecast() {
        print!("{forecast}");
    }
}
