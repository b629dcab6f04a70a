//! The memory that the agent uses for its clients is accounted for, and bounded.

use super::{redirections::Pair, *};

const MIB: usize = 1 << 20;

fn bulk(bytes: usize) -> String {
    format!("${bytes}\r\n{}\r\n", "v".repeat(bytes))
}

#[test]
fn an_answer_that_is_too_long_is_dropped_and_its_client_told() {
    let mut pair = Pair::within(limits());
    let told = pair.told("GET foo", &bulk(9 * MIB));
    assert!(told.starts_with("-ERR the command was executed"), "{told}");
    assert!(pair.agent.held_bytes() < MIB, "{} bytes are kept", pair.agent.held_bytes());
    assert_eq!(pair.told("GET foo", &bulk(7 * MIB)), bulk(7 * MIB), "the next reply is complete");
}

#[test]
fn while_clients_have_no_room_long_answers_are_dropped_and_requests_wait() {
    let mut pair = Pair::within(limits());
    assert_eq!(pair.told("GET foo", &bulk(MIB)).len(), bulk(MIB).len());
    let mut command = Vec::new();
    request::write_command(&mut command, &["GET", "foo"]);
    pair.agent.receive(pair.client, &command, Duration::ZERO).expect("the protocol");
    pair.agent.set_room(0);
    // The second request is not executed before there is room.
    assert!(!pair.agent.listens_to(pair.client));
    let told = pair.told("GET foo", &bulk(MIB));
    assert!(told.contains("dropped"), "{told}");
    assert!(pair.agent.output(pair.client).is_some_and(|output| output.is_empty()));
    pair.agent.set_room(usize::MAX);
    pair.agent.heard(pair.client, Duration::ZERO).expect("the protocol");
    assert_eq!(pair.told("PING", "$1\r\nx\r\n"), "$1\r\nx\r\n+PONG\r\n");
}

#[test]
fn what_a_client_keeps_is_counted_until_it_has_gone() {
    let mut pair = Pair::within(limits());
    pair.told("PING", "");
    let before = pair.agent.held_bytes();
    let unfinished = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4000000\r\n", &vec![b'v'; MIB][..]].concat();
    pair.agent.receive(pair.client, &unfinished, Duration::ZERO).expect("the protocol");
    assert!(pair.agent.held_by(pair.client) >= MIB);
    assert_eq!(pair.agent.held_bytes(), before + pair.agent.held_by(pair.client));
    pair.agent.close(pair.client);
    assert_eq!(pair.agent.held_bytes(), before);
}

#[test]
fn a_request_that_is_too_long_is_refused_at_its_head() {
    let mut pair = Pair::within(limits());
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300000000\r\n";
    assert!(pair.agent.receive(pair.client, head, Duration::ZERO).is_err());
    let output = pair.agent.output(pair.client).expect("a client");
    assert!(output.bytes().starts_with(b"-ERR Protocol error"), "{output:?}");
}
