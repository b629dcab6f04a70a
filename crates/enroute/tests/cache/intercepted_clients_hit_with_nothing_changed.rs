//! `enroute intercept` on a router between a client and its Redis, all three in namespaces made by
//! the test: the client connects to the server's address, is transparently diverted, and gets hits.
//! Afterwards it connects to the server directly, and the router is unchanged.

use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Instant;

use crate::support::directory::{TemporaryDirectory, installed, on_path};
use crate::support::enroute::{Enroute, admin};
use crate::support::namespace::Namespace;
use crate::support::origins::absent;
use crate::support::process::{PATIENCE, Process};
use bson::{Document, doc};
use serde_json::Value;

const ONE: &str = "10.78.2.2";
const OTHER: &str = "10.78.2.3";

/// client 10.78.1.2 – 10.78.1.1 router 10.78.2.1 – servers 10.78.2.2 and 10.78.2.3
struct Path {
    client: Namespace,
    router: Namespace,
    servers: Namespace,
    _redis: [Process; 2],
    _directory: TemporaryDirectory,
}

impl Path {
    fn make() -> Option<Self> {
        for tool in ["redis-server", "redis-cli", "nft", "ip"] {
            if on_path(tool).is_none() {
                return absent(&format!("{tool} is not on PATH"));
            }
        }
        let (client, router, servers) =
            (Namespace::make()?, Namespace::make()?, Namespace::make()?);
        router.join(("down", "10.78.1.1/24"), &client, ("up", "10.78.1.2/24"));
        router.join(("up", "10.78.2.1/24"), &servers, ("down", "10.78.2.2/24"));
        router.sh("echo 1 > /proc/sys/net/ipv4/ip_forward");
        client.sh("ip route add default via 10.78.1.1");
        servers.sh("ip addr add 10.78.2.3/24 dev down; ip route add default via 10.78.2.1");
        let directory = TemporaryDirectory::create();
        let redis = [ONE, OTHER].map(|address| {
            let mut command = Command::new("redis-server");
            command.args(["--bind", address, "--protected-mode", "no", "--save", "", "--dir"]);
            command.arg(directory.path());
            let redis = servers.run(|| Process::start(&mut command));
            assert!(redis.stdout_line("Ready to accept").is_some(), "{}", redis.stdout());
            redis
        });
        Some(Self { client, router, servers, _redis: redis, _directory: directory })
    }

    fn cache(&self, listen: &str) -> Enroute {
        let (protocol, _) = listen.split_once("://").unwrap();
        let origin = format!("{protocol}://original");
        let arguments = ["cache", "--origin", &origin, "--admin", "127.0.0.1:0"];
        let cache =
            self.router.run(|| Enroute::start(&[&arguments[..], &["--listen", listen]].concat()));
        cache.admin_address();
        cache
    }

    fn intercept(&self, arguments: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
        command.arg("intercept").args(arguments.split(' '));
        let output = self.router.run(|| command.output()).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "intercept {arguments}: {said}");
        output
    }

    /// The state of the router that an interception could change. The kernel adds an interface's
    /// own IPv6 routes after duplicate address detection, seconds after it is up.
    fn traces(&self) -> String {
        let listed = self.router.sh("nft list ruleset; ip rule; ip -6 rule; \
             ip -4 route show table all; ip -6 route show table all | grep -vE 'fe80|ff00'");
        // The kernel reports a new link as up a little later.
        listed.replace(" linkdown", "")
    }

    fn connect(&self, server: &str) -> redis::Connection {
        let client = redis::Client::open(format!("redis://{server}/")).unwrap();
        self.client.run(|| client.get_connection_with_timeout(PATIENCE)).unwrap()
    }

    /// Returns the reply of a server that is asked directly, bypassing the cache.
    fn ask(&self, server: &str, command: &str) -> String {
        self.servers.sh(&format!("redis-cli -h {server} {command}"))
    }

    fn gets(&self, server: &str) -> u64 {
        let told = self.ask(server, "INFO commandstats");
        let calls = told.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }

    fn hits(&self, cache: &Enroute) -> u64 {
        let answer = self.router.run(|| admin(cache.admin_address(), "/stats"));
        let stats: Value = serde_json::from_str(&answer.body).unwrap();
        stats["reads"]["hits"].as_u64().unwrap()
    }
}

fn set(connection: &mut redis::Connection, key: &str, value: &str) {
    redis::cmd("SET").arg(key).arg(value).exec(connection).unwrap();
}

fn get(connection: &mut redis::Connection, key: &str) -> String {
    redis::cmd("GET").arg(key).query(connection).unwrap()
}

