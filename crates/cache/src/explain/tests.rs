use std::{sync::Arc, time::Duration};

use super::{Asked, Place, Speaker, find_request, judge};
use crate::{
    filter::{Flow, memcache, mongo, resp},
    key::{Key, Scope},
    lease::Outcome,
    principal::{Finding, Proof, Standing},
    stats::Stats,
    storage::{
        Answer, Config, Given, Question, Storage,
        shards::{Handle, Shards},
    },
};

const SECOND: Duration = Duration::from_secs(1);
const STORED_AT: Duration = Duration::from_secs(100);
const SECRET: &str = "do-not-show";

struct World {
    shards: Arc<Shards>,
    storage: Handle,
    redis: Arc<resp::Settings>,
}

impl World {
    fn new(memory: store::Config) -> Self {
        let config = Config { memory, ..Config::default() };
        let shards = Arc::new(Shards::new(&config, 1));
        let storage = Handle::new(Arc::clone(&shards), Arc::new(Stats::default()));
        let redis = resp::Settings { origin: "redis".to_owned(), ..resp::Settings::default() };
        Self { shards, storage, redis: Arc::new(redis) }
    }

    fn explain(&self, speaker: Speaker<'_>, words: &str, now: Duration) -> Result<String, String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let place = Place { shards: &self.shards, bound: 300 * SECOND, fed: false, now };
        speaker.explain(Asked { words: &words, database: 0 }, place)
    }

    fn redis(&self, words: &str, now: Duration) -> String {
        self.explain(Speaker::Resp(&self.redis), words, now).expect("a read")
    }

    fn key<'k>(&self, key: &'k str) -> Key<'k> {
        Key::new(resp::namespace(&self.redis, 0), key.as_bytes())
    }

    /// Stores an answer for a connection whose rights are `proof`.
    fn store(&mut self, key: Key<'_>, variant: &[u8], proof: Proof<'_>) {
        let mut standing = Standing::new(10 * SECOND);
        standing.settle(Finding::Proven(proof), STORED_AT);
        let principal = standing.receiver().expect("proven");
        let question = Question { key, variant, principal: Some(principal) };
        let Answer::Miss(Ok(grant)) = self.storage.read(question, None, STORED_AT, |_| {}) else {
            panic!("a lease is expected");
        };
        let (answer, asked_at) = (SECRET.as_bytes(), STORED_AT);
        let (ttl, _) = self.redis.keys.current().ttl_of(key.bytes);
        let expires_at = Some(asked_at + ttl);
        let given = Given { key, variant, principal, answer, asked_at, expires_at };
        self.storage.fill(grant.lease, given, STORED_AT).expect("stored");
    }
}

#[track_caller]
fn assert_says(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(!text.contains(SECRET), "a value is shown:\n{text}");
}

#[test]
fn a_stored_key_is_a_hit_with_age_identity_bound_and_what_drops_it() {
    let mut world = World::new(store::Config::default());
    let missed = world.redis("GET user:1", STORED_AT);
    assert_says(&missed, &["result: miss (not-stored)", "staleness bound: 300.0 s (ttl)"]);
    world.store(world.key("user:1"), b"", Proof::Unrestricted);
    let hit = world.redis("get user:1", STORED_AT + 12 * SECOND);
    assert_says(
        &hit,
        &[
            "result: hit",
            "stored for: connections with all rights (RESP2, RESP3)",
            "age: at most 12.0 s; dropped in 288.0 s at the latest",
            "staleness bound: 300.0 s (ttl)",
            "dropped by: a write to the key",
        ],
    );
    let later = world.redis("GET user:1", STORED_AT + 300 * SECOND);
    assert_says(&later, &["result: miss (not-stored)"]);
}

#[test]
fn answers_are_told_apart_by_command_and_protocol_version() {
    let mut world = World::new(store::Config::default());
    world.store(world.key("h"), b"\x03hgetall", Proof::Unrestricted);
    assert_says(&world.redis("HGETALL h", STORED_AT), &["result: hit", "all rights (RESP3)\n"]);
    let other = world.redis("HLEN h", STORED_AT);
    assert_says(&other, &["result: miss (not-stored)", "other answers of the key: 1"]);
}

#[test]
fn what_others_may_read_is_told_without_their_names() {
    let mut world = World::new(store::Config::default());
    world.store(world.key("k"), b"", Proof::Name(b"alice-of-accounting"));
    let text = world.redis("GET k", STORED_AT + 4 * SECOND);
    assert_says(&text, &["result: hit", "stored for: the user ", "proven for 6.0 s more"]);
    assert!(!text.contains("alice"), "{text}");
    let later = world.redis("GET k", STORED_AT + 10 * SECOND);
    assert_says(&later, &["result: miss (not-stored)", "other answers of the key: 1"]);
}

