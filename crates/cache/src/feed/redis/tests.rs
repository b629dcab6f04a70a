use std::{sync::Arc, time::Duration};

use super::{Clusters, Config, Feed};
use crate::{
    filter::resp::{Settings, namespace},
    key::Key,
    principal::{Finding, Principal, Proof, Standing},
    rules::Rules,
    storage::{self, Answer, Given, Grant, MemoryStorage, Question, Storage},
};

const NOW: Duration = Duration::from_secs(1);
const STANDS: &[u8] = b"%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n";

/// The reply to `CLUSTER INFO` of a node of a complete cluster.
const COMPLETE: &[u8] = b"=38\r\ntxt:cluster_state:ok\r\ncluster_size:3\r\n\r\n";

/// A reply to `CLUSTER SLOTS`: a node at this port owns all of them.
fn owners(port: &str) -> Vec<u8> {
    let node = format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}").into_bytes()
}

struct World {
    settings: Arc<Settings>,
    storage: MemoryStorage,
    feed: Feed,
}

impl World {
    fn new() -> Self {
        Self::of(Settings { feed: true, ..Settings::default() })
    }

    /// A feed of a node of a cluster that has answered everything.
    fn node() -> Self {
        let mut world = Self::of(Settings { feed: true, clustered: true, ..Settings::default() });
        world.feed.connected(NOW);
        world.hear(STANDS);
        assert!(world.lease(0).is_none(), "the owners are not known yet");
        world.hear(COMPLETE);
        world.hear(&owners("7000"));
        world
    }

    fn of(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let mut storage = MemoryStorage::new(storage::Config::default(), 0);
        let mut clusters = Clusters::default();
        let feed = Feed::new(Arc::clone(&settings), Config::default(), &mut clusters, &mut storage);
        Self { settings, storage, feed }
    }

    fn standing() -> Self {
        let mut world = Self::new();
        world.feed.connected(NOW);
        world.hear(STANDS);
        world
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.feed.receive(bytes, &mut self.storage, NOW).unwrap();
    }

    fn read(&mut self, database: u32) -> Answer {
        let key = Key::new(namespace(&self.settings, database), b"k");
        let principal = principal();
        let question = Question { key, variant: b"get", principal: Some(&principal) };
        self.storage.read(question, None, NOW, |_| ())
    }

    fn lease(&mut self, database: u32) -> Option<crate::lease::Lease> {
        match self.read(database) {
            Answer::Miss(Ok(Grant { lease, .. })) => Some(lease),
            _ => None,
        }
    }

    fn fill(&mut self, lease: crate::lease::Lease, database: u32) -> bool {
        let key = Key::new(namespace(&self.settings, database), b"k");
        let given = Given {
            key,
            variant: b"get",
            principal: &principal(),
            answer: b"$v",
            asked_at: NOW,
            expires_at: None,
        };
        self.storage.fill(lease, given, NOW).is_ok()
    }
}

fn principal() -> Principal {
    let mut standing = Standing::new(NOW);
    standing.settle(Finding::Proven(Proof::Unrestricted), NOW);
    standing.receiver().expect("proven").clone()
}

#[test]
fn nothing_is_stored_until_the_feed_stands() {
    let mut world = World::new();
    assert!(world.lease(0).is_none());
    world.feed.connected(NOW);
    assert_eq!(
        world.feed.output().bytes(),
        b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
          *4\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nBCAST\r\n"
    );
    let (hello, tracking) = STANDS.split_at(STANDS.len() - 5);
    world.hear(hello);
    assert!(world.lease(0).is_none());
    world.hear(tracking);
    let lease = world.lease(0).unwrap();
    assert!(world.fill(lease, 0));
    assert_eq!(world.read(0), Answer::Hit);
}

#[test]
fn only_what_the_rules_include_is_asked_for() {
    let mut world = World::new();
    world.settings.keys.replace(including(&["user:*", "user:1*"]));
    world.feed.connected(NOW);
    let sent = String::from_utf8_lossy(world.feed.output().bytes()).into_owned();
    assert!(sent.ends_with("$5\r\nBCAST\r\n$6\r\nPREFIX\r\n$5\r\nuser:\r\n"), "{sent}");
}

fn including(patterns: &[&str]) -> Rules {
    let include = patterns.iter().map(|&pattern| pattern.into()).collect();
    Rules { include, ..Rules::default() }
}

