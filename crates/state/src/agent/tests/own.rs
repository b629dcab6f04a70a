//! WATCH and commands that block use a connection of the client's own.

use super::*;
use crate::agent::own::BLOCKED_INPUT_BYTES_MAX;

const NODE: usize = 0;

/// An agent that knows two nodes, the first of which owns all slots, and its clients.
pub(super) struct Desk {
    pub(super) agent: Agent,
    /// Node of each connection.
    pub(super) nodes: BTreeMap<usize, SocketAddr>,
    pub(super) now: Duration,
}

impl Desk {
    pub(super) fn new() -> Self {
        let agent = Agent::new(&[address(NODE)], None, limits(), 7, Duration::ZERO);
        let mut desk = Self { agent, nodes: BTreeMap::new(), now: Duration::ZERO };
        assert!(desk.sent().is_empty());
        desk
    }

    pub(super) fn client(&mut self) -> usize {
        self.agent.open(SocketAddr::from(([127, 0, 0, 1], 99)))
    }

    pub(super) fn ask(&mut self, client: usize, line: &str) {
        let mut command = Vec::new();
        request::write_command(&mut command, &line.split(' ').collect::<Vec<_>>());
        self.agent.receive(client, &command, self.now).expect("the protocol");
    }

    /// What nodes receive now, each with its connection. The agent's own queries are answered.
    pub(super) fn sent(&mut self) -> Vec<(usize, String)> {
        let mut sent = Vec::new();
        for _ in 0..4 {
            for (link, node) in self.agent.wishes() {
                self.nodes.insert(link, node);
                self.agent.connected(link);
            }
            for link in self.nodes.keys().copied().collect::<Vec<_>>() {
                self.take(link, &mut sent);
            }
        }
        sent
    }

    fn take(&mut self, link: usize, sent: &mut Vec<(usize, String)>) {
        let Some(output) = self.agent.link_output(link) else { return };
        let mut bytes = output.bytes().to_vec();
        output.advance(bytes.len());
        while let Some((request, taken)) =
            Decoder::default().decode(&bytes, &Limits::default()).expect("a command")
        {
            let words: Vec<_> = request.arguments().map(String::from_utf8_lossy).collect();
            let text = format!(
                "a {} myself,master - 0 0 1 connected 0-16383\nb {} master - 0 0 2 connected\n",
                address(0),
                address(1)
            );
            match request.name() {
                b"CLUSTER" if request.argument(1) == Some(b"INFO") => {
                    self.hear(link, "$16\r\ncluster_state:ok\r\n");
                }
                b"CLUSTER" => self.hear(link, &format!("${}\r\n{text}\r\n", text.len())),
                b"CLIENT" => {
                    self.hear(link, "+OK\r\n");
                    sent.push((link, words.join(" ")));
                }
                b"PING" => self.hear(link, "+PONG\r\n"),
                b"HELLO" => self.hear(link, "%0\r\n"),
                _ => sent.push((link, words.join(" "))),
            }
            bytes.drain(..taken);
        }
    }

    /// The one request that a node receives now.
    pub(super) fn sent_one(&mut self, expected: &str) -> usize {
        let sent = self.sent();
        let [(link, words)] = &sent[..] else { panic!("expected {expected}: {sent:?}") };
        assert_eq!(words, expected);
        *link
    }

    pub(super) fn hear(&mut self, link: usize, answer: &str) {
        self.agent.node_receive(link, answer.as_bytes(), self.now).expect("the protocol");
    }

    pub(super) fn told(&mut self, client: usize) -> String {
        let output = self.agent.output(client).expect("a client");
        let told = String::from_utf8_lossy(output.bytes()).into_owned();
        output.advance(told.len());
        self.agent.heard(client, self.now).expect("the protocol");
        told
    }

    /// A client that watches `foo`, and its own connection.
    fn watching(&mut self) -> (usize, usize) {
        let client = self.client();
        self.ask(client, "WATCH foo");
        let link = self.sent_one("WATCH foo");
        self.hear(link, "+OK\r\n");
        assert_eq!(self.told(client), "+OK\r\n");
        (client, link)
    }