#[test]
fn several_keys_are_told_one_by_one() {
    let mut world = World::new(store::Config::default());
    world.store(world.key("a"), b"", Proof::Unrestricted);
    let text = world.redis("MGET a b", STORED_AT);
    let (first, second) = text.split_once("key 2").expect("two keys");
    assert_says(first, &["result: hit"]);
    assert_says(second, &["result: miss (not-stored)", "dropped by: "]);
}

#[test]
fn a_write_on_its_way_is_named_as_the_reason() {
    let mut world = World::new(store::Config::default());
    world.store(world.key("k"), b"", Proof::Unrestricted);
    let write = world.storage.write_sent(Scope::Key(world.key("k")).into());
    let text = world.redis("GET k", STORED_AT);
    assert_says(&text, &["result: miss (write-pending)", "stored for: connections with all"]);
    world.storage.write_settled(write, Outcome::Refused);
    assert_says(&world.redis("GET k", STORED_AT), &["result: hit"]);
    let write = world.storage.write_sent(Scope::Key(world.key("k")).into());
    world.storage.write_lost(write, STORED_AT);
    assert_says(&world.redis("GET k", STORED_AT), &["result: miss (quarantine)"]);
}

#[test]
fn what_is_never_a_hit_and_what_is_no_read_are_told() {
    let world = World::new(store::Config::default());
    let text = world.redis("RANDOMKEY", STORED_AT);
    assert_says(&text, &["result: never a hit (command)"]);
    let mongo = Arc::new(mongo::Settings::default());
    for (speaker, words, expected) in [
        (Speaker::Resp(&world.redis), "SET k v", "a command that reads"),
        (Speaker::Resp(&world.redis), "SELECT 3", "a command that reads"),
        (Speaker::Mongo(&mongo), "drop shop.items", "find DATABASE.COLLECTION FILTER"),
    ] {
        let error = world.explain(speaker, words, STORED_AT).expect_err("no read");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn looking_is_no_use_of_an_entry_and_takes_no_lease() {
    let memory = store::Config {
        items_max: 2,
        replacement: store::Replacement::Lru,
        ..store::Config::default()
    };
    let mut world = World::new(memory);
    for key in ["a", "b"] {
        world.store(world.key(key), b"", Proof::Unrestricted);
    }
    for _ in 0..3 {
        assert_says(&world.redis("GET a", STORED_AT), &["result: hit"]);
        assert_says(&world.redis("GET c", STORED_AT), &["result: miss (not-stored)"]);
    }
    world.store(world.key("c"), b"", Proof::Unrestricted);
    assert_says(&world.redis("GET a", STORED_AT), &["result: miss (not-stored)"]);
    assert_says(&world.redis("GET b", STORED_AT), &["result: hit"]);
    assert_eq!((world.storage.stats().hits.value(), world.storage.stats().misses()), (0, 0));
}

#[test]
fn a_find_is_told_for_each_way_of_a_driver_to_ask() {
    let mut world = World::new(store::Config::default());
    let fields = vec!["shop.users.email".parse().expect("a field")];
    let settings =
        Arc::new(mongo::Settings { unique_fields: fields, ..mongo::Settings::default() });
    // The request as a driver on a direct connection to one server sends it.
    let words = ["find", "shop.users", "{\"_id\":42}"].map(str::to_owned);
    let bytes = find_request(&words).expect("a find");
    let filter = mongo::Mongo::new(Arc::clone(&settings));
    let (namespace, key, mut variant) = judge(filter, &bytes, STORED_AT, |flow, _| match flow {
        Flow::Read(read) => (read.key.namespace, read.key.bytes.to_vec(), read.variant.to_vec()),
        other => panic!("{other:?}"),
    })
    .expect("named");
    variant[1] = 1;
    world.store(Key::new(namespace, &key), &variant, Proof::Unrestricted);

    let told = |words: &str| world.explain(Speaker::Mongo(&settings), words, STORED_AT);
    let text = told("find shop.users {\"_id\":42.0}").expect("a find");
    assert_says(&text, &["result: hit", "all rights (primary preferred)", "has this _id"]);
    let text = told("find shop.users {\"email\":\"x\"}").expect("a find");
    assert_says(&text, &["result: miss (not-stored)", "any write to the collection"]);
    let text = told("find shop.users {\"name\":\"x\"}").expect("a find");
    assert_says(&text, &["result: never a hit (not-by-key)"]);
}

#[test]
fn no_command_of_memcached_is_carried_out() {
    let world = World::new(store::Config::default());
    let settings = Arc::new(memcache::Settings::default());
    let told = |words: &str| world.explain(Speaker::Memcache(&settings), words, STORED_AT);
    assert_says(&told("get k").expect("a get"), &["result: miss (not-stored)", "flush_all"]);
    for words in ["flush_all 10", "get", "get k\r\nflush_all", "set k 0 0 1"] {
        let error = told(words).expect_err("no read");
        assert!(error.contains("expected get, gets or mg"), "{words:?}: {error}");
    }
}
