//! Servers that are models of memcached, behind a [`Fanout`] and alone.

use std::{collections::HashMap, sync::Arc};

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use wire::memcache::{Limits, Ring, Verb, request, ring::Hash};

use super::Fanout;
use crate::Error;

/// As much of memcached as the requests of these tests need. The unique number of an item is its
/// length, so that it does not depend on the server.
#[derive(Default)]
struct Model(HashMap<Vec<u8>, Vec<u8>>);

impl Model {
    /// The replies to complete requests.
    fn answer(&mut self, requests: &[u8]) -> Vec<u8> {
        let (mut out, mut rest) = (Vec::new(), requests);
        while !rest.is_empty() {
            let (request, taken) = request::decode(rest, &Limits::default()).unwrap().unwrap();
            self.answer_one(&request, &mut out);
            rest = &rest[taken..];
        }
        out
    }

    fn answer_one(&mut self, request: &request::Request<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let key = request.key().unwrap_or_default().to_vec();
        match request.verb() {
            Verb::Get | Verb::Gets | Verb::Gat => {
                for key in request.keys() {
                    let Some(value) = self.0.get(key) else { continue };
                    let unique = if request.verb() == Verb::Gets { " 7" } else { "" };
                    let key = String::from_utf8_lossy(key);
                    out.extend(format!("VALUE {key} 0 {}{unique}\r\n", value.len()).bytes());
                    out.extend([value, &b"\r\n"[..]].concat());
                }
                out.extend(b"END\r\n");
            }
            Verb::Set | Verb::MetaSet => {
                self.0.insert(key, request.value().to_vec());
                out.extend(if request.verb() == Verb::Set {
                    &b"STORED\r\n"[..]
                } else {
                    b"HD\r\n"
                });
            }
            Verb::Change => match self.0.remove(&key) {
                Some(_) => out.extend(b"DELETED\r\n"),
                None => out.extend(b"NOT_FOUND\r\n"),
            },
            Verb::MetaGet => match self.0.get(&key) {
                Some(value) => {
                    out.extend(format!("VA {}\r\n", value.len()).bytes());
                    out.extend([value, &b"\r\n"[..]].concat());
                    return;
                }
                None => out.extend(b"EN\r\n"),
            },
            Verb::FlushAll => {
                self.0.clear();
                out.extend(b"OK\r\n");
            }
            Verb::Line => out.extend(b"VERSION 0.1.0 enroute\r\n"),
            verb => panic!("{verb:?}"),
        }
        if request.is_quiet() {
            out.truncate(start);
        }
    }
}

fn fanout(servers: usize) -> Fanout {
    let names: Vec<_> = (0..servers).map(|server| (format!("s{server}"), 1)).collect();
    Fanout::new(Arc::new(Ring::new(&names, Hash::Md5)), servers, Limits::default())
}

/// A number below `limit`.
fn below(random: &mut SplitMix64, limit: usize) -> usize {
    (random.next_u64() % limit as u64) as usize
}

/// A request as a session sends it: those that may have no reply with a fence.
fn any_request(random: &mut SplitMix64) -> Vec<u8> {
    let key = |random: &mut SplitMix64| format!("key{}", below(random, 30));
    let keys: Vec<_> = (0..1 + below(random, 9)).map(|_| key(random)).collect();
    let (first, keys) = (&keys[0], keys.join(" "));
    let length = [0, 5, 5, 5, 400_000][below(random, 5)];
    let value = "v".repeat(length);
    let text = match below(random, 12) {
        0 => format!("set {first} 0 0 {length}\r\n{value}\r\n"),
        1 => format!("set {first} 0 0 {length} noreply\r\n{value}\r\nversion\r\n"),
        2 => format!("ms {first} {length}\r\n{value}\r\n"),
        3 => format!("delete {first}\r\n"),
        4 => format!("mg {first} v\r\n"),
        5 => format!("mg {first} v q\r\nversion\r\n"),
        6 => format!("gat 0 {keys}\r\n"),
        7 if below(random, 9) == 0 => "flush_all\r\n".to_owned(),
        7 if below(random, 9) == 0 => "flush_all noreply\r\nversion\r\n".to_owned(),
        8 => "version\r\n".to_owned(),
        9 => format!("gets {keys}\r\n"),
        _ => format!("get {keys}\r\n"),
    };
    text.into_bytes()
}

