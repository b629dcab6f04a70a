//! The placer knows the delay of each pair of hosts in both directions. Nodes are stock servers and
//! measure nothing; the agent on each host measures the round trip to every node over the
//! connections that requests use. Here two hosts have a node each; the round trips differ by
//! direction, and one node is busy.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use state::{Host, Node, agent::Agent, delays::Delays};
use wire::resp::{Limits, request::Decoder};

const MS: Duration = Duration::from_millis(1);
/// Round trip by host and node, which includes the node's processing time.
const ROUND_TRIPS_MS: [[u32; 2]; 2] = [[1, 9], [4, 3]];

/// The second node has no slots but may get some.
const NODES: &str = "a 127.0.0.1:7000@1 master - 0 0 1 connected 0-16383\n\
    b 127.0.0.1:7001@1 master - 0 0 0 connected\n";

fn node(number: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7_000 + number as u16))
}

/// Runs the agent of a host for two seconds and evaluates its report, as the placer does.
fn measure(host: usize, delays: &mut Delays) {
    let seeds = [node(host)];
    let mut agent = Agent::new(&seeds, None, Limits::default(), 1, Duration::ZERO);
    let mut links: BTreeMap<usize, SocketAddr> = BTreeMap::new();
    let mut answers: Vec<(Duration, usize, Vec<u8>)> = Vec::new();
    let mut now = Duration::ZERO;
    while now < 2_000 * MS {
        if agent.next_timeout() <= now {
            agent.handle_timeout(now);
        }
        for (link, address) in agent.wishes() {
            agent.connected(link);
            links.insert(link, address);
        }
        for (&link, address) in &links {
            let Some(output) = agent.link_output(link) else { continue };
            let said = output.bytes().to_vec();
            output.advance(said.len());
            let to = usize::from(address.port() - 7_000);
            let due = now + ROUND_TRIPS_MS[host][to] * MS;
            answers.extend(answers_to(&said).into_iter().map(|answer| (due, link, answer)));
        }
        let (due, waiting) = answers.into_iter().partition(|&(due, ..)| due <= now);
        answers = waiting;
        for (_, link, answer) in due as Vec<(Duration, usize, Vec<u8>)> {
            agent.node_receive(link, &answer, now).expect("an answer in turn");
        }
        now += MS;
    }
    let report = agent.report(now);
    for number in 0..2 {
        for &time in report.round_trips.get(&node(number)).into_iter().flatten() {
            delays.record(Host(host as u16), Node(number as u16), time, now);
        }
    }
}

/// Returns a node's answers to all requests of one write.
fn answers_to(mut said: &[u8]) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    while let Some((request, taken)) =
        Decoder::default().decode(said, &Limits::default()).expect("commands")
    {
        let first = request.argument(0).expect("a command");
        answers.push(match first {
            b"PING" => b"+PONG\r\n".to_vec(),
            b"CLUSTER" => format!("${}\r\n{NODES}\r\n", NODES.len()).into_bytes(),
            other => panic!("{}", String::from_utf8_lossy(other)),
        });
        said = &said[taken..];
    }
    answers
}

#[test]
fn every_pair_of_hosts_is_measured_in_both_directions() {
    let mut delays = Delays::new(state::delays::Config::default(), 2, 2);
    for host in 0..2 {
        measure(host, &mut delays);
    }
    let matrix = delays.matrix(2_000 * MS);
    for (host, round_trips) in ROUND_TRIPS_MS.into_iter().enumerate() {
        for (number, ms) in round_trips.into_iter().enumerate() {
            let us = matrix.between(Host(host as u16), Node(number as u16));
            assert_eq!(us, ms as f32 * 1_000.0, "from host {host} to node {number}");
        }
    }
}
