use std::time::Duration;

use wire::mongo::{bson::Writer, message};

use super::{Action, Config, End, Event, Monitor, Told};
use crate::monitor::{Monitor as _, Pace, Records};

const START: Duration = Duration::from_secs(1);

struct World {
    monitor: Monitor,
    now: Duration,
    actions: Vec<Action>,
}

/// The fields of a reply to `hello`.
#[derive(Clone)]
struct Said<'a> {
    set: &'a str,
    role: &'a str,
    election: Option<u8>,
    set_version: Option<i64>,
    hosts: &'a [&'a str],
    me: Option<&'a str>,
    wire_version: i32,
    waits: bool,
}

const SET: Said<'_> = Said {
    set: "rs",
    role: "secondary",
    election: None,
    set_version: Some(1),
    hosts: &["a:1", "b:1", "c:1"],
    me: None,
    wire_version: 21,
    waits: false,
};

fn primary(election: u8) -> Said<'static> {
    Said { role: "isWritablePrimary", election: Some(election), ..SET }
}

fn reply(fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let (mut body, mut out) = (Vec::new(), Vec::new());
    Writer::write(&mut body, fill);
    message::write(&mut out, 2, 1, &body);
    out
}

impl Said<'_> {
    fn bytes(&self) -> Vec<u8> {
        // An ObjectId can be written only as it was read.
        let election = |number| {
            let mut document = vec![0x07];
            document.extend_from_slice(b"electionId\0");
            document.extend_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, number, 0]);
            let length = i32::try_from(document.len() + 4).unwrap();
            [length.to_le_bytes().as_slice(), &document].concat()
        };
        reply(|hello| {
            if !self.set.is_empty() {
                hello.str("setName", self.set);
                hello.array("hosts", |hosts| self.hosts.iter().for_each(|host| hosts.str(host)));
            }
            match self.role {
                "isdbgrid" => hello.str("msg", "isdbgrid"),
                role => hello.bool(role, true),
            }
            if let Some(number) = self.election {
                let document = election(number);
                let document = wire::mongo::bson::Document::parse(&document).unwrap();
                hello.element(&document.element("electionId").unwrap().unwrap());
            }
            self.set_version.iter().for_each(|version| hello.i64("setVersion", *version));
            self.me.iter().for_each(|me| hello.str("me", me));
            hello.i32("maxWireVersion", self.wire_version);
            if self.waits {
                hello.nested("topologyVersion", |version| version.i64("counter", 1));
            }
            hello.f64("ok", 1.0);
        })
    }
}

impl World {
    fn of(config: Config) -> Self {
        let mut world = Self { monitor: Monitor::new(config), now: START, actions: Vec::new() };
        world.step(Event::Time);
        world
    }

    fn set(seeds: &[&str]) -> Self {
        let seeds = seeds.iter().map(|seed| (*seed).to_owned()).collect();
        Self::of(Config { seeds, replica_set: Some("rs".to_owned()), ..Config::default() })
    }

    /// A monitor that follows `a:1`, the primary of election 1, after replies of all three members.
    fn following() -> Self {
        let mut world = Self::set(&["a:1", "b:1", "c:1"]);
        world.says("a:1", &primary(1));
        world.says("b:1", &SET);
        world.says("c:1", &SET);
        assert_eq!(world.monitor.used(), Some("a:1"));
        world.actions.clear();
        world
    }

    fn step(&mut self, event: Event<'_>) {
        let actions = self.monitor.step(event, self.now);
        self.actions.extend(actions);
    }

    fn end(&self, address: &str) -> End {
        let found = self.monitor.servers.iter().find(|(_, server)| server.address == address);
        *found.unwrap_or_else(|| panic!("{address} is not asked")).0
    }

    fn asks(&self, address: &str) -> bool {
        self.monitor.servers.values().any(|server| server.address == address)
    }

    /// The server sends this reply to its next request.
    fn says(&mut self, address: &str, said: &Said<'_>) {
        self.hears(address, &said.bytes());
    }

    fn hears(&mut self, address: &str, bytes: &[u8]) {
        let end = self.end(address);
        if !self.monitor.servers[&end].line.is_used() {
            self.wait();
        }
        self.step(Event::Connected(end));
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.step(Event::Received(end, first));
        self.step(Event::Received(end, rest));
    }

    fn wait(&mut self) {
        self.now += Duration::from_secs(1);
        self.step(Event::Time);
    }