/// The servers of a [`Fanout`], what they have received, and what they have not sent yet.
struct Servers {
    fanout: Fanout,
    models: Vec<(Model, Vec<u8>, Vec<u8>)>,
    connected: Vec<bool>,
    replies: Vec<u8>,
}

impl Servers {
    fn new(count: usize) -> Self {
        let models = (0..count).map(|_| Default::default()).collect();
        let (connected, replies) = (vec![false; count], Vec::new());
        Self { fanout: fanout(count), models, connected, replies }
    }

    /// Moves some bytes from and to `server`; whether there were any.
    fn move_some(&mut self, server: usize, bytes_max: usize) -> bool {
        let has_output = self.fanout.has_output(server);
        if has_output && !self.connected[server] {
            self.connected[server] = true;
            self.fanout.connected(server);
        }
        let (model, received, unsent) = &mut self.models[server];
        if let Some(output) = self.fanout.output(server) {
            let count = output.len().min(bytes_max);
            received.extend(&output.bytes()[..count]);
            output.advance(count);
        }
        let mut whole = 0;
        while let Ok(Some((_, taken))) = request::decode(&received[whole..], &Limits::default()) {
            whole += taken;
        }
        unsent.extend(model.answer(&received[..whole]));
        received.drain(..whole);
        let count = if self.fanout.wants(server) { unsent.len().min(bytes_max) } else { 0 };
        if count > 0 {
            self.fanout.receive(server, &unsent[..count]).expect("a usable server");
            unsent.drain(..count);
        }
        has_output || count > 0
    }

    fn take_replies(&mut self) -> Result<bool, Error> {
        let replies = self.fanout.replies()?;
        self.replies.extend(replies.bytes());
        let count = replies.len();
        replies.advance(count);
        Ok(count > 0)
    }

    /// Moves everything.
    fn settle(&mut self) -> Result<(), Error> {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for server in 0..self.models.len() {
                moved |= self.move_some(server, usize::MAX);
            }
            moved |= self.take_replies()?;
        }
        Ok(())
    }

    fn told(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.replies)).expect("text")
    }

    fn send(&mut self, requests: impl AsRef<[u8]>) {
        self.fanout.send(requests.as_ref()).expect("requests");
    }

    fn lose(&mut self, server: usize) {
        self.connected[server] = false;
        self.models[server] = Default::default();
        self.fanout.lost(server, "s is down");
    }
}

/// A key of `server`, the `number`th.
fn key_of(fanout: &Fanout, server: u16, number: usize) -> String {
    let keys = (0..).map(|number| format!("key{number}"));
    let mut own = keys.filter(|key| fanout.ring.server(key.as_bytes()) == server);
    own.nth(number).expect("a key")
}

#[test]
fn several_servers_answer_as_one_whatever_the_chunks() {
    for seed in 0..150 {
        let mut random = SplitMix64::seed_from_u64(seed);
        let requests: Vec<_> = (0..60).map(|_| any_request(&mut random)).collect();
        let sent = requests.concat();
        let expected = Model::default().answer(&sent);
        let count = 1 + below(&mut random, 5);
        let mut servers = Servers::new(count);
        let mut rest = &sent[..];
        while !rest.is_empty() {
            if servers.fanout.has_room() {
                let limit = [1, 30, 1_000, 300_000][below(&mut random, 4)];
                let (part, more) = rest.split_at(rest.len().min(1 + below(&mut random, limit)));
                servers.fanout.send(part).expect("requests");
                rest = more;
            }
            for _ in 0..below(&mut random, 2 * count) {
                let limit = [1, 100, 100_000, 1 << 20][below(&mut random, 4)];
                servers.move_some(below(&mut random, count), limit);
                if below(&mut random, 3) == 0 {
                    servers.take_replies().expect("replies");
                }
            }
        }
        servers.settle().expect("replies");
        assert_eq!(servers.replies.len(), expected.len(), "seed {seed}");
        assert!(servers.replies == expected, "seed {seed}");
        assert!(servers.fanout.expected.is_empty());
    }
}