fn intercepted(listen: &str, plan: &str) {
    let Some(path) = Path::make() else { return };
    let before = path.traces();
    let cache = path.cache(listen);
    let mut earlier = path.connect(ONE);
    path.intercept(&format!("{plan} apply"));
    path.intercept(&format!("{plan} apply"));
    // Connections from before continue unchanged.
    set(&mut earlier, "earlier", "value");

    let mut one = path.connect(ONE);
    let mut other = path.connect(OTHER);
    set(&mut one, "key", "of one");
    set(&mut other, "key", "of the other");
    for _ in 0..5 {
        assert_eq!(get(&mut one, "key"), "of one");
        assert_eq!(get(&mut other, "key"), "of the other");
    }
    assert_eq!(path.hits(&cache), 8);
    assert_eq!((path.gets(ONE), path.gets(OTHER)), (1, 1));
    let seen = path.ask(ONE, "CLIENT LIST");
    assert!(seen.contains("addr=10.78.2.1:"), "{seen}");
    let direct = seen.lines().filter(|line| line.contains(" addr=10.78.1.2:")).count();
    assert_eq!(direct, 1, "{seen}");
    let status = String::from_utf8(path.intercept("status").stdout).unwrap();
    assert!(status.starts_with("applied") && !status.contains("packets 0 "), "{status}");

    path.intercept("remove");
    path.intercept("remove");
    assert_eq!(path.traces(), before);
    set(&mut earlier, "earlier", "value");
    let mut direct = path.connect(ONE);
    for _ in 0..3 {
        assert_eq!(get(&mut direct, "key"), "of one");
    }
    assert_eq!((path.hits(&cache), path.gets(ONE)), (8, 4));
    assert!(path.ask(ONE, "CLIENT LIST").contains("addr=10.78.1.2:"));
    assert!(cache.terminate().status.success());
}

#[test]
fn redirected_clients_hit_with_nothing_changed() {
    intercepted("redis://0.0.0.0:6380", "--protocol redis --to 0.0.0.0:6380");
}

#[test]
fn clients_redirected_to_one_address_hit_with_nothing_changed() {
    intercepted(
        "redis://10.78.1.1:6380",
        "--protocol redis --interface down --origin 10.78.2.0/24 --to 10.78.1.1:6380",
    );
}

#[test]
fn clients_taken_by_tproxy_hit_with_nothing_changed() {
    intercepted("redis://127.0.0.1:6380", "--port 6379 --mode tproxy --to 127.0.0.1:6380");
}

#[test]
fn a_mongodb_driver_hits_with_nothing_changed() {
    let Some(path) = Path::make() else { return };
    let program = installed("bin/ferretdb");
    if !program.is_file() {
        let _: Option<()> = absent("FerretDB is not installed under .deps/");
        return;
    }
    let directory = TemporaryDirectory::create();
    let mut command = Command::new(program);
    command.args(["--listen", &format!("{ONE}:27017"), "--dir"]).arg(directory.path());
    let ferretdb = path.servers.run(|| Process::start(&mut command));
    assert!(ferretdb.stdout_line("listening on ").is_some(), "{}", ferretdb.stderr());

    let before = path.traces();
    let cache = path.cache("mongodb://0.0.0.0:27018");
    path.intercept("--protocol mongodb --to 0.0.0.0:27018 apply");
    let reads = |count, expected: &'static str, write: Document| {
        path.client.run(|| {
            // Its tasks stay on this thread, and therefore in the client's namespace.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let url = format!("mongodb://{ONE}/?directConnection=true");
                let client = mongodb::Client::with_uri_str(url).await.unwrap();
                let phrases = client.database("test").collection::<Document>("phrases");
                let key = doc! { "_id": "key" };
                phrases.update_one(key.clone(), write).upsert(true).await.unwrap();
                for _ in 0..count {
                    let found = phrases.find_one(key.clone()).await.unwrap().unwrap();
                    assert_eq!(found.get_str("says").unwrap(), expected);
                }
            });
        });
    };
    reads(5, "first", doc! { "$set": { "says": "first" } });
    let hits = path.hits(&cache);
    assert!(hits >= 3, "{hits} hits of 5 reads");
    reads(5, "second", doc! { "$set": { "says": "second" } });
    assert!(path.hits(&cache) >= hits + 3);

    path.intercept("remove");
    assert_eq!(path.traces(), before);
    let hits = path.hits(&cache);
    reads(5, "third", doc! { "$set": { "says": "third" } });
    assert_eq!(path.hits(&cache), hits, "the client still connects through the cache");
}

#[test]
fn only_the_named_origin_is_intercepted() {
    let Some(path) = Path::make() else { return };
    let cache = path.cache("redis://0.0.0.0:6380");
    path.intercept(&format!("--protocol redis --to 0.0.0.0:6380 --origin {ONE} apply"));
    for server in [ONE, OTHER] {
        let mut connection = path.connect(server);
        set(&mut connection, "key", server);
        assert_eq!(get(&mut connection, "key"), server);
        assert_eq!(get(&mut connection, "key"), server);
    }
    assert_eq!((path.gets(ONE), path.gets(OTHER), path.hits(&cache)), (1, 2, 1));
}