    /// Changes of the server in use since the last call.
    fn moves(&mut self) -> Vec<String> {
        let actions = std::mem::take(&mut self.actions);
        let moves = actions.into_iter().filter_map(|action| match action {
            Action::Leave => Some("leave".to_owned()),
            Action::Follow(address) => Some(format!("follow {address}")),
            _ => None,
        });
        moves.collect()
    }

    fn told(&self, part: &str) -> bool {
        self.actions.iter().any(|action| match action {
            Action::Tell(told) => told.to_string().contains(part),
            _ => false,
        })
    }
}

#[test]
fn a_primary_is_found_from_one_secondary() {
    let mut world = World::set(&["b:1"]);
    assert_eq!(world.actions, [Action::Connect(0, "b:1".to_owned())]);
    world.says("b:1", &SET);
    assert_eq!((world.monitor.used(), world.asks("a:1"), world.asks("c:1")), (None, true, true));
    world.says("a:1", &primary(1));
    assert_eq!(world.moves(), ["follow a:1"]);
    // A repeated reply changes nothing.
    world.says("a:1", &primary(1));
    world.says("c:1", &SET);
    assert!(world.moves().is_empty());
}

#[test]
fn a_stepdown_leaves_at_once_and_the_next_primary_is_followed() {
    let mut world = World::following();
    world.says("a:1", &SET);
    assert!(world.told("a:1 is no longer the primary of the replica set `rs`: it is a secondary"));
    assert_eq!(world.moves(), ["leave"]);
    world.says("b:1", &primary(2));
    let told = "the primary of the replica set `rs` is b:1; before it was a:1";
    assert!(world.told(told), "{:?}", world.actions);
    assert_eq!(world.moves(), ["follow b:1"]);
}

#[test]
fn the_next_primary_is_followed_while_the_former_is_silent_or_cut_off() {
    let mut world = World::following();
    let end = world.end("a:1");
    world.step(Event::Lost(end, "connection reset"));
    assert_eq!((world.moves(), world.monitor.used()), (Vec::new(), Some("a:1")));
    world.says("b:1", &primary(2));
    assert_eq!(world.moves(), ["leave", "follow b:1"]);
    // `a:1` still claims to be the primary.
    world.says("a:1", &primary(1));
    assert!(world.told("a:1 cannot be used: it says that it is the primary, by an older election"));
    assert!(world.moves().is_empty());
    world.says("a:1", &SET);
    world.says("a:1", &primary(3));
    assert_eq!(world.moves(), ["leave", "follow a:1"]);
}

#[test]
fn a_primary_that_was_elected_again_may_have_lost_what_it_had() {
    let mut world = World::following();
    world.says("a:1", &primary(2));
    assert_eq!(world.moves(), ["leave", "follow a:1"]);
    // A new configuration without a new election loses no writes.
    world.says("a:1", &Said { set_version: Some(2), ..primary(2) });
    assert!(world.moves().is_empty());
}

#[test]
fn elections_and_configurations_are_compared_as_the_version_of_the_servers_does() {
    for (wire_version, follows) in [(21, true), (13, false)] {
        let mut world = World::set(&["a:1", "b:1"]);
        world.says("a:1", &Said { set_version: Some(2), wire_version, ..primary(1) });
        assert_eq!(world.moves(), ["follow a:1"]);
        // A newer election with an older configuration.
        world.says("b:1", &Said { wire_version, ..primary(2) });
        assert_eq!(!world.moves().is_empty(), follows, "{wire_version}");
    }
}

#[test]
fn a_member_of_another_set_is_neither_used_nor_believed() {
    let mut world = World::following();
    let other = Said { set: "other", hosts: &["x:1"], ..primary(9) };
    world.says("b:1", &other);
    assert!(world.told("expected a member of the replica set `rs`, found one of `other`"));
    assert!(world.moves().is_empty() && !world.asks("x:1"));
    // Requests to it continue; the mismatch is logged once.
    world.says("b:1", &other);
    assert!(!world.told("expected"));
    world.says("a:1", &other);
    assert_eq!(world.moves(), ["leave"]);
    for (said, found) in [
        (Said { set: "", role: "isWritablePrimary", ..SET }, "found a standalone server"),
        (Said { set: "", role: "isdbgrid", ..SET }, "found a mongos"),
    ] {
        world.says("c:1", &said);
        assert!(world.told(found), "{found}");
    }
}