#[test]
fn a_server_that_is_down_answers_by_errors_and_the_others_as_always() {
    let mut servers = Servers::new(2);
    let [zero, one] = [0, 1].map(|server| key_of(&servers.fanout, server, 0));
    servers.send(format!("set {one} 0 0 1\r\nx\r\nset {zero} 0 0 1\r\ny\r\nget {one}\r\n"));
    servers.fanout.lost(0, "s0 is down");
    servers.settle().expect("replies");
    let down = "SERVER_ERROR enroute: s0 is down\r\n";
    assert_eq!(servers.told(), format!("STORED\r\n{down}VALUE {one} 0 1\r\nx\r\nEND\r\n"));
    // It is tried again for the next request; a read of both says that it is incomplete, and `mn`
    // that a request without a reply was lost.
    servers.send(format!(
        "get {zero} {one}\r\nset {zero} 0 0 1 noreply\r\nz\r\nversion\r\nmn\r\nmn\r\n"
    ));
    assert!(servers.fanout.has_output(0));
    servers.fanout.lost(0, "s0 is down");
    servers.settle().expect("replies");
    let version = "VERSION 0.1.0 enroute\r\n";
    assert_eq!(servers.told(), format!("VALUE {one} 0 1\r\nx\r\n{down}{version}{down}MN\r\n"));
    servers.send("flush_all noreply\r\nversion\r\nmn\r\nflush_all\r\n");
    servers.fanout.lost(0, "s0 is down");
    servers.settle().expect("replies");
    assert_eq!(servers.told(), format!("{version}{down}{down}"));
    assert!(servers.models[1].0.0.is_empty());
    servers.send(format!("get {zero} {one}\r\n"));
    servers.settle().expect("replies");
    assert_eq!(servers.told(), "END\r\n");
}

#[test]
fn a_lost_reply_to_a_read_is_an_error_and_one_to_a_write_ends_the_session() {
    for (request, ends) in [
        ("get 0 1", false),
        ("get 0", false),
        ("mg 0 v", false),
        ("me 0", false),
        ("mg 0 T30", true),
        ("gat 0 0 1", true),
        ("delete 0", true),
        ("delete 0 noreply", true),
        ("flush_all", true),
    ] {
        let mut servers = Servers::new(2);
        let [zero, one] = [0, 1].map(|server| key_of(&servers.fanout, server, 0));
        let warm = format!("get {zero} {one}\r\n");
        servers.send(warm);
        servers.settle().expect("replies");
        assert_eq!(servers.told(), "END\r\n");
        // The expiry of `gat` stays.
        let (command, keys) = request.split_once(' ').unwrap_or((request, ""));
        let request = match command {
            "gat" => format!("gat 0 {zero} {one}\r\n"),
            _ => format!("{command} {keys}\r\n")
                .replace('0', &zero)
                .replace(" 1\r", &format!(" {one}\r")),
        };
        let request = request.replace(&format!("T3{zero}"), "T30");
        servers.send(&request);
        let count = servers.fanout.output(0).expect("it is open").len();
        servers.fanout.output(0).expect("it is open").advance(count);
        servers.lose(0);
        match servers.settle() {
            Err(error) => assert!(ends && error.to_string().contains("s is down"), "{request}"),
            Ok(()) => {
                let told = servers.told();
                assert!(
                    !ends && told == "SERVER_ERROR enroute: s is down\r\n",
                    "{request}: {told}"
                );
            }
        }
    }
}

/// The loss is known before the write is sent, so that nothing is lost with it.
#[test]
fn a_write_after_the_loss_of_its_server_is_refused_while_replies_of_others_are_due() {
    let mut servers = Servers::new(2);
    let [zero, one] = [0, 1].map(|server| key_of(&servers.fanout, server, 0));
    servers.send(format!("get {zero} {one}\r\n"));
    servers.settle().expect("replies");
    assert_eq!(servers.told(), "END\r\n");
    servers.send(format!("get {one}\r\nget {zero}\r\n"));
    let output = servers.fanout.output(0).expect("it is open");
    output.advance(output.len());
    servers.lose(0);
    servers.send(format!("set {zero} 0 0 1\r\nx\r\nflush_all\r\nget {one} {zero}\r\n"));
    servers.settle().expect("replies");
    let down = "SERVER_ERROR enroute: s is down\r\n";
    assert_eq!(servers.told(), format!("END\r\n{}", down.repeat(4)));
    servers.send(format!("get {zero}\r\n"));
    servers.settle().expect("replies");
    assert_eq!(servers.told(), "END\r\n");
}

