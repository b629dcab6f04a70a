//! The configuration is reloaded by SIGHUP and by `POST /reload` while a client is connected:
//! options that can change at once do, others are named, and a file with a mistake changes nothing.

use std::{net::SocketAddr, time::Instant};

use serde_json::Value;

use crate::support::{
    enroute::{Enroute, admin, admin_post},
    origins::Redis,
    process::PATIENCE,
};

struct World {
    redis: Redis,
    enroute: Enroute,
    admin: SocketAddr,
    client: redis::Connection,
    direct: redis::Connection,
}

fn connection(address: SocketAddr) -> redis::RedisResult<redis::Connection> {
    redis::Client::open(format!("redis://{address}/")).unwrap().get_connection()
}

fn file(redis: &Redis, top: &str, listener: &str) -> String {
    format!(
        "{top}\n[admin]\nlisten = \"127.0.0.1:0\"\n[[listener]]\nlisten = \"redis://127.0.0.1:0\"\n\
         origin = \"redis://{}\"\n{listener}\n",
        redis.address()
    )
}

impl World {
    fn start(top: &str, listener: &str) -> Option<Self> {
        let redis = Redis::start()?;
        let text = file(&redis, top, listener);
        let enroute = Enroute::start_with_config(&["--log", "info", "cache"], &text);
        let admin = enroute.admin_address();
        let client = connection(enroute.listen_address("redis")).expect("the cache listens");
        let direct = redis.connection();
        Some(Self { redis, enroute, admin, client, direct })
    }

    fn write(&self, top: &str, listener: &str) {
        self.enroute.write_config(&file(&self.redis, top, listener));
    }

    fn reload(&self) -> (u16, Value) {
        let answer = admin_post(self.admin, "/reload", "");
        (answer.status, serde_json::from_str(&answer.body).expect("JSON"))
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&admin(self.admin, "/stats").body).expect("JSON")
    }

    fn get(&mut self, key: &str) -> String {
        redis::cmd("GET").arg(key).query(&mut self.client).expect("still connected")
    }

    /// Stores `before` in the cache, then writes `after` to the origin, bypassing the cache.
    fn store_then_bypass(&mut self, key: &str, before: &str, after: &str) {
        redis::cmd("SET").arg(key).arg(before).exec(&mut self.client).expect("still connected");
        let (started, hits) = (Instant::now(), self.stats()["reads"]["hits"].clone());
        while self.stats()["reads"]["hits"] == hits {
            assert_eq!(self.get(key), before);
            assert!(started.elapsed() < PATIENCE, "{key} is never a hit");
        }
        redis::cmd("SET").arg(key).arg(after).exec(&mut self.direct).expect("the origin is up");
        assert_eq!(self.get(key), before, "a hit");
    }
}