#[test]
fn members_are_those_that_the_primary_lists() {
    let mut world = World::following();
    let fewer = Said { hosts: &["a:1", "d:1"], set_version: Some(2), ..primary(1) };
    let (b, c) = (world.end("b:1"), world.end("c:1"));
    world.says("a:1", &fewer);
    assert!(world.actions.contains(&Action::Close(b)) && world.actions.contains(&Action::Close(c)));
    assert!(world.asks("d:1") && !world.asks("b:1"));
    // Replies of a removed member are ignored.
    world.step(Event::Received(b, &primary(7).bytes()));
    // A secondary's reply adds members only while there is no primary.
    world.says("d:1", &Said { hosts: &["a:1", "d:1", "e:1"], ..SET });
    assert!(!world.asks("e:1") && world.moves().is_empty());
    // A primary that is not in its own list of members is left.
    let without = Said { hosts: &["d:1"], set_version: Some(3), ..primary(1) };
    world.says("a:1", &without);
    assert_eq!(world.moves(), ["leave"]);
}

#[test]
fn a_member_is_asked_under_the_name_that_the_set_has_for_it() {
    let mut world = World::set(&["alias:1"]);
    world.says("alias:1", &Said { me: Some("b:1"), ..SET });
    assert!(!world.asks("alias:1") && world.asks("b:1"));
}

#[test]
fn the_first_mongos_that_answers_is_used_until_it_fails() {
    let mongos = Said { set: "", role: "isdbgrid", ..SET };
    let seeds = vec!["m1:1".to_owned(), "m2:1".to_owned(), "m3:1".to_owned()];
    let mut world = World::of(Config { seeds, ..Config::default() });
    world.step(Event::Lost(0, "connection refused"));
    world.says("m2:1", &mongos);
    world.says("m3:1", &mongos);
    world.says("m1:1", &mongos);
    assert_eq!(world.moves(), ["follow m2:1"]);
    let m2 = world.end("m2:1");
    world.step(Event::Lost(m2, "connection reset"));
    assert_eq!(world.moves(), ["leave", "follow m1:1"]);
    world.says("m2:1", &mongos);
    assert!(world.moves().is_empty());
    // It stays in use while there is no other.
    for gone in ["m2:1", "m3:1", "m1:1"] {
        let end = world.end(gone);
        world.step(Event::Lost(end, "connection reset"));
    }
    assert!(world.moves().is_empty());
    world.says("m3:1", &SET);
    assert!(world.told("m3:1 cannot be used: expected a mongos, found a secondary"));
}

#[test]
fn a_secondary_is_used_where_one_is_wanted() {
    let seeds = vec!["a:1".to_owned(), "b:1".to_owned(), "c:1".to_owned()];
    let replica_set = Some("rs".to_owned());
    let mut world = World::of(Config { seeds, replica_set, secondary: true, ..Config::default() });
    world.says("a:1", &primary(1));
    world.says("c:1", &SET);
    world.says("b:1", &SET);
    assert_eq!(world.moves(), ["follow c:1"]);
    world.says("c:1", &primary(2));
    assert_eq!(world.moves(), ["leave", "follow b:1"]);
    world.says("b:1", &Said { role: "hidden", ..SET });
    assert_eq!(world.moves(), ["leave"]);
}

#[test]
fn a_server_that_can_wait_for_a_change_is_asked_to() {
    let mut world = World::set(&["a:1"]);
    world.says("a:1", &Said { hosts: &["a:1"], waits: true, ..primary(1) });
    let sent = |world: &World, word: &str| {
        world.actions.iter().any(|action| match action {
            Action::Send(_, bytes) => String::from_utf8_lossy(bytes).contains(word),
            _ => false,
        })
    };
    assert!(sent(&world, "maxAwaitTimeMS") && sent(&world, "topologyVersion"));
    // A server that does not answer is disconnected and connected again.
    world.now += Pace::default().silence_max;
    world.step(Event::Time);
    assert!(world.told("a:1 cannot be used: no reply"));
    assert!(world.actions.contains(&Action::Close(0)));
    world.actions.clear();
    world.wait();
    assert_eq!(world.actions, [Action::Connect(0, "a:1".to_owned())]);
    // A server older than MongoDB 4.4.2.
    world.hears(
        "a:1",
        &reply(|error| {
            error.f64("ok", 0.0);
            error.i32("code", 59);
        }),
    );
    assert!(sent(&world, "isMaster"));
    assert_eq!(world.monitor.used(), Some("a:1"));
}