#[test]
fn a_flush_is_refused_as_a_whole_if_one_server_refuses_it() {
    let mut servers = Servers::new(2);
    servers.send("flush_all\r\nflush_all noreply\r\nversion\r\nmn\r\nmn\r\n");
    for (server, replies) in [
        (0, "VERSION 1.6\r\nOK\r\nVERSION 1.6\r\n"),
        (1, "VERSION 1.6\r\nERROR no\r\nERROR never\r\nVERSION 1.6\r\n"),
    ] {
        servers.fanout.connected(server);
        servers.fanout.receive(server, replies.as_bytes()).expect("a usable server");
    }
    servers.take_replies().expect("replies");
    let told = servers.told();
    assert_eq!(told, "ERROR no\r\nVERSION 0.1.0 enroute\r\nERROR never\r\nMN\r\n");
}

#[test]
fn an_item_that_is_cut_off_ends_the_session() {
    for request in ["get 0 1", "get 0", "mg 0 v"] {
        let mut servers = Servers::new(2);
        let [zero, one] = [0, 1].map(|server| key_of(&servers.fanout, server, 0));
        servers.send(format!("set {zero} 0 0 9\r\n123456789\r\n"));
        servers.settle().expect("replies");
        let request =
            format!("{request}\r\n").replace('0', &zero).replace(" 1\r", &format!(" {one}\r"));
        servers.send(&request);
        let reply = match request.starts_with("get") {
            true => format!("VALUE {zero} 0 9\r\n1234"),
            false => "VA 9\r\n1234".to_owned(),
        };
        servers.fanout.receive(0, reply.as_bytes()).expect("a usable server");
        servers.take_replies().expect("replies");
        servers.lose(0);
        assert!(servers.take_replies().is_err(), "{request}");
    }
}

#[test]
fn servers_that_cannot_be_one_of_several_are_refused_before_any_request() {
    for (reply, why) in [
        ("CLIENT_ERROR unauthenticated\r\n", "requires a login"),
        ("-ERR unknown command\r\n", "not answer as memcached"),
        ("VERSION 1.6.18\r\nVALUE", "was not requested"),
    ] {
        let mut fanout = fanout(1);
        fanout.send(b"get a\r\n").expect("requests");
        fanout.connected(0);
        assert_eq!(fanout.output(0).expect("a connection").bytes(), b"version\r\n");
        // The last one has nothing to send.
        if why.contains("requested") {
            fanout.lost(0, "");
            fanout.replies().expect("replies");
            fanout.connected(0);
        }
        let error = fanout.receive(0, reply.as_bytes()).expect_err(reply);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn what_servers_cannot_answer_together_is_answered_here() {
    let mut servers = Servers::new(3);
    let requests = "stats\r\nversion\r\nlru_crawler metadump all\r\nwatch\r\nverbosity 1 noreply\r\n\
                    mn\r\nfoo\r\n\r\nget\r\nincr\r\nmg @ b\r\nms @ 2 b\r\nhi\r\nquit\r\n";
    servers.send(requests);
    servers.settle().expect("replies");
    let told = servers.told();
    let lines: Vec<_> = told.lines().collect();
    let refused = |command: &str| {
        format!(
            "CLIENT_ERROR enroute: expected a command with a key, got `{command}`, which concerns \
             one server; send it to that server"
        )
    };
    let [stats, crawler, watch] = ["stats", "lru_crawler", "watch"].map(refused);
    let bad = "CLIENT_ERROR error decoding key";
    let expected = [
        &stats,
        "VERSION 0.1.0 enroute",
        &crawler,
        &watch,
        "MN",
        "ERROR",
        "ERROR",
        "ERROR",
        "ERROR",
        bad,
        bad,
    ];
    assert_eq!(lines, expected);
    assert!(servers.fanout.has_ended() && servers.connected.iter().all(|up| !up));
}

#[test]
fn replies_that_no_request_asked_for_end_the_session() {
    for reply in ["VALUE other 0 1\r\nx\r\nEND\r\n", "END\r\nEND\r\n", "VALUE key0 0 x\r\n"] {
        let mut servers = Servers::new(2);
        let [zero, one] = [0, 1].map(|server| key_of(&servers.fanout, server, 0));
        servers.send(format!("get {zero} {one}\r\n"));
        for server in 0..2 {
            servers.fanout.connected(server);
            servers.fanout.receive(server, b"VERSION 1.6\r\n").expect("a usable server");
        }
        servers.fanout.receive(0, reply.as_bytes()).expect("a request is due");
        servers.fanout.receive(1, b"END\r\n").expect("a request is due");
        assert!(matches!(servers.take_replies(), Err(Error::Server(_))), "{reply}");
    }
}
