//! Concurrent moves: a batch has a time limit, moves that have not begun by then are left to the
//! next batch, and nodes without a part in a move are informed of it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::cluster::{Linked, agree, cluster, connection, link};
use crate::support::origins::Redis;
use crate::support::state::{said, tags_at, wait_for};
use redis::cmd;

const SOURCE: usize = 0;
const TARGET: usize = 1;
const OTHER: usize = 2;

#[test]
fn no_move_begins_late_in_its_batch() {
    let Some(linked) = Linked::start(&[]) else { return };
    let nodes = linked.addresses();
    let tags = tags_at(&nodes, SOURCE);
    // Five round trips of a move take longer than a batch has.
    for node in [SOURCE, TARGET] {
        linked.links[node].set_delay(Duration::from_millis(110), Duration::from_millis(110));
    }
    let [one, two, three] = &tags;
    let to = nodes[TARGET].to_string();
    let (output, text) = said(&nodes, &["move", "--log", "info", one, two, three, "--to", &to]);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("batch of slot moves finished moved=1 ").count(), tags.len(), "{text}");
}

#[test]
fn a_node_that_hears_late_over_its_bus_is_told_of_a_move() {
    let Some(mut nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let [tag, ..] = tags_at(&addresses, SOURCE);
    let mut bus = addresses[OTHER];
    bus.set_port(bus.port() + 10_000);
    let link = link(bus);
    let port = link.local_addr().port();
    nodes[OTHER].set("cluster-announce-bus-port", &port.to_string());
    let knows = |node: usize| {
        let text: String =
            cmd("CLUSTER").arg("NODES").query(&mut connection(addresses[node])).expect("nodes");
        text.contains(&format!("@{port}"))
    };
    wait_for(|| knows(SOURCE) && knows(TARGET), || "the link is not known".to_owned());
    agree(&addresses);
    // Longer than a move, and shorter than its wait until all nodes have received the source's
    // broadcast.
    link.set_delay(Duration::from_millis(700), Duration::ZERO);

    let (output, text) = said(&addresses, &["move", &tag, "--to", &addresses[TARGET].to_string()]);
    assert!(output.status.success(), "{text}");
    let asked = cmd("GET").arg(&tag).query::<()>(&mut connection(addresses[OTHER]));
    let sent = asked.expect_err("it is another's").to_string();
    assert!(sent.contains(&addresses[TARGET].to_string()), "{sent}");
}