#[test]
fn that_there_is_no_primary_is_told_once_all_were_asked() {
    let mut world = World::set(&["a:1", "b:1"]);
    world.says("a:1", &Said { hosts: &["a:1", "b:1"], ..SET });
    assert!(!world.told("is not found"));
    world.step(Event::Lost(1, "connection refused"));
    assert!(world.told("b:1 cannot be used: connection refused"));
    let told = "the primary of the replica set `rs` is not found among a:1, b:1";
    assert!(world.told(told), "{:?}", world.actions);
    world.actions.clear();
    world.wait();
    assert!(!world.told("is not found"));
    world.hears("a:1", b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(
        world.actions.iter().any(|action| matches!(action, Action::Tell(Told::Trouble { .. })))
    );
}

/// Delivers the DNS records of `set.example.net`.
fn resolve(world: &mut World, hosts: &[&str], texts: &[&str]) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let (hosts, texts) = (owned(hosts), owned(texts));
    world.step(Event::Resolved(Ok(Records { hosts: &hosts, texts: &texts })));
}

#[test]
fn records_in_dns_name_the_members_and_the_set() {
    let domain = Some("set.example.net".to_owned());
    let mut world = World::of(Config { domain: domain.clone(), ..Config::default() });
    let asked = || Action::Resolve("_mongodb._tcp", "set.example.net".to_owned());
    assert_eq!(world.actions, [asked()]);
    world.actions.clear();
    world.step(Event::Resolved(Err("no reply")));
    assert!(world.told("set.example.net cannot be used: no reply"));
    for (hosts, texts, why) in [
        (&["a.example.org:1"][..], &[][..], "a.example.org, expected hosts below example.net"),
        (&["aexample.net:1"], &[], "hosts below example.net"),
        (&["a.example.net:1"], &["loadBalanced=true"], "its TXT record has loadBalanced=true"),
        (&["a.example.net:1"], &["replicaSet=rs", "x"], "one TXT record at most, found 2"),
    ] {
        resolve(&mut world, hosts, texts);
        assert!(world.told(why), "{why}: {:?}", world.actions);
    }
    assert!(world.monitor.servers.is_empty());
    world.actions.clear();
    world.now += Pace::default().retry_max;
    world.step(Event::Time);
    assert_eq!(world.actions, [asked()]);
    let hosts = ["A.example.net.:1", "b.example.net:1"];
    resolve(&mut world, &hosts, &["authSource=admin&replicaSet=rs"]);
    assert!(world.asks("a.example.net:1") && world.asks("b.example.net:1"));
    world.says("a.example.net:1", &Said { set: "other", ..primary(1) });
    assert!(world.told("expected a member of the replica set `rs`"));
    world.says("b.example.net:1", &Said { hosts: &["b.example.net:1"], ..primary(1) });
    // From now on, the members' replies name the members.
    world.actions.clear();
    world.now += super::srv::RESOLVE_INTERVAL;
    world.step(Event::Time);
    assert!(!world.actions.contains(&asked()));
}

#[test]
fn every_mongos_that_dns_names_is_asked_and_no_other() {
    let mongos = Said { set: "", role: "isdbgrid", ..SET };
    let domain = Some("example.net".to_owned());
    let mut world = World::of(Config { domain, ..Config::default() });
    resolve(&mut world, &["a.example.net:1", "b.example.net:1"], &[]);
    world.says("a.example.net:1", &mongos);
    world.says("b.example.net:1", &mongos);
    assert_eq!(world.moves(), ["follow a.example.net:1"]);
    world.now += super::srv::RESOLVE_INTERVAL;
    world.step(Event::Time);
    assert!(world.actions.iter().any(|action| matches!(action, Action::Resolve(..))));
    // Neither server has replied during the interval.
    world.says("a.example.net:1", &mongos);
    world.says("b.example.net:1", &mongos);
    assert!(world.moves().is_empty());
    resolve(&mut world, &["b.example.net:1", "c.example.net:1"], &[]);
    assert_eq!(world.moves(), ["leave", "follow b.example.net:1"]);
    assert!(world.asks("c.example.net:1") && !world.asks("a.example.net:1"));
}
