use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use super::{Clusters, Config, Feed};
use crate::{
    filter::resp::{Settings, namespace},
    key::Key,
    principal::{Finding, Principal, Proof, Standing},
    rules::{PREFIXES_MAX, Rules},
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

/// What the feed sends for keys that sessions want.
fn wanted(world: &mut World) -> String {
    world.feed.output().clear();
    let context = Context::from_waker(Waker::noop());
    let sends = world.feed.poll_wanted(&context).is_ready();
    let sent = String::from_utf8_lossy(world.feed.output().bytes()).into_owned();
    assert_eq!(sends, !sent.is_empty());
    sent
}

/// A feed by key that stands.
fn by_key() -> World {
    let mut world = World::new();
    world.settings.keys.replace(including(&["*k", "*j"]));
    world.feed.connected(NOW);
    let sent = String::from_utf8_lossy(world.feed.output().bytes()).into_owned();
    assert!(sent.ends_with("$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nOPTIN\r\n"), "{sent}");
    world.hear(STANDS);
    world
}

impl World {
    /// Whether the answer to a read of this key that is sent now may be stored.
    fn covers(&self, key: &str) -> bool {
        self.settings.tracked.covers(0, key.as_bytes(), self.settings.secret)
    }
}

#[test]
fn a_key_without_a_prefix_may_be_stored_once_the_origin_tracks_it() {
    let mut world = by_key();
    assert!(!world.covers("k") && !world.covers("k"));
    let asks =
        "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n*2\r\n$6\r\nEXISTS\r\n$1\r\nk\r\n";
    assert_eq!(wanted(&mut world), asks, "once");
    // A liveness check in between.
    assert!(world.feed.handle_timeout(NOW + Duration::from_secs(1)).is_ok());
    world.hear(b"+OK\r\n");
    assert!(!world.covers("k"), "not answered yet");
    world.hear(b":1\r\n+PONG\r\n");
    assert!(world.covers("k") && !world.covers("j"));
    // Wanted while it was asked for: once more does no harm.
    assert_eq!(wanted(&mut world).matches("EXISTS").count(), 2);
}

#[test]
fn a_reported_key_is_asked_for_again_if_it_was_read_since() {
    let report: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    let mut world = by_key();
    assert!(!world.covers("k"));
    wanted(&mut world);
    world.hear(b"+OK\r\n:0\r\n");
    world.hear(report);
    assert_eq!(wanted(&mut world), "", "nothing has read it since");
    assert!(!world.covers("k"));
    wanted(&mut world);
    world.hear(b"+OK\r\n:0\r\n");
    assert!(world.covers("k"));
    world.hear(report);
    assert!(wanted(&mut world).contains("$1\r\nk\r\n"));
    assert!(!world.covers("k"), "tracked no more, and not yet again");
    // The answer to the question and the next report, in the order in which they happened.
    world.hear(b"+OK\r\n:0\r\n");
    world.hear(report);
    assert!(!world.covers("k"));
}

#[test]
fn a_flush_and_a_loss_end_what_is_tracked() {
    let mut world = by_key();
    for ends in ["flush", "loss"] {
        assert!(!world.covers("k"));
        wanted(&mut world);
        world.hear(b"+OK\r\n:0\r\n");
        assert!(world.covers("k"), "before the {ends}");
        assert!(!world.covers("j"));
        if ends == "flush" {
            world.hear(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
        } else {
            wanted(&mut world);
            world.feed.lost(&mut world.storage);
            world.feed.connected(NOW);
            world.hear(STANDS);
        }
        assert!(!world.covers("k"), "after the {ends}");
    }
}

#[test]
fn a_key_that_the_feed_may_not_read_is_not_stored() {
    let mut world = by_key();
    assert!(!world.covers("k") && !world.covers("j"));
    wanted(&mut world);
    world.hear(b"+OK\r\n-NOPERM no\r\n+OK\r\n-NOPERM no\r\n");
    assert!(!world.covers("k") && !world.covers("j"));
    wanted(&mut world);
    let caching = world.feed.receive(b"-ERR no\r\n", &mut world.storage, NOW);
    assert!(caching.is_err(), "the next key would not be tracked either");
}

#[test]
fn a_feed_by_key_follows_the_rules() {
    let mut world = by_key();
    let keys = Arc::clone(&world.settings.keys);
    assert!(world.feed.handle_timeout(NOW).is_ok());
    for others in [&["*"][..], &["k*"], &[]] {
        keys.replace(including(others));
        assert!(world.feed.handle_timeout(NOW).is_err(), "{others:?} is no part of the keys");
    }
    let many: Vec<String> = (0..=PREFIXES_MAX).map(|number| format!("{number}:*")).collect();
    keys.replace(including(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(world.feed.handle_timeout(NOW).is_ok(), "more prefixes than are asked for");
}

#[test]
fn all_keys_are_reported_where_single_ones_would_not_do() {
    for settings in [
        Settings { feed: true, clustered: true, ..Settings::default() },
        Settings { feed: true, on_write: true, ..Settings::default() },
    ] {
        let mut world = World::of(settings);
        world.settings.keys.replace(including(&["*k"]));
        world.feed.connected(NOW);
        let sent = String::from_utf8_lossy(world.feed.output().bytes()).into_owned();
        assert!(sent.contains("BCAST"), "{sent}");
        assert!(world.covers("k"));
    }
}

#[test]
fn what_waits_to_be_tracked_is_bounded() {
    let mut world = by_key();
    for number in 0..2_000 {
        assert!(!world.covers(&format!("{number}k")));
    }
    assert_eq!(wanted(&mut world).matches("EXISTS").count(), 1_024);
    assert!(!world.covers(&"k".repeat((1 << 20) + 1)));
    assert_eq!(wanted(&mut world), "");
    // With these many replies missing, no more is asked for.
    for round in 0.. {
        (0..1_024).for_each(|number| assert!(!world.covers(&format!("{round}:{number}k"))));
        if wanted(&mut world).is_empty() {
            assert_eq!(round, 1);
            break;
        }
    }
}

#[test]
fn a_key_is_tracked_in_the_database_that_it_is_read_in() {
    let mut world = by_key();
    world.settings.databases.choose(3);
    let covers = |world: &World, database| {
        world.settings.tracked.covers(database, b"k", world.settings.secret)
    };
    assert!(!covers(&world, 3));
    assert!(wanted(&mut world).starts_with("*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3"));
    world.hear(b"+OK\r\n+OK\r\n:0\r\n");
    assert!(covers(&world, 3) && !covers(&world, 0));
    assert!(wanted(&mut world).starts_with("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3"));
    world.hear(b"+OK\r\n+OK\r\n:0\r\n");
    assert!(covers(&world, 3) && covers(&world, 0));
    world.hear(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert!(!covers(&world, 3) && !covers(&world, 0));
}

#[test]
fn what_the_feed_may_not_select_is_not_taken_for_tracked() {
    let mut world = by_key();
    let covers = |world: &World, database| {
        world.settings.tracked.covers(database, b"k", world.settings.secret)
    };
    assert!(!covers(&world, 3));
    wanted(&mut world);
    world.hear(b"-NOPERM no\r\n+OK\r\n:0\r\n");
    assert!(!covers(&world, 3));
    // Taken back, so that the next one is of another database.
    world.settings.tracked.begin(true);
    assert!(!covers(&world, 0));
    wanted(&mut world);
    world.hear(b"+OK\r\n+OK\r\n:0\r\n");
    assert!(covers(&world, 0));
}
