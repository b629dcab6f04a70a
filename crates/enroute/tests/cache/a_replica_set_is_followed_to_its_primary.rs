//! The cache follows the primary that the members of a replica set report. Data that only the
//! former primary had is not served once the next one is used. Drivers stay connected to the cache.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bson::{Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{ClientOptions, ReadPreference, SelectionCriteria};
use mongodb::sync::{Client, Collection};

use crate::support::directory::{TemporaryDirectory, python};
use crate::support::dns::NameServer;
use crate::support::enroute::Enroute;
use crate::support::process::{PATIENCE, Process};
use crate::support::replica::{Kind, Replica};
use crate::support::replica_set::ReplicaSet;
use crate::support::secured::{certificates, origin_tls, server};

fn listener(origin: &str, options: &str) -> String {
    format!("[[listener]]\nlisten = \"mongodb://127.0.0.1:0\"\norigin = \"{origin}\"\n{options}\n")
}

fn cache(listeners: &str) -> Enroute {
    Enroute::start_with_config(&["--log", "info", "cache"], &format!("workers = 2\n{listeners}"))
}

fn members(count: usize) -> ReplicaSet {
    let mut set = ReplicaSet::start(count);
    set.elect(0, |_| true);
    set
}

/// A driver's view of the collection; it also records the servers that the driver has connected to.
struct Driver {
    users: Collection<Document>,
    opened: Arc<Mutex<BTreeSet<String>>>,
}

impl Driver {
    fn of(enroute: &Enroute, options: &str) -> Self {
        let url = format!("mongodb://{}/{options}", enroute.listen_address("mongodb"));
        let mut read = ClientOptions::parse(url).run().expect("a URL");
        let opened = Arc::default();
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::clone(&opened);
        read.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if let SdamEvent::ServerOpening(server) = event {
                seen.lock().unwrap().insert(server.address.to_string());
            }
        }));
        let client = Client::with_options(read).expect("good options");
        Self { users: client.database("shop").collection("users"), opened }
    }

    fn opened(&self) -> BTreeSet<String> {
        self.opened.lock().unwrap().clone()
    }

    fn inserts(&self, id: &str) {
        persist("insert", || self.users.insert_one(doc! { "_id": id }).run());
    }

    fn has(&self, id: &str) -> bool {
        persist("find", || self.users.find_one(doc! { "_id": id }).run()).is_some()
    }

    /// Reads until the reply comes from storage.
    fn becomes_a_hit(&self, id: &str, origin: &Replica) {
        let started = Instant::now();
        loop {
            let before = origin.reads();
            assert!(self.has(id));
            if origin.reads() == before {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "never a hit");
        }
    }
}

/// Retries as an application does while there is no primary.
fn persist<T>(what: &str, run: impl Fn() -> mongodb::error::Result<T>) -> T {
    let started = Instant::now();
    loop {
        match run() {
            Ok(done) => return done,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{what}: {error}"),
        }
    }
}

#[test]
fn what_only_the_former_primary_had_is_never_served_by_the_next() {
    for feed in ["", "feed = {}"] {
        let mut set = members(3);
        let enroute = cache(&listener(&set.origin(""), feed));
        enroute.stderr_line(&format!("the primary of the replica set `rs` is {}", set.host(0)));
        if !feed.is_empty() {
            enroute.stderr_line("feed established");
        }
        let driver = Driver::of(&enroute, "?replicaSet=rs");
        driver.inserts("kept");
        set.replicate(0);
        driver.inserts("lost");
        driver.becomes_a_hit("lost", set.member(0));
        // The first member steps down; writes that the second one does not have are rolled back.
        set.elect(1, |_| true);
        enroute.stderr_line(&format!("is {}; before it was {}", set.host(1), set.host(0)));
        assert!(!driver.has("lost") && driver.has("kept"));
        driver.inserts("later");
        assert!(set.member(1).records().len() > set.member(0).records().len());
        driver.becomes_a_hit("later", set.member(1));
        // The second member is killed, and returns without knowing of the next election.
        set.member(1).bring_down();
        set.elect(2, |number| number == 0);
        enroute.stderr_line(&format!("is {}; before it was {}", set.host(2), set.host(1)));
        assert!(!driver.has("later") && driver.has("kept"));
        set.member(1).bring_up();
        enroute.stderr_line("it says that it is the primary, by an older election");
        driver.inserts("last");
        driver.becomes_a_hit("last", set.member(2));
        let only = BTreeSet::from([enroute.listen_address("mongodb").to_string()]);
        assert_eq!(driver.opened(), only);
    }
}

#[test]
fn members_with_tls_are_followed_by_the_names_in_their_certificates() {
    let Some(workshop) = certificates() else { return };
    let named = |address: SocketAddr| format!("localhost:{}", address.port());
    let tls = server(&workshop, "localhost");
    let mut set = ReplicaSet::start_with(2, Some(&tls), named);
    set.elect(0, |_| true);
    let authority = workshop.path("authority.pem").display().to_string().replace('/', "%2F");
    let origin = set.origin(&format!("&tls=true&tlsCAFile={authority}"));
    let enroute = cache(&listener(&origin, "feed = {}"));
    enroute.stderr_line("feed established");
    let driver = Driver::of(&enroute, "?replicaSet=rs");
    what_is_lost_is_not_served(&enroute, &mut set, &driver);
}

/// Fails over from the first member to the second, which lacks the latest writes.
fn what_is_lost_is_not_served(enroute: &Enroute, set: &mut ReplicaSet, driver: &Driver) {
    driver.inserts("lost");
    driver.becomes_a_hit("lost", set.member(0));
    set.elect(1, |_| true);
    enroute.stderr_line(&format!("is {}; before it was {}", set.host(1), set.host(0)));
    assert!(!driver.has("lost"));
}

