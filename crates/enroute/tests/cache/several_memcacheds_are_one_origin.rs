//! Several memcacheds behind one listener answer as one, and without one of them the others go on.

use std::io::Write;
use std::thread;
use std::time::Instant;

use crate::memcached_answers_are_the_same_through_the_cache::{REQUESTS, ask};
use crate::support::enroute::Cache;
use crate::support::origins::Memcached;
use crate::support::process::PATIENCE;
use crate::support::raw::Raw;

const SERVERS: usize = 3;

/// Servers, and a cache in front of them.
fn start() -> Option<(Vec<Memcached>, Cache)> {
    let servers: Vec<_> = (0..SERVERS).map_while(|_| Memcached::start()).collect();
    let names: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let started = (servers.len() == SERVERS).then_some(servers)?;
    Some((started, Cache::start("memcached", names.join(","), "")))
}

/// Whether one memcached would answer as several do: unique numbers differ, and some commands have
/// no meaning for several servers.
fn is_comparable(request: &&str) -> bool {
    const DIFFERENT: [&str; 6] = ["gets", "gats", "stats", "verbosity", "foo", "me "];
    let words = || request.split(['|', ' ']);
    !DIFFERENT.iter().any(|word| request.starts_with(word)) && !words().any(|word| word == "c")
}

