//! The cache at the clients' node, memcached beyond a link of 300 µs.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context, anyhow};
use switch::attach;

use super::{
    Reading,
    host::{KEYS, Memcached, PORT, beside, gets, median},
};

use crate::{
    link::{Tunnel, TunnelConfig, TunnelEnd},
    rack::namespaces::{End, Namespaces, ip},
    services::Switch,
};

const ROUND_TRIP: Duration = Duration::from_micros(300);
const ROUND: Duration = Duration::from_secs(1);
const NEAR: &str = "10.77.0.1/30";
const FAR: &str = "10.77.0.2/30";
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

pub(super) fn measure<S: Switch>(
    rounds: usize,
    show: impl Fn(&str) + Sync,
) -> anyhow::Result<Vec<Reading>> {
    let namespaces = Namespaces::build()?;
    let end = |end, address: &str| -> anyhow::Result<TunnelEnd> {
        Ok(TunnelEnd {
            namespace: Some(namespaces.file(end)),
            device: "link0".into(),
            address: address.parse().map_err(|error| anyhow!("{address}: {error}"))?,
        })
    };
    let mut config = TunnelConfig::new(end(End::Switch, NEAR)?, end(End::Servers, FAR)?);
    config.up.delay = ROUND_TRIP / 2;
    config.down.delay = ROUND_TRIP / 2;
    let tunnel = Tunnel::start(config).context("cannot make the link")?;
    // Requests that arrive over the link are answered over it.
    let to_clients = ["route", "add", "10.1.0.0/24", "via", "10.77.0.1"];
    ip(&[&["-n", &namespaces.name(End::Servers)][..], &to_clients].concat())?;
    let _memcached = Memcached::start(&namespaces, End::Servers, SERVER)?;
    let server = (SERVER, PORT).into();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        let times = || gets(server, 1, ROUND);
        without.push(median(beside::<S, _>(&namespaces, server, None, times)?));
        let accepted = || {
            let _accepting = attach::accept("eth0")?;
            times()
        };
        with.push(median(beside::<S, _>(&namespaces, server, Some(KEYS), accepted)?));
    }
    drop(tunnel);
    Ok(vec![
        Reading { name: "get over the link, cached".into(), values: with, unit: "us" },
        Reading { name: "get over the link".into(), values: without, unit: "us" },
    ])
}