#[test]
fn records_in_dns_name_the_members() {
    let Some(workshop) = certificates() else { return };
    let named = |address: SocketAddr| format!("m.rs.enroute.test:{}", address.port());
    let tls = server(&workshop, "localhost");
    let mut set = ReplicaSet::start_with(2, Some(&tls), named);
    set.elect(0, |_| true);
    // The seed is not the primary, which is found from this member.
    let (name, port) = set.host(1).split_once(':').expect("a port");
    let hosts = vec![(name.to_owned(), port.parse().expect("a port"))];
    let Some(names) = NameServer::start(hosts, "authSource=admin&replicaSet=rs") else { return };
    let listener = listener("mongodb+srv://set.rs.enroute.test", &origin_tls(&workshop));
    let arguments = ["--log", "info", "cache"];
    let enroute = Enroute::start_resolving(&names.file(), &arguments, &listener);
    enroute.stderr_line(&format!("the primary of the replica set `rs` is {}", set.host(0)));
    let driver = Driver::of(&enroute, "");
    what_is_lost_is_not_served(&enroute, &mut set, &driver);
}

#[test]
fn reads_of_a_secondary_pass_to_one_and_are_not_stored() {
    let mut set = members(2);
    let secondary = set.origin("&readPreference=secondary");
    let listeners = listener(&set.origin(""), "") + &listener(&secondary, "");
    let enroute = cache(&listeners);
    enroute.stderr_line(&format!("a secondary of the replica set `rs` is {}", set.host(1)));
    let driver = Driver::of(&enroute, "?replicaSet=rs");
    driver.inserts("1");
    set.replicate(0);
    driver.becomes_a_hit("1", set.member(0));
    let lagging = || {
        persist("find at a secondary", || {
            let preference = ReadPreference::Secondary { options: None };
            let find = driver.users.find_one(doc! { "_id": "1" });
            find.selection_criteria(SelectionCriteria::ReadPreference(preference)).run()
        })
    };
    for _ in 0..3 {
        let before = set.member(1).reads();
        lagging();
        assert_eq!(set.member(1).reads(), before + 1);
    }
    assert_eq!(driver.opened().len(), 2, "{:?}", driver.opened());
    assert!(!driver.opened().contains(set.host(1)));
    // A driver with a direct connection may read from any member.
    let first = enroute.listen_address("mongodb").to_string();
    let second = driver.opened().into_iter().find(|address| *address != first).expect("two");
    let url = format!("mongodb://{second}/?directConnection=true");
    let direct: Collection<Document> =
        Client::with_uri_str(url).expect("a URL").database("shop").collection("users");
    for _ in 0..3 {
        let before = set.member(1).reads();
        assert!(persist("find", || direct.find_one(doc! { "_id": "1" }).run()).is_some());
        assert_eq!(set.member(1).reads(), before + 1);
    }
    // The members swap roles. A write through either listener drops the stored entry.
    set.elect(1, |_| true);
    driver.inserts("2");
    driver.becomes_a_hit("2", set.member(1));
    let before = set.member(0).reads();
    lagging();
    assert!(set.member(0).reads() > before);
}

#[test]
fn a_mongos_that_fails_is_replaced_by_the_next() {
    let routers = [Replica::start(Kind::Mongos), Replica::start(Kind::Mongos)];
    let [first, second] = routers.each_ref().map(Replica::address);
    let enroute = cache(&listener(&format!("mongodb://127.0.0.1:1,{first},{second}"), ""));
    let line = enroute.stderr_line("the mongos is ");
    let (used, other) = match line.contains(&format!("is {first} ")) {
        true => (&routers[0], &routers[1]),
        false => (&routers[1], &routers[0]),
    };
    let driver = Driver::of(&enroute, "");
    driver.inserts("1");
    driver.becomes_a_hit("1", used);
    other.has(used.records());
    used.bring_down();
    enroute.stderr_line(&format!("is {}; before it was", other.address()));
    let before = other.reads();
    assert!(driver.has("1"));
    assert!(other.reads() > before, "nothing of the one that failed is served");
}

#[test]
fn pymongo_reads_what_was_confirmed_through_elections() {
    let Some(python) = python() else { return };
    let mut set = members(3);
    let enroute = cache(&listener(&set.origin(""), ""));
    let directory = TemporaryDirectory::create();
    let stop = directory.path().join("stop");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/mongo_failover.py");
    let url = format!("mongodb://{}/?replicaSet=rs", enroute.listen_address("mongodb"));
    let clients = Process::start(Command::new(python).arg(script).arg(url).arg(&stop));
    for primary in [1, 2, 0, 1] {
        let before = confirmed(&clients.stdout());
        let started = Instant::now();
        while confirmed(&clients.stdout()) < before + 50 {
            let said = || format!("{}\n{}", clients.stdout(), enroute.process().stderr());
            assert!(started.elapsed() < PATIENCE && !clients.has_ended(), "{}", said());
            std::thread::yield_now();
        }
        set.hand_over(primary);
    }
    fs::write(&stop, "").expect("a writable directory");
    let ended = clients.wait();
    assert!(ended.status.success(), "{}\n{}", ended.stdout, ended.stderr);
}

/// Number of writes that were acknowledged to the clients.
fn confirmed(said: &str) -> u64 {
    let line = said.lines().rfind(|line| line.starts_with("confirmed="));
    line.map_or(0, |line| line["confirmed=".len()..].parse().expect("a number"))
}