#[test]
fn an_interception_outlives_a_crash_and_is_still_removed() {
    let Some(path) = Path::make() else { return };
    let before = path.traces();
    let cache = path.cache("redis://0.0.0.0:6380");
    path.intercept("--protocol redis --mode tproxy --to 0.0.0.0:6380 apply");
    set(&mut path.connect(ONE), "key", "value");
    drop(cache);
    // TPROXY passes connections without a listener.
    let mut direct = path.connect(ONE);
    assert_eq!(get(&mut direct, "key"), "value");
    assert!(path.ask(ONE, "CLIENT LIST").contains("addr=10.78.1.2:"));

    // A plan of the other kind replaces it. Connections redirected to a port without a listener are
    // refused.
    path.intercept("--protocol redis --to 0.0.0.0:6380 apply");
    let status = String::from_utf8(path.intercept("status").stdout).unwrap();
    assert!(status.contains("redirect to :6380") && !status.contains("fwmark"), "{status}");
    assert!(path.client.run(|| TcpStream::connect((ONE, 6379))).is_err());
    // A new cache takes over the plan that was applied before.
    let cache = path.cache("redis://0.0.0.0:6380");
    assert_eq!(get(&mut path.connect(ONE), "key"), "value");
    drop(cache);

    path.intercept("remove");
    assert_eq!(path.traces(), before);
    assert_eq!(get(&mut path.connect(ONE), "key"), "value");
}

#[test]
fn a_client_of_the_cache_itself_causes_no_loop() {
    let Some(path) = Path::make() else { return };
    let cache = path.cache("redis://0.0.0.0:6380");
    for plan in ["--to 0.0.0.0:6380", "--mode tproxy --to 0.0.0.0:6380"] {
        path.intercept(&format!("--protocol redis {plan} apply"));
        let client = redis::Client::open("redis://10.78.1.1:6380/").unwrap();
        let refused = path.client.run(|| client.get_connection_with_timeout(PATIENCE));
        assert!(refused.is_err(), "an origin was found where there is none");
    }
    cache.stderr_line("it connected to this listener itself");
    // The listener does not count these connections forever.
    let started = Instant::now();
    loop {
        let answer = path.router.run(|| admin(cache.admin_address(), "/stats"));
        let stats: Value = serde_json::from_str(&answer.body).unwrap();
        if stats["listeners"][0]["connections"] == 0 {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{stats:#}");
    }
}

#[test]
fn programs_beside_the_cache_are_intercepted_and_the_cache_is_not() {
    let Some(path) = Path::make() else { return };
    let before = path.traces();
    let cache = path.cache("redis://127.0.0.1:6380");
    path.intercept("--protocol redis --to 127.0.0.1:6380 --local --cache-user 0 apply");
    path.ask(ONE, "SET key value");
    // The first read of each connection is forwarded, with the query of the connection's rights.
    let as_nobody =
        format!("setpriv --reuid 65534 --clear-groups redis-cli -h {ONE} -r 10 GET key");
    for _ in 0..3 {
        assert!(path.router.sh(&as_nobody).split_whitespace().eq(["value"; 10]));
    }
    let (hits, gets) = (path.hits(&cache), path.gets(ONE));
    assert!(hits > 0 && hits + gets == 30, "{hits} hits, {gets} at the origin");
    // The cache's own user connects directly.
    assert_eq!(path.router.sh(&format!("redis-cli -h {ONE} GET key")).trim(), "value");
    assert_eq!((path.hits(&cache), path.gets(ONE)), (hits, gets + 1));
    path.intercept("remove");
    assert_eq!(path.traces(), before);
    assert!(path.router.sh(&as_nobody).split_whitespace().eq(["value"; 10]));
    assert_eq!((path.hits(&cache), path.gets(ONE)), (hits, gets + 11));
}

#[test]
fn without_the_right_to_it_says_so_and_still_prints() {
    let Some(namespace) = Namespace::make() else { return };
    let enroute = env!("CARGO_BIN_EXE_enroute");
    let plan = "intercept --protocol mongodb --to 0.0.0.0:27018";
    let rightless = format!("setpriv --bounding-set -net_admin {enroute} {plan}");
    assert!(namespace.sh(&format!("{rightless} print")).contains("tcp dport 27017"));
    for action in ["apply", "remove", "status"] {
        let said = namespace.sh(&format!("{rightless} {action} 2>&1 && exit 1 || true"));
        assert!(said.contains("CAP_NET_ADMIN"), "{said}");
    }
    assert_eq!(namespace.sh("nft list ruleset"), "");
    let told = namespace.sh(&format!("{enroute} intercept status"));
    assert_eq!(told, "not applied\n");
    for mode in ["redirect", "tproxy"] {
        namespace.sh(&format!("{enroute} {plan} --mode {mode} print | nft -c -f -"));
    }
}
