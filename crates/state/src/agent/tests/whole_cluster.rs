//! Requests that several nodes execute: their parts, and the reply that is made of them.

use super::{redirections::Pair, *};

#[test]
fn all_keys_are_deleted_while_slots_move() {
    let (redirected, _, done, uncertain) = run_with(200..230, false, true);
    assert!(redirected > 500 && done > 5_000, "{redirected} {done}");
    assert_eq!(uncertain, 0);
}

#[test]
fn connections_break_while_all_keys_are_deleted_and_no_later_write_is_lost() {
    let (redirected, _, done, uncertain) = run_with(300..330, true, true);
    assert!(redirected > 500 && done > 2_000 && uncertain > 10, "{redirected} {done} {uncertain}");
}

/// What the agent sends to the node, which replies with `OK` to each request of before.
fn sent_after(pair: &mut Pair, replies: usize) -> String {
    for _ in 0..replies {
        pair.agent.node_receive(pair.link, b"+OK\r\n", pair.now).expect("the protocol");
    }
    let output = pair.agent.link_output(pair.link).expect("it is connected");
    let sent = String::from_utf8(output.bytes().to_vec()).expect("text");
    output.advance(sent.len());
    sent
}

#[test]
fn it_waits_for_earlier_requests_and_later_ones_wait_for_it() {
    let mut pair = Pair::new();
    assert_eq!(pair.told("GET a", "$-1\r\n"), "$-1\r\n");
    let requests = b"SET a 1\r\nSET b 1\r\nFLUSHALL\r\nSET a 2\r\nDEL a b\r\nSET a 3\r\n";
    pair.agent.receive(pair.client, requests, pair.now).expect("the protocol");
    assert_eq!(sent_after(&mut pair, 0), "SET a 1\r\nSET b 1\r\n");
    assert_eq!(sent_after(&mut pair, 1), "");
    assert_eq!(sent_after(&mut pair, 1), "FLUSHALL\r\n");
    assert_eq!(sent_after(&mut pair, 1), "FLUSHALL\r\n", "keys that moved are deleted too");
    assert_eq!(sent_after(&mut pair, 1), "SET a 2\r\n");
    let parts = ["a", "b"].map(|key| format!("*2\r\n$3\r\nDEL\r\n$1\r\n{key}\r\n")).concat();
    assert_eq!(sent_after(&mut pair, 1), parts);
    assert_eq!(sent_after(&mut pair, 1), "");
    assert_eq!(sent_after(&mut pair, 1), "SET a 3\r\n");
}

#[test]
fn what_was_executed_in_part_says_so() {
    let told = Pair::new().told("MSET a 1 b 2 c 3", "-OOM command not allowed\r\n");
    assert_eq!(told, "-OOM command not allowed\r\n", "no part was executed");
    let mut answers = ["+OK\r\n", "-OOM command not allowed\r\n", "+OK\r\n"].into_iter();
    let told =
        Pair::new().told_each("MSET a 1 b 2 c 3", |_| answers.next().expect("three").to_owned());
    assert_eq!(told, "-OOM command not allowed; 2 of 3 parts of the command were executed\r\n");
    let mut answers = [":1\r\n", "-WRONGPASS x\r\n"].into_iter();
    let told = Pair::new().told_each("EXISTS a b", |_| answers.next().expect("two").to_owned());
    assert_eq!(told, "-WRONGPASS x\r\n", "a read changes nothing");
    let told = Pair::new().told("MSET a 1 b", "+OK\r\n");
    assert_eq!(told, "-ERR wrong number of arguments for 'mset' command\r\n");
}

#[test]
fn a_reply_that_is_too_long_in_total_is_not_kept() {
    let limits = Limits { reply_bytes_max: 100, ..Limits::default() };
    let value = format!("*1\r\n$40\r\n{}\r\n", "x".repeat(40));
    let mut pair = Pair::within(limits);
    let told = pair.told("MGET a b c", &value);
    assert!(told.starts_with("-ERR the command was executed, and its reply was dropped"), "{told}");
    let told = pair.told("MGET a", &value);
    assert_eq!(told, value);
}

#[test]
fn an_iteration_over_all_keys_ends_with_an_error_when_primaries_have_changed() {
    let mut pair = Pair::new();
    let told = pair.told("SCAN 0 COUNT 5", "*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n");
    let cursor = told.split("\r\n").nth(2).expect("a cursor").to_owned();
    assert!(cursor.parse::<i64>().expect("a number that any client can read") > 7, "{told}");
    assert!(told.ends_with("*1\r\n$1\r\na\r\n"), "{told}");
    let mut asked = Vec::new();
    let last = "*2\r\n$1\r\n0\r\n*0\r\n";
    let told = pair.told_each(&format!("SCAN {cursor} COUNT 5"), |request| {
        asked.push(request.to_owned());
        last.to_owned()
    });
    assert_eq!((told.as_str(), asked), (last, vec!["SCAN 7 COUNT 5".to_owned()]));
    let other = cursor.parse::<u64>().expect("a number") ^ 1 << 45;
    let told = pair.told(&format!("SCAN {other}"), last);
    assert!(told.starts_with("-ERR SCAN: the primaries of the cluster have changed"), "{told}");
    assert_eq!(pair.told("SCAN x", last), "-ERR invalid cursor\r\n");
    let told = pair.told("SCAN 0", "*2\r\n$13\r\n9999999999999\r\n*0\r\n");
    assert!(told.starts_with("-ERR SCAN: expected a cursor of "), "{told}");
}
