//! Servers send to a VM while it moves: every datagram arrives at the old or the new location. None
//! loops between the old server and a gateway until its TTL expires.

mod v2p_support;

use std::{sync::atomic::AtomicBool, time::Duration};

use fabric::Model;
use testbed::v2p::{Tunnel, migration};
use v2p_support::{ft4, live};

const MACHINE: u32 = 1;

fn pass(tunnel: Tunnel) {
    let Some(mut testbed) = live(ft4(), tunnel, Model::paper()) else { return };
    let last = testbed.layout().topology.servers() - 1;
    let (every, duration) = (Duration::from_millis(2), Duration::from_secs(4));
    let stop = AtomicBool::new(false);
    let moved = migration::run(&mut testbed, (MACHINE, last), every, duration, &stop);
    let moved = moved.expect("it moves");
    assert!(moved.sent > 100 && moved.misdelivered > 0 && moved.invalidations > 0, "{moved:?}");
    assert!(moved.first_correct < duration, "{moved:?}");
    assert_eq!(moved.received, moved.sent, "{moved:?}");
}

#[test]
fn in_vxlan() {
    pass(Tunnel::Vxlan);
}

#[test]
fn in_ip_in_ip() {
    pass(Tunnel::IpInIp);
}