#[test]
fn keys_included_later_are_stored_once_the_feed_reports_them() {
    let mut world = World::new();
    let keys = Arc::clone(&world.settings.keys);
    keys.replace(including(&["user:*"]));
    world.feed.connected(NOW);
    world.hear(STANDS);
    keys.replace(including(&["user:1*"]));
    assert!(world.feed.handle_timeout(NOW).is_ok(), "fewer keys are reported already");
    keys.replace(including(&["*"]));
    assert!(keys.current().allow(b"user:2") && !keys.current().allow(b"k"));
    assert!(world.feed.handle_timeout(NOW).is_err(), "the origin must be asked for more");
    world.feed.lost(&mut world.storage);
    world.feed.connected(NOW);
    world.hear(STANDS);
    assert!(keys.current().allow(b"k"));
    assert!(world.feed.handle_timeout(NOW).is_ok());
}

#[test]
fn a_named_key_is_dropped_and_its_late_reply_is_not_stored() {
    let mut world = World::standing();
    let lease = world.lease(0).unwrap();
    assert!(world.fill(lease, 0));
    // In pieces, as TCP may deliver it.
    for byte in b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\nj\r\n$1\r\nk\r\n" {
        world.hear(&[*byte]);
    }
    let late = world.lease(0).expect("dropped, and free to be read again");
    world.hear(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert!(!world.fill(late, 0));
}

#[test]
fn a_flush_drops_every_database_in_use() {
    let mut world = World::standing();
    world.settings.databases.choose(3);
    for database in [0, 3] {
        let lease = world.lease(database).unwrap();
        assert!(world.fill(lease, database));
    }
    world.hear(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
    for database in [0, 3] {
        let lease = world.lease(database).expect("no longer there");
        world.storage.release(lease);
    }
}

#[test]
fn a_lost_feed_drops_all_and_keeps_closed_until_it_stands_again() {
    let mut world = World::standing();
    let lease = world.lease(0).unwrap();
    assert!(world.fill(lease, 0));
    world.feed.lost(&mut world.storage);
    assert!(!world.feed.is_open());
    assert!(world.lease(0).is_none());
    world.feed.connected(NOW);
    world.hear(STANDS);
    assert!(world.lease(0).is_some(), "what was stored before the loss is gone");
}

#[test]
fn silence_ends_it_and_a_ping_is_asked_before() {
    let mut world = World::standing();
    world.feed.output().clear();
    assert!(world.feed.handle_timeout(NOW + Duration::from_secs(1)).is_ok());
    assert_eq!(world.feed.output().bytes(), b"*1\r\n$4\r\nPING\r\n");
    assert!(world.feed.handle_timeout(NOW + Duration::from_secs(5)).is_err());
}

#[test]
fn an_origin_that_refuses_is_an_error_that_says_so() {
    let mut world = World::new();
    world.feed.connected(NOW);
    let error = world.feed.receive(b"-NOAUTH no\r\n", &mut world.storage, NOW).unwrap_err();
    assert!(error.to_string().contains("NOAUTH no"), "{error}");
}

#[test]
fn a_node_is_asked_for_the_owners_of_its_slots_in_place_of_a_ping() {
    let mut world = World::node();
    let ask = b"*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    assert!(world.feed.output().bytes().ends_with(ask));
    world.feed.output().clear();
    assert!(world.feed.handle_timeout(NOW + Duration::from_secs(1)).is_ok());
    assert_eq!(world.feed.output().bytes(), ask);
}

#[test]
fn a_change_of_owners_drops_all_and_the_same_owners_nothing() {
    let mut world = World::node();
    // Selected by a client of another listener of the cluster.
    for database in [0, 3] {
        let lease = world.lease(database).expect("open");
        assert!(world.fill(lease, database));
    }
    world.hear(COMPLETE);
    world.hear(&owners("7000"));
    assert_eq!((world.read(0), world.read(3)), (Answer::Hit, Answer::Hit));
    world.hear(COMPLETE);
    world.hear(&owners("7001"));
    for database in [0, 3] {
        let late = world.lease(database).expect("dropped");
        world.hear(&owners(if database == 0 { "7002" } else { "7003" }));
        assert!(!world.fill(late, database), "read before the change");
    }
}

#[test]
fn a_node_whose_cluster_is_not_complete_is_no_origin() {
    let mut world = World::node();
    let failed = b"=24\r\ntxt:cluster_state:fail\r\n\r\n";
    let error = world.feed.receive(failed, &mut world.storage, NOW).unwrap_err();
    assert!(error.to_string().contains("cluster_state:fail"), "{error}");
}
