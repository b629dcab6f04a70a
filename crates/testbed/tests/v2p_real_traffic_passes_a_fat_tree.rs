//! TCP streams and echoed datagrams between VMs, through a fat tree of 20 switches with ECMP, in
//! VXLAN and in IP-in-IP.

mod v2p_support;

use std::{sync::atomic::AtomicBool, time::Duration};

use fabric::Model;
use testbed::v2p::{Tunnel, load};
use v2p_support::{ft4, live, sum};

fn pass(tunnel: Tunnel) {
    let Some(testbed) = live(ft4(), tunnel, Model::paper()) else { return };
    let pairs = [(1, 25), (6, 45), (13, 2), (33, 18)];
    let stop = AtomicBool::new(false);
    let load = load::run(&testbed, &pairs, Duration::from_secs(3), &stop).expect("it runs");
    assert!(load.stream_bytes > 1 << 20, "{load:?}");
    assert!(load.echoes > 20, "{load:?}");
    let counts = testbed.counts().expect("counters");
    assert!(sum(&counts, "HITS") > sum(&counts[testbed.layout().gateways()], "PACKETS"));
    for name in ["FORGED", "MALFORMED", "NO_ROOM", "MISDELIVERED", "UNKNOWN"] {
        assert_eq!(sum(&counts, name), 0, "{name}");
    }
}

#[test]
fn in_vxlan() {
    pass(Tunnel::Vxlan);
}

#[test]
fn in_ip_in_ip() {
    pass(Tunnel::IpInIp);
}