#[test]
fn options_change_while_clients_stay_connected() {
    let Some(mut world) = World::start("", "") else { return };
    let process = |world: &World, line: &str| world.enroute.stderr_line(line);

    // A shorter TTL applies to entries that are already stored.
    world.store_then_bypass("user:1", "one", "two");
    world.write("[storage]\nttl = \"90s\"", "");
    world.enroute.process().signal("HUP");
    process(&world, "SIGHUP: [storage] ttl changed");
    process(&world, "a ttl is shorter now: all entries dropped");
    assert_eq!(world.get("user:1"), "two");
    assert_eq!(world.stats()["listeners"][0]["staleness_bound_seconds"], 90.0);

    // An excluded key is no longer a hit, on any connection.
    world.store_then_bypass("user:1", "three", "four");
    let (top, exclude) = ("workers = 1\n[storage]\nttl = \"90s\"", "exclude = [\"user:*\"]");
    world.write(top, exclude);
    let (status, reloaded) = world.reload();
    let expected = serde_json::json!({
        "changed": ["[[listener]] redis://127.0.0.1:0 exclude"], "needs_restart": ["workers"],
    });
    assert_eq!((status, reloaded), (200, expected));
    assert_eq!(world.get("user:1"), "four");
    process(&world, "POST /reload: [[listener]] redis://127.0.0.1:0 exclude changed");
    process(&world, "POST /reload: workers changed in the file; restart to apply it");

    // A connection limit: the connected client stays, another is refused.
    let top = "workers = 1\n[storage]\nttl = \"90s\"\n[limits]\nconnections_max = 1";
    world.write(top, exclude);
    world.enroute.process().signal("HUP");
    process(&world, "SIGHUP: [limits] connections_max changed");
    let another = connection(world.enroute.listen_address("redis"));
    let asked = another.and_then(|mut another| redis::cmd("PING").exec(&mut another));
    assert!(asked.is_err(), "the limit is reached");
    assert_eq!(world.stats()["listeners"][0]["connections_max"], 1);

    // A mistake anywhere in the file: nothing changes.
    world.write("[storage]\nttl = \"never\"", "");
    let (status, error) = world.reload();
    let error = error["error"].as_str().expect("an error").to_owned();
    assert!(status == 422 && error.contains("enroute.toml:2:7: "), "{status} {error}");
    process(&world, "POST /reload: reload failed, nothing changed");
    world.enroute.process().signal("HUP");
    assert!(process(&world, "SIGHUP: reload failed, nothing").contains("enroute.toml:2:7: "));
    assert_eq!(world.stats()["listeners"][0]["staleness_bound_seconds"], 90.0);
    redis::cmd("SET").arg("user:1").arg("five").exec(&mut world.direct).unwrap();
    assert_eq!(world.get("user:1"), "five", "still excluded");

    // The same file again: nothing has changed, but one option still needs a restart.
    world.write(top, exclude);
    let expected = serde_json::json!({"changed": [], "needs_restart": ["workers"]});
    assert_eq!(world.reload(), (200, expected));
    assert!(world.enroute.terminate().status.success());
}

#[test]
fn a_reload_over_http_needs_post_and_a_file() {
    let Some(world) = World::start("", "") else { return };
    assert_eq!(admin(world.admin, "/reload").status, 405);
    let origin = format!("redis://{}", world.redis.address());
    let arguments = ["cache", "--listen", "redis://127.0.0.1:0", "--origin", &origin];
    let without = Enroute::start(&[&arguments[..], &["--admin", "127.0.0.1:0"]].concat());
    let answer = admin_post(without.admin_address(), "/reload", "");
    assert!(answer.status == 403 && answer.body.contains("--config FILE"), "{answer:?}");
}

#[test]
fn ttl_follows_the_key() {
    let rules = "ttl = { \"session:*\" = \"70s\", \"*:forever\" = \"60min\" }";
    let Some(mut world) = World::start("[storage]\nttl = \"2min\"", rules) else { return };
    assert_eq!(world.stats()["listeners"][0]["staleness_bound_seconds"], 3600.0);
    let admin = world.admin.to_string();
    for (key, ttl, by) in [
        ("session:1", 70.0, "ttl: 70.0 s, by the rule for session:*"),
        ("session:forever", 70.0, "ttl: 70.0 s, by the rule for session:*"),
        ("user:forever", 3600.0, "ttl: 3600.0 s, by the rule for *:forever"),
        ("user:1", 120.0, "ttl: 120.0 s, by [storage]"),
    ] {
        world.store_then_bypass(key, "before", "after");
        let asked = ["explain", "--admin", &admin, "GET", key];
        let told = Enroute::start(&asked).wait().stdout;
        assert!(told.contains("result: hit") && told.contains(by), "{told}");
        let left = told.split("dropped in ").nth(1).and_then(|rest| rest.split(' ').next());
        let left: f64 = left.expect("its age").parse().expect("seconds");
        assert!(left <= ttl && left > ttl - 60.0, "{told}");
    }
    // A shorter TTL applies at once.
    world.write("[storage]\nttl = \"2min\"", &rules.replace("70s", "65s"));
    let changed = serde_json::json!(["[[listener]] redis://127.0.0.1:0 ttl"]);
    assert_eq!(world.reload().1["changed"], changed);
    assert_eq!(world.get("session:1"), "after");
    world.write("[storage]\nttl = \"3min\"", &rules.replace("70s", "80s"));
    world.store_then_bypass("user:1", "before", "after");
    assert_eq!(world.reload().0, 200);
    assert_eq!(world.get("user:1"), "before", "a longer ttl drops nothing");
}