#[test]
fn they_answer_as_one_memcached_does() {
    let (Some(direct), Some((_servers, cache))) = (Memcached::start(), start()) else { return };
    let connect = |address| [Raw::connect(address), Raw::connect(address)];
    let (mut direct, mut cached) = (connect(direct.address()), connect(cache.address()));
    let mut compared = 0;
    for request in REQUESTS.lines().filter(is_comparable) {
        for turn in 0..3 {
            let told = ask(&mut cached[turn % 2], request);
            assert_eq!(told, ask(&mut direct[turn % 2], request), "{request} ({turn})");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    let hits = cache.hits();
    assert!(hits >= 20.0, "{hits}");
}

/// One long pipeline of writes and reads of keys of all servers.
#[test]
fn pipelined_replies_keep_the_order_of_their_requests() {
    let (Some(direct), Some((servers, cache))) = (Memcached::start(), start()) else { return };
    // Similar keys have close hashes, and would all be one server's at some ports.
    let key =
        |number: usize| format!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut requests = String::new();
    for number in 0..500 {
        let quiet = if number % 3 == 0 { " noreply" } else { "" };
        let length = if number % 50 == 0 { 5_000 } else { number % 7 };
        let value = "v".repeat(length);
        let own = key(number);
        requests += &format!("set {own} 0 0 {length}{quiet}\r\n{value}\r\n");
        let keys: Vec<_> = (0..12).map(|step| key((number + 7 * step) % 500)).collect();
        requests += &format!("get {}\r\nmg {own} v q\r\nmn\r\n", keys.join(" "));
        if number % 40 == 0 {
            requests += &format!("delete {}\r\nincr none 1\r\n", key(number / 2));
        }
    }
    requests += "set last 0 0 4\r\nlast\r\nget last\r\n";
    let ask = |address| {
        let mut client = Raw::connect(address);
        let mut speaker = client.stream().try_clone().expect("a socket");
        let requests = requests.clone();
        let speaks = thread::spawn(move || speaker.write_all(requests.as_bytes()));
        let mut told = Vec::new();
        while told.last().is_none_or(|line| line != "VALUE last 0 4\r\n") {
            told.push(client.hear_line());
        }
        client.hear("last\r\nEND\r\n");
        speaks.join().expect("it spoke").expect("all was read");
        told
    };
    let (told, expected) = (ask(cache.address()), ask(direct.address()));
    assert!(told == expected, "{} lines, {} of one memcached", told.len(), expected.len());
    // How many depends on the ports.
    for server in &servers {
        assert!(statistic(server, "cmd_set") > 0, "no write at {}", server.address());
    }
}

fn statistic(server: &Memcached, name: &str) -> u64 {
    let mut direct = Raw::connect(server.address());
    direct.say("stats\r\n");
    loop {
        let line = direct.hear_line();
        if let Some(number) = line.strip_prefix(&format!("STAT {name} ")) {
            return number.trim_end().parse().expect("a number");
        }
    }
}

/// A key of each server, by where it was stored, and a second one of the first.
fn keys(servers: &[Memcached], client: &mut Raw) -> Vec<String> {
    let mut found = vec![String::new(); servers.len() + 1];
    for number in 0.. {
        if found.iter().all(|key| !key.is_empty()) {
            break;
        }
        let key = format!("key{number}");
        client.say(format!("set {key} 0 0 1\r\nx\r\n"));
        client.hear("STORED\r\n");
        let has = |server: &Memcached| {
            let mut direct = Raw::connect(server.address());
            direct.say(format!("get {key}\r\n"));
            direct.hear_line() != "END\r\n"
        };
        match servers.iter().position(has).expect("one of them has it") {
            0 if !found[0].is_empty() => found[servers.len()] = key,
            at => found[at] = key,
        }
    }
    found
}

#[test]
fn keys_of_a_server_that_is_down_are_errors_and_those_of_the_others_go_on() {
    let Some((mut servers, cache)) = start() else { return };
    let mut client = Raw::connect(cache.address());
    let keys = keys(&servers, &mut client);
    let item = |key: &str| format!("VALUE {key} 0 1\r\nx\r\nEND\r\n");
    // The last key is another one of the first server.
    let before = cache.hits();
    while cache.hits() < before + 2.0 {
        client.say(format!("get {}\r\n", keys[3]));
        client.hear(item(&keys[3]));
    }
    servers[0].bring_down();
    let error = format!("SERVER_ERROR enroute: the server {}", servers[0].address());
    let mut refused = |request: String| {
        client.say(request);
        let line = client.hear_line();
        assert!(line.starts_with(&error), "{line}");
    };
    refused(format!("mg {} v t\r\n", keys[0]));
    refused(format!("set {} 0 0 1\r\ny\r\n", keys[0]));
    // Of a read of several keys, the error takes the place of the end.
    client.say(format!("gets {} {}\r\n", keys[1], keys[0]));
    let line = client.hear_line();
    assert!(line.starts_with(&format!("VALUE {} 0 1 ", keys[1])), "{line}");
    client.hear("x\r\n");
    let line = client.hear_line();
    assert!(line.starts_with(&error), "{line}");
    client.say(format!("set {} 0 0 1\r\ny\r\nmg {} v t\r\n", keys[1], keys[2]));
    client.hear("STORED\r\nVA 1 t-1\r\nx\r\n");
    // What is stored of it is served, also to a client that comes later, after its first request.
    let mut other = Raw::connect(cache.address());
    other.say("version\r\n");
    other.hear_line();
    other.say(format!("get {}\r\n", keys[3]));
    other.hear(item(&keys[3]));
    // After it has come back, empty, no stored item of it is served.
    servers[0].bring_up();
    let began = Instant::now();
    loop {
        client.say(format!("get {}\r\n", keys[3]));
        match client.hear_line().as_str() {
            "END\r\n" => break,
            line if line.starts_with("SERVER_ERROR") => {}
            line => {
                assert_eq!(line, format!("VALUE {} 0 1\r\n", keys[3]));
                client.hear("x\r\nEND\r\n");
            }
        }
        assert!(began.elapsed() < PATIENCE, "still answered with a lost value");
    }
    client.say(format!("set {} 0 0 1\r\nz\r\nget {}\r\n", keys[3], keys[3]));
    client.hear(format!("STORED\r\nVALUE {} 0 1\r\nz\r\nEND\r\n", keys[3]));
}

/// Whether the server has carried it out is not known: no error may say that it has not.
#[test]
fn a_write_whose_reply_is_lost_with_its_server_ends_the_connection() {
    let Some((mut servers, cache)) = start() else { return };
    let mut client = Raw::connect(cache.address());
    let keys = keys(&servers, &mut client);
    servers[0].running().expect("it is up").stop();
    // Once the first is answered, the second has been sent, too.
    client.say(format!("mg {} v t\r\nset {} 0 0 1\r\ny\r\n", keys[1], keys[0]));
    client.hear("VA 1 t-1\r\nx\r\n");
    servers[0].bring_down();
    client.hear_end();
    let began = Instant::now();
    while cache.statistics().get("writes-lost") != Some(&1.0) {
        assert!(began.elapsed() < PATIENCE, "{:?}", cache.statistics());
    }
}

/// The server is killed and restarted without a pause: once its connection has answered, no client
/// gets an item that was lost.
#[test]
fn no_client_is_told_of_a_lost_item_once_one_has_heard_the_new_server() {
    let Some((mut servers, cache)) = start() else { return };
    let mut hitting = Raw::connect(cache.address());
    let keys = keys(&servers, &mut hitting);
    for round in 0..10 {
        let before = cache.hits();
        hitting.say(format!("set {} 0 0 1\r\nx\r\n", keys[1]));
        hitting.hear("STORED\r\n");
        while cache.hits() == before {
            hitting.say(format!("get {}\r\n", keys[1]));
            hitting.hear(format!("VALUE {} 0 1\r\nx\r\nEND\r\n", keys[1]));
        }
        servers[1].bring_down();
        servers[1].bring_up();
        let mut new = Raw::connect(cache.address());
        new.say(format!("mg {} v t\r\n", keys[1]));
        while new.hear_line() != "EN\r\n" {
            new.say(format!("mg {} v t\r\n", keys[1]));
        }
        hitting.say(format!("get {}\r\n", keys[1]));
        hitting.hear("END\r\n");
        eprintln!("round {round}");
    }
}

#[test]
fn what_concerns_one_server_is_refused() {
    let Some((_servers, cache)) = start() else { return };
    let mut client = Raw::connect(cache.address());
    for request in ["stats", "stats noop", "lru_crawler metadump all", "slabs reassign 1 2"] {
        client.say(format!("{request}\r\nversion\r\n"));
        let line = client.hear_line();
        assert!(line.contains("concerns one server"), "{request}: {line}");
        let line = client.hear_line();
        assert!(line.starts_with("VERSION ") && line.ends_with(" enroute\r\n"), "{line}");
    }
    client.say("quit\r\n");
    client.hear_end();
}
