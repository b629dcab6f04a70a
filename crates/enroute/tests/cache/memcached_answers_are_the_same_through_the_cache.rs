//! The same requests to a memcached directly and to another through the cache: the replies are
//! identical, byte for byte, and many of them came from storage.

use std::net::SocketAddr;

use crate::support::enroute::Cache;
use crate::support::origins::Memcached;
use crate::support::raw::Raw;

/// One request per line, `|` for a line end; each is made three times, so that a read misses, fills
/// and hits. No `decr` shortens its number: memcached may or may not pad it with a space.
pub(crate) const REQUESTS: &str = "\
set a 7 0 5|hello
get a
gets a
get a b a
mg a v
mg a k f v c s O12
mg YQ== b k v
mg a
mg none v k O1
mg none v q
mg a v q
get none
append a 0 0 1|!
get a
add a 0 0 1|x
cas a 0 0 1 999|x
cas a 0 0 1|set a 7 0 6|hello!
cas a 0 0 1 |x
set a 0 0
get a
replace a 3 0 0|
get a
set n 0 0 2|15
incr n 7
get n
decr n 3 noreply
get n
incr a 1
touch a 0
get a
gat 0 a none
gats 0 a
set b 0 0 1 noreply|y
get a b
ms c 2 F9 c q|cc
mg c v f
ms YWI= 1 b|z
get ab
md c I T30
md ab x
get ab
md ab q
md none q
mg ab v
ma n D5 N0 v
ma none2 N0 J3 v
get none2
delete a
delete a
get a
mg viv v N30
me none
stats noop
foo
foo bar baz
get
verbosity
flush_all x
gat x a
mg b v v
mg b @
mg Y b v
incr n x
flush_all
get b
mg b v";

#[test]
fn memcached_answers_are_the_same_through_the_cache() {
    let (Some(direct), Some(behind)) = (Memcached::start(), Memcached::start()) else { return };
    let cache = Cache::start("memcached", behind.address(), "[storage]\nttl = \"60s\"\n");
    let bound = cache.log_line("UDP is not served");
    assert!(bound.contains("at most 60s"), "{bound}");
    let connect = |address: SocketAddr| [Raw::connect(address), Raw::connect(address)];
    let (mut direct, mut cached) = (connect(direct.address()), connect(cache.address()));
    for request in REQUESTS.lines() {
        for turn in 0..3 {
            let told = ask(&mut cached[turn % 2], request);
            assert_eq!(told, ask(&mut direct[turn % 2], request), "{request} ({turn})");
        }
    }
    let statistics = cache.statistics();
    assert!(statistics["hits"] >= 30.0, "{statistics:?}");
}

/// The reply, up to that to `mn`.
pub(crate) fn ask(connection: &mut Raw, request: &str) -> String {
    connection.say(format!("{}\r\nmn\r\n", request.replace('|', "\r\n")));
    let mut answer = String::new();
    loop {
        match connection.hear_line() {
            line if line == "MN\r\n" => return answer,
            line => answer.push_str(&line),
        }
    }
}

/// Requests of one client each, `|` for a line end.
const LOGINS: [&[&str]; 4] = [
    &["get a", "mg a v", "get a", "set k 0 0 13|user password", "set a 0 0 1|x", "get a", "get a"],
    &[
        "set a 0 0 1|x",
        "get a",
        "set k 0 0 10|user wrong",
        "get a",
        "set k 0 0 13|user password",
        "get a",
    ],
    &["set k 0 0 13|user password", "get a", "mg a v", "delete a", "get a", "get a"],
    &["get a"],
];

/// Before the login memcached answers only the last of several requests that come together.
#[test]
fn a_memcached_that_requires_a_login_answers_the_same_through_the_cache() {
    let start = Memcached::start_with_login;
    let (Some(direct), Some(behind)) = (start(), start()) else { return };
    let cache = Cache::start("memcached", behind.address(), "[storage]\nttl = \"60s\"\n");
    for requests in LOGINS {
        let connections = [direct.address(), cache.address()].map(Raw::connect);
        let [mut direct, mut cached] = connections;
        for request in requests {
            let [expected, told] = [&mut direct, &mut cached].map(|connection| {
                connection.say(format!("{}\r\n", request.replace('|', "\r\n")));
                reply(connection)
            });
            assert_eq!(told, expected, "{request} in {requests:?}");
        }
    }
    let statistics = cache.statistics();
    assert!(statistics["hits"] >= 2.0, "{statistics:?}");
}

/// The lines of a reply to a read or to a write.
fn reply(connection: &mut Raw) -> Vec<String> {
    let mut lines = vec![connection.hear_line()];
    while lines.last().is_some_and(|line| line.starts_with("VA")) {
        let of_get = lines.last().is_some_and(|line| line.starts_with("VALUE "));
        lines.extend((0..if of_get { 2 } else { 1 }).map(|_| connection.hear_line()));
    }
    lines
}
