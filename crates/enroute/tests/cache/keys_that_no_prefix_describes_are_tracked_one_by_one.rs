//! If the rules include a part of the keys that no prefixes describe, the feed has the origin track
//! each key that is read, and no write to another key is reported.

use std::{net::SocketAddr, thread};

use redis::{Commands, Connection};
use serde_json::Value;

use crate::support::{
    database::Database,
    enroute::{Cache, Enroute, admin, admin_post},
    origins::Redis,
    process::until,
};

const OPTIONS: &str = "feed = {}\ninclude = [\"*:kept\"]";

#[test]
fn writes_around_the_cache_to_keys_that_were_read_are_seen() {
    let Some(origin) = Redis::start() else { return };
    follow(origin.address());
}

#[test]
fn writes_made_directly_at_the_database_are_seen() {
    follow(Database::start().address());
}

fn follow(origin: SocketAddr) {
    let cache = Cache::start_all(&[("redis", origin, OPTIONS)], "");
    let (mut through, mut around) = (cache.redis(), connect(origin));
    for round in 0..50 {
        let _: () = around.set("a:kept", round).unwrap();
        let before = cache.hits();
        until("a hit of the new value", || {
            through.get::<_, Option<i64>>("a:kept").unwrap() == Some(round) && cache.hits() > before
        });
    }
    // Absent keys and several keys at once are tracked too, in each database.
    for database in [0, 1] {
        redis::cmd("SELECT").arg(database).exec(&mut through).unwrap();
        redis::cmd("SELECT").arg(database).exec(&mut around).unwrap();
        let mut read = |expected: [Option<&str>; 2]| {
            let before = cache.hits();
            until(&format!("hits of {expected:?}"), || {
                let told: [Option<String>; 2] = through.mget(&["b:kept", "c:kept"]).unwrap();
                told.each_ref().map(Option::as_deref) == expected && cache.hits() >= before + 2.0
            });
        };
        read([None, None]);
        let _: () = around.set("c:kept", "c").unwrap();
        read([None, Some("c")]);
        let _: () = redis::cmd("FLUSHDB").query(&mut around).unwrap();
        read([None, None]);
    }
}

struct World {
    origin: Redis,
    enroute: Enroute,
    admin: SocketAddr,
}

impl World {
    fn start() -> Option<Self> {
        let origin = Redis::start()?;
        let text = Self::file(&origin, "*:kept");
        let enroute = Enroute::start_with_config(&["--log", "info", "cache"], &text);
        let admin = enroute.admin_address();
        enroute.stderr_line("feed established");
        Some(Self { origin, enroute, admin })
    }

    fn file(origin: &Redis, include: &str) -> String {
        format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[[listener]]\nlisten = \"redis://127.0.0.1:0\"\n\
             origin = \"redis://{}\"\nfeed = {{}}\ninclude = [\"{include}\"]\n",
            origin.address()
        )
    }

    fn through(&self) -> Connection {
        connect(self.enroute.listen_address("redis"))
    }

    fn count(&self, of: &str, name: &str) -> u64 {
        let stats: Value = serde_json::from_str(&admin(self.admin, "/stats").body).expect("JSON");
        stats[of][name].as_u64().expect("a count")
    }

    /// Reads `key` until it is a hit.
    fn store(&self, through: &mut Connection, key: &str) {
        let before = self.count("reads", "hits");
        until("a hit", || {
            let _: Option<String> = through.get(key).unwrap();
            self.count("reads", "hits") > before
        });
    }
}

/// The origin remembers what was read, and reports nothing else.
#[test]
fn only_what_was_read_is_reported() {
    let Some(world) = World::start() else { return };
    let (mut through, mut around) = (world.through(), world.origin.connection());
    (0..20).for_each(|number| world.store(&mut through, &format!("{number}:kept")));
    let info: String = redis::cmd("INFO").arg("stats").query(&mut around).unwrap();
    assert!(info.contains("tracking_total_keys:20\r\n"), "{info}");
    let reported = world.count("writes", "reported");
    for number in 0..1_000 {
        let _: () = around.set(format!("{number}:other"), "v").unwrap();
        let _: () = around.set(format!("{}:kept", 1_000 + number), "v").unwrap();
    }
    let _: () = around.set("7:kept", "new").unwrap();
    until("seen", || through.get::<_, Option<String>>("7:kept").unwrap().as_deref() == Some("new"));
    assert_eq!(world.count("writes", "reported") - reported, 1);
}

/// Which part of the keys is included may change while serving, and with it what is asked for.
#[test]
fn a_feed_by_key_becomes_one_of_prefixes_when_the_rules_do() {
    let Some(world) = World::start() else { return };
    let mut around = world.origin.connection();
    let prefixes = |around: &mut Connection| {
        let info: String = redis::cmd("INFO").arg("stats").query(around).unwrap();
        info.contains("tracking_total_prefixes:1\r\n")
    };
    assert!(!prefixes(&mut around));
    world.enroute.write_config(&World::file(&world.origin, "kept:*"));
    assert_eq!(admin_post(world.admin, "/reload", "").status, 200);
    until("a prefix is asked for", || prefixes(&mut around));
    let _: () = around.set("kept:a", "v").unwrap();
    world.store(&mut world.through(), "kept:a");
}

/// An origin that has no room for the keys reports those that it forgets.
#[test]
fn keys_that_the_origin_forgets_are_dropped() {
    let Some(origin) = Redis::start() else { return };
    let mut around = origin.connection();
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("tracking-table-max-keys").arg(10).exec(&mut around).unwrap();
    let cache = Cache::start_all(&[("redis", origin.address(), OPTIONS)], "");
    let mut through = cache.redis();
    for round in 0..3 {
        for number in 0..100 {
            let _: () = around.set(format!("{number}:kept"), round).unwrap();
        }
        for number in (0..100).chain(0..100) {
            until("the last value", || {
                let told: Option<i64> = through.get(format!("{number}:kept")).unwrap();
                told == Some(round)
            });
        }
    }
}

/// A report that is missed would leave an old value for good.
#[test]
fn many_writers_leave_the_last_value_of_each_key() {
    const KEYS: usize = 16;
    const ROUNDS: i64 = 300;
    let Some(origin) = Redis::start() else { return };
    let cache = Cache::start_all(&[("redis", origin.address(), OPTIONS)], "");
    let key = |number: usize| format!("{number}:kept");
    thread::scope(|threads| {
        for writer in 0..2 {
            let mut around = origin.connection();
            threads.spawn(move || {
                for round in 0..ROUNDS {
                    for number in (writer..KEYS).step_by(2) {
                        let _: () = around.set(key(number), round).unwrap();
                    }
                }
            });
        }
        for reader in 0..3 {
            let mut through = cache.redis();
            threads.spawn(move || {
                let mut last = [-1; KEYS];
                for step in 0..20_000 {
                    let number = (step * 7 + reader) % KEYS;
                    let told: i64 =
                        through.get::<_, Option<i64>>(key(number)).unwrap().unwrap_or(-1);
                    assert!(told >= last[number], "{told} after {}", last[number]);
                    last[number] = told;
                }
            });
        }
    });
    let mut through = cache.redis();
    for number in 0..KEYS {
        until("the last value", || {
            through.get::<_, Option<i64>>(key(number)).unwrap() == Some(ROUNDS - 1)
        });
    }
    assert!(cache.hits() > 0.0);
}

fn connect(address: SocketAddr) -> Connection {
    redis::Client::open(format!("redis://{address}/")).unwrap().get_connection().unwrap()
}