    /// Queues a write of `foo` and ends the transaction; nothing is sent before.
    fn execute(&mut self, client: usize) {
        self.ask(client, "MULTI");
        self.ask(client, "SET foo 1");
        assert!(self.sent().is_empty());
        assert_eq!(self.told(client), "+OK\r\n+QUEUED\r\n");
        self.ask(client, "EXEC");
    }
}

const CHANGED: &str = "*-1\r\n";

pub(super) fn moved_to(node: usize) -> String {
    format!("-MOVED {} {}\r\n", Slot::of(b"foo").number(), address(node))
}

#[test]
fn a_transaction_is_executed_where_its_keys_are_watched() {
    let mut desk = Desk::new();
    let (client, own) = desk.watching();
    // Reads do not use copies, which may be older than the watch.
    desk.agent.copy(&[Slot::of(b"foo")]);
    desk.ask(client, "GET foo");
    let shared = desk.sent_one("GET foo");
    assert_ne!(shared, own);
    desk.hear(shared, "$-1\r\n");
    assert_eq!(desk.told(client), "$-1\r\n");

    desk.execute(client);
    let sent = desk.sent();
    let expected = ["MULTI", "SET foo 1", "EXEC"].map(|words| (own, words.to_owned()));
    assert_eq!(sent, expected);
    desk.hear(own, "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    assert_eq!(desk.told(client), "*1\r\n+OK\r\n");
    // Now copies are used again, and the connection is kept for the next time.
    desk.ask(client, "GET foo");
    let words: Vec<String> = desk.sent().into_iter().map(|(_, words)| words).collect();
    assert!(words.contains(&"CLIENT CACHING YES".to_owned()), "{words:?}");
    assert!(desk.agent.take_closed().is_empty());
}

#[test]
fn what_uses_another_connection_waits_for_earlier_requests() {
    let mut desk = Desk::new();
    for line in ["WATCH foo", "BLPOP foo 0", "SUBSCRIBE a"] {
        let client = desk.client();
        desk.ask(client, "SET foo 1");
        desk.ask(client, line);
        let shared = desk.sent_one("SET foo 1");
        desk.hear(shared, "+OK\r\n");
        desk.sent_one(line);
    }
    let (client, _) = desk.watching();
    desk.ask(client, "SET foo 1");
    desk.ask(client, "MULTI");
    desk.ask(client, "EXEC");
    let shared = desk.sent_one("SET foo 1");
    desk.hear(shared, "+OK\r\n");
    assert_eq!(desk.sent().len(), 2);
}

#[test]
fn a_transaction_whose_watch_is_lost_is_not_executed() {
    // The slot has moved.
    let mut desk = Desk::new();
    let (client, own) = desk.watching();
    desk.execute(client);
    desk.sent();
    desk.hear(own, &format!("+OK\r\n{}-EXECABORT discarded\r\n", moved_to(1)));
    assert_eq!(desk.told(client), CHANGED);
    assert!(desk.sent().is_empty(), "it is sent again");

    // The connection was lost before EXEC.
    let (client, own) = desk.watching();
    desk.agent.lost(own, "test", desk.now);
    desk.execute(client);
    assert_eq!(desk.told(client), CHANGED);
    assert!(desk.sent().iter().all(|(_, words)| words != "EXEC"));

    // It was lost before all of EXEC was handed to the network.
    let (client, own) = desk.watching();
    desk.execute(client);
    desk.agent.lost(own, "test", desk.now);
    assert_eq!(desk.told(client), CHANGED);
    desk.now += Duration::from_secs(1);
    desk.agent.handle_timeout(desk.now);
    assert!(desk.sent().iter().all(|(_, words)| words != "EXEC"));

    // Keys of another node were watched in between.
    let (client, _) = desk.watching();
    desk.ask(client, "WATCH {foo}2");
    let own = desk.sent_one("WATCH {foo}2");
    desk.hear(own, &moved_to(1));
    let other = desk.sent_one("WATCH {foo}2");
    assert_ne!(own, other);
    desk.hear(other, "+OK\r\n");
    assert_eq!(desk.told(client), "+OK\r\n");
    desk.execute(client);
    assert_eq!(desk.told(client), CHANGED);

    // It was lost after EXEC: nothing is known.
    let (client, own) = desk.watching();
    desk.execute(client);
    desk.sent();
    desk.agent.lost(own, "test", desk.now);
    assert!(desk.told(client).starts_with("-UNCERTAIN "));
}

#[test]
fn what_ends_a_transaction_ends_its_watches() {
    let mut desk = Desk::new();
    for line in ["UNWATCH", "DISCARD", "EXEC"] {
        let (client, own) = desk.watching();
        if line != "UNWATCH" {
            desk.ask(client, "MULTI");
        }
        if line == "EXEC" {
            desk.ask(client, "NOSUCH");
        }
        desk.ask(client, line);
        assert_eq!(desk.sent_one("UNWATCH"), own, "{line}");
        desk.hear(own, "+OK\r\n");
        desk.told(client);
        desk.ask(client, "WATCH other");
        assert_eq!(desk.sent_one("WATCH other"), own, "{line}: another slot may be watched");
        desk.hear(own, "+OK\r\n");
    }
    let (client, own) = desk.watching();
    desk.ask(client, "WATCH other");
    desk.ask(client, "MULTI");
    desk.ask(client, "SET other 1");
    desk.ask(client, "WATCH foo");
    let told = desk.told(client);
    assert_eq!(told.matches("-CROSSSLOT ").count(), 2, "{told}");
    assert!(told.contains("-ERR WATCH inside MULTI"), "{told}");
    desk.ask(client, "RESET");
    assert_eq!(desk.agent.take_closed(), [own]);
}

#[test]
fn a_blocked_client_delays_no_other_and_is_served_where_the_slot_goes() {
    let mut desk = Desk::new();
    let (blocked, other) = (desk.client(), desk.client());
    desk.ask(blocked, "BLPOP foo 0");
    let own = desk.sent_one("BLPOP foo 0");
    assert!(!desk.agent.is_waiting(own), "it would be considered silent");
    desk.ask(other, "GET foo");
    let shared = desk.sent_one("GET foo");
    desk.hear(shared, "$-1\r\n");
    assert_eq!(desk.told(other), "$-1\r\n");
    // Its own requests wait. They are read, so that its end is noticed, up to a limit.
    desk.ask(blocked, "GET foo");
    assert!(desk.sent().is_empty() && desk.agent.listens_to(blocked));
    let long = vec![b'x'; BLOCKED_INPUT_BYTES_MAX];
    let head = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", long.len());
    desk.agent.receive(blocked, &[head.as_bytes(), &long, b"\r\n"].concat(), desk.now).unwrap();
    assert!(!desk.agent.listens_to(blocked));
    // Minutes later the slot moves.
    desk.now += Duration::from_secs(300);
    desk.hear(own, &moved_to(1));
    let moved = desk.sent_one("BLPOP foo 0");
    // A node that is not known yet is waited for.
    let late = desk.client();
    desk.ask(late, "BLPOP {foo}2 0");
    let waits = desk.sent_one("BLPOP {foo}2 0");
    desk.now += Duration::from_secs(300);
    desk.hear(waits, &moved_to(7));
    assert_eq!(desk.told(late), "");
    assert_eq!((desk.nodes[&own], desk.nodes[&moved]), (address(0), address(1)));
    desk.hear(moved, "*2\r\n$3\r\nfoo\r\n$1\r\nv\r\n");
    let told = desk.told(blocked);
    assert!(told.starts_with("*2\r\n$3\r\nfoo\r\n$1\r\nv\r\n"), "{told}");
    assert!(desk.sent().iter().any(|(_, words)| words == "GET foo"));
}

#[test]
fn a_blocked_client_that_leaves_or_loses_its_node() {
    let mut desk = Desk::new();
    let [leaves, writes, reads, ends] = std::array::from_fn(|_| desk.client());
    desk.ask(leaves, "BLPOP foo 0");
    let own = desk.sent_one("BLPOP foo 0");
    desk.agent.close(leaves);
    assert_eq!(desk.agent.take_closed(), [own]);
    desk.ask(writes, "BLPOP foo 0");
    let own = desk.sent_one("BLPOP foo 0");
    desk.agent.lost(own, "test", desk.now);
    assert!(desk.told(writes).starts_with("-UNCERTAIN "));
    desk.ask(reads, "XREAD BLOCK 0 STREAMS foo 0");
    let own = desk.sent_one("XREAD BLOCK 0 STREAMS foo 0");
    desk.agent.lost(own, "test", desk.now);
    desk.now += Duration::from_millis(100);
    desk.agent.handle_timeout(desk.now);
    let again = desk.sent();
    assert!(again.iter().any(|(_, words)| words.starts_with("XREAD ")), "{again:?}");
    desk.ask(ends, "BLMPOP 0 1 foo LEFT");
    let own = desk.sent_one("BLMPOP 0 1 foo LEFT");
    desk.hear(own, "-UNBLOCKED force unblock\r\n");
    assert_eq!(desk.told(ends), "-UNBLOCKED force unblock\r\n");
}

#[test]
fn a_copy_is_not_older_than_what_a_blocked_client_has_got() {
    let mut desk = Desk::new();
    desk.agent.copy(&[Slot::of(b"foo")]);
    let (blocked, reader) = (desk.client(), desk.client());
    let read = |desk: &mut Desk, answer: &str| {
        desk.ask(reader, "LLEN foo");
        for (link, words) in desk.sent() {
            match words.as_str() {
                "LLEN foo" => desk.hear(link, answer),
                "PTTL foo" => desk.hear(link, ":-1\r\n"),
                _ => {}
            }
        }
        desk.told(reader)
    };
    // The first read opens the connection of the copies, whose lease begins with the next ping.
    read(&mut desk, ":1\r\n");
    desk.now += Duration::from_millis(500);
    desk.agent.handle_timeout(desk.now);
    desk.sent();
    assert_eq!(read(&mut desk, ":1\r\n"), ":1\r\n");
    desk.ask(blocked, "BLPOP foo 0");
    let own = desk.sent_one("BLPOP foo 0");
    assert_eq!(read(&mut desk, ":7\r\n"), ":1\r\n", "copies are used while it is blocked");
    desk.hear(own, "*2\r\n$3\r\nfoo\r\n$1\r\nv\r\n");
    assert_eq!(read(&mut desk, ":0\r\n"), ":0\r\n");
}

#[test]
fn the_number_of_own_connections_is_bounded() {
    let mut desk = Desk::new();
    let (idle, link) = desk.watching();
    desk.ask(idle, "UNWATCH");
    desk.sent();
    desk.hear(link, "+OK\r\n");
    for _ in 1..OWN_CONNECTIONS_MAX {
        let client = desk.client();
        desk.ask(client, "BLPOP foo 0");
    }
    desk.sent();
    assert!(desk.agent.take_closed().is_empty());
    let last = desk.client();
    desk.ask(last, "BLPOP foo 0");
    assert_eq!(desk.agent.take_closed(), [link], "one that is not in use makes room");
    let further = desk.client();
    desk.ask(further, "SUBSCRIBE a");
    desk.ask(further, "BLPOP foo 0");
    let told = desk.told(further);
    assert_eq!(told.matches("-ERR the clients of this agent have 1024 ").count(), 2, "{told}");
    desk.agent.close(last);
    desk.agent.take_closed();
    desk.ask(further, "BLPOP foo 0");
    assert_eq!(desk.told(further), "");
}
