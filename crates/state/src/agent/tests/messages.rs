//! Subscriptions use a connection of the client's own; clients that wait are closed when what they
//! wait for cannot come.

use super::{
    own::{Desk, moved_to},
    *,
};

const CONFIRMED: &str = ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
const MESSAGE: &str = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";

/// A client that is subscribed to `a`, and its own connection.
fn subscribed(desk: &mut Desk) -> (usize, usize) {
    let client = desk.client();
    desk.ask(client, "SUBSCRIBE a");
    let own = desk.sent_one("SUBSCRIBE a");
    desk.hear(own, CONFIRMED);
    assert_eq!(desk.told(client), CONFIRMED.replace('>', "*"));
    (client, own)
}

#[test]
fn messages_reach_their_subscribers() {
    let mut desk = Desk::new();
    let (client, own) = subscribed(&mut desk);
    desk.hear(own, MESSAGE);
    assert_eq!(desk.told(client), MESSAGE.replace('>', "*"));
    desk.ask(client, "GET foo");
    assert!(desk.told(client).starts_with("-ERR Can't execute 'get'"));
    desk.ask(client, "PING x");
    assert_eq!(desk.told(client), "*2\r\n$4\r\npong\r\n$1\r\nx\r\n");
    // A message between two confirmations keeps its place; shard channels are counted apart.
    desk.ask(client, "PSUBSCRIBE b* c*");
    assert_eq!(desk.sent_one("PSUBSCRIBE b* c*"), own);
    let confirmed = |name: &str, count: usize| {
        format!(">3\r\n$10\r\npsubscribe\r\n$2\r\n{name}\r\n:{count}\r\n")
    };
    desk.hear(own, &(confirmed("b*", 7) + MESSAGE));
    assert_eq!(desk.told(client), "");
    desk.hear(own, &confirmed("c*", 8));
    let expected = confirmed("b*", 2) + MESSAGE + &confirmed("c*", 3);
    assert_eq!(desk.told(client), expected.replace('>', "*"));
    desk.ask(client, "SSUBSCRIBE foo");
    desk.sent_one("SSUBSCRIBE foo");
    desk.hear(own, ">3\r\n$10\r\nssubscribe\r\n$3\r\nfoo\r\n:1\r\n");
    assert!(desk.told(client).ends_with(":1\r\n"));
    // What arrives after the client has unsubscribed is not for it.
    desk.ask(client, "UNSUBSCRIBE");
    assert_eq!(desk.told(client), "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:2\r\n");
    desk.hear(own, MESSAGE);
    assert_eq!(desk.sent_one("unsubscribe a"), own);
    desk.hear(own, ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:2\r\n");
    assert_eq!(desk.told(client), "");
    for line in ["PUNSUBSCRIBE", "SUNSUBSCRIBE foo"] {
        desk.ask(client, line);
    }
    assert_eq!(desk.agent.take_closed(), [own], "nothing needs it");
    desk.told(client);
    desk.ask(client, "SUNSUBSCRIBE");
    assert_eq!(desk.told(client), "*3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n");
    desk.ask(client, "PING");
    assert_eq!(desk.told(client), "+PONG\r\n");
    assert!(desk.agent.take_dropped().is_empty());
    assert_eq!(desk.agent.held_bytes(), desk.agent.recounted());
}

#[test]
fn a_subscription_that_ends_closes_its_client() {
    let mut desk = Desk::new();
    // Its node is lost.
    let (client, own) = subscribed(&mut desk);
    desk.agent.lost(own, "test", desk.now);
    assert_eq!(desk.agent.take_dropped(), [client]);
    // The slot of a shard channel has moved, before and after it was subscribed to.
    let client = desk.client();
    desk.ask(client, "SSUBSCRIBE foo");
    let first = desk.sent_one("SSUBSCRIBE foo");
    desk.hear(first, &moved_to(1));
    let own = desk.sent_one("SSUBSCRIBE foo");
    assert_eq!(desk.nodes[&own], address(1));
    desk.hear(own, ">3\r\n$10\r\nssubscribe\r\n$3\r\nfoo\r\n:1\r\n");
    assert!(desk.told(client).starts_with("*3\r\n$10\r\nssubscribe"));
    desk.hear(own, ">3\r\n$12\r\nsunsubscribe\r\n$3\r\nfoo\r\n:0\r\n");
    assert_eq!(desk.agent.take_dropped(), [client]);
    // The client does not read.
    let (client, own) = subscribed(&mut desk);
    let long = "x".repeat(1 << 20);
    for _ in 0..5 {
        desk.hear(own, &MESSAGE.replace("$2\r\nhi", &format!("${}\r\n{long}", long.len())));
    }
    assert_eq!(desk.agent.take_dropped().first(), Some(&client));
    // The node refuses.
    let client = desk.client();
    desk.ask(client, "SUBSCRIBE a");
    let own = desk.sent_one("SUBSCRIBE a");
    desk.hear(own, "-NOPERM no\r\n");
    assert_eq!(desk.told(client), "-NOPERM no\r\n");
    assert_eq!(desk.agent.take_closed().last(), Some(&own));
}

#[test]
fn clients_that_wait_are_closed_when_they_lose_their_rights() {
    let mut desk = Desk::new();
    let users = Arc::clone(desk.agent.users());
    users.load("user default on nopass ~* &a &b +@all").expect("rules");
    let (blocked, (heard, _)) = (desk.client(), subscribed(&mut desk));
    desk.ask(blocked, "BLPOP foo 0");
    desk.agent.handle_timeout(desk.now);
    assert!(desk.agent.take_dropped().is_empty());
    users.load("user default on nopass ~* &a +@all").expect("rules");
    desk.agent.handle_timeout(desk.now);
    assert_eq!(desk.agent.take_dropped(), [blocked], "its rules have changed");
    let queues = desk.client();
    desk.ask(queues, "MULTI");
    desk.ask(queues, "SET foo 1");
    users.load("user default on nopass ~* &b +@all").expect("rules");
    desk.ask(queues, "EXEC");
    assert!(desk.told(queues).contains("-EXECABORT the users have changed"));
    desk.agent.close(blocked);
    desk.agent.handle_timeout(desk.now);
    assert_eq!(desk.agent.take_dropped(), [heard]);
}
