//! A VM moves while switches have cached its old location: every datagram arrives, the switches
//! drop the old location, and no more datagrams are misdelivered than in the simulator.
#![allow(clippy::print_stdout, reason = "a test says what it saw")]

mod v2p_support;

use fabric::{Migration, Model, workload::Flow};
use testbed::v2p::{Tunnel, probe::Probe};
use v2p_support::{APART_NS, MACHINES_PER_SERVER, probed, simulated, sum, tree};

/// The VM starts on the third server, and moves to another pod.
const MACHINE: u32 = 7;
const TO_SERVER: u32 = 11;
/// Datagrams from each sender before and after the move.
const BEFORE: u32 = 3;
const AFTER: u32 = 5;

/// Flows from one VM on each server that never hosts the moving VM, in turn.
fn flows() -> (Vec<Flow>, u64) {
    let senders: Vec<u32> = (0..tree().servers())
        .filter(|server| *server != MACHINE / MACHINES_PER_SERVER && *server != TO_SERVER)
        .map(|server| server * MACHINES_PER_SERVER + 1)
        .collect();
    let turns = (0..BEFORE + AFTER).flat_map(|_| senders.iter().copied());
    let flow = |(id, source)| {
        let start_ns = u64::from(id) * APART_NS;
        Flow { source, destination: MACHINE, start_ns, id, bytes: 64 }
    };
    let moves_ns = (u64::from(BEFORE) * senders.len() as u64 + 1) * APART_NS - APART_NS / 2;
    ((1..).zip(turns).map(flow).collect(), moves_ns)
}

fn moves(tunnel: Tunnel) {
    let model = Model::paper();
    let (flows, at_ns) = flows();
    let migration = Migration { vm: MACHINE, server: TO_SERVER, at_ns };
    let expected = simulated(&tree(), model, flows.clone(), vec![migration]);
    let Some(mut testbed) = probed(tree(), tunnel, model) else { return };
    let mut probe = Probe::default();
    let mut moved = false;
    for flow in &flows {
        if flow.start_ns > at_ns && !moved {
            testbed.migrate(MACHINE, TO_SERVER).expect("it moves");
            moved = true;
        }
        probe.send(&testbed, flow.source, flow.destination, flow.id).expect("it arrives");
    }
    let counts = testbed.counts().expect("counters");
    let misdelivered = sum(&counts[testbed.layout().switches()..], "MISDELIVERED");
    let invalidations = sum(&counts, "INVALIDATIONS");
    println!(
        "misdelivered {misdelivered}, simulated {}; invalidation packets {invalidations}, simulated {}",
        expected.misdelivered, expected.invalidation_packets
    );
    assert!(misdelivered > 0 && invalidations > 0, "the move is seen");
    let senders = flows.len() as u64 / u64::from(BEFORE + AFTER);
    assert!(misdelivered <= 2 * senders, "each sender learns of it");
    assert!(misdelivered.abs_diff(expected.misdelivered) <= senders);

    // Another datagram from each sender: none goes to the old location.
    for flow in flows.iter().take(senders as usize) {
        probe.send(&testbed, flow.source, flow.destination, flow.id + 1_000).expect("it arrives");
    }
    let counts = testbed.counts().expect("counters");
    assert_eq!(sum(&counts[testbed.layout().switches()..], "MISDELIVERED"), misdelivered);
}

#[test]
fn and_its_old_place_is_forgotten() {
    moves(Tunnel::Vxlan);
}

#[test]
fn and_its_old_place_is_forgotten_in_ip_in_ip() {
    moves(Tunnel::IpInIp);
}
