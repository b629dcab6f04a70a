//! Cost of the program for gets that it does not answer: memcached on the second processor, clients
//! on the first, and nothing cached. For comparison, the cost of an XDP program at the end of a
//! veth pair that does nothing: the kernel copies each packet so that a program may change it.

use std::{net::SocketAddr, time::Duration};

use switch::attach;

use super::{
    Reading,
    host::{Memcached, PORT, at_switch, beside, gets, tenth},
};
use crate::{
    rack::namespaces::{End, GATEWAY, Namespaces},
    services::Switch,
};

const SPAN: Duration = Duration::from_millis(700);
/// Number of outstanding gets.
const AT_ONCE: u16 = 32;

pub(super) fn measure<S: Switch>(
    rounds: usize,
    show: impl Fn(&str) + Sync,
) -> anyhow::Result<Vec<Reading>> {
    let namespaces = Namespaces::build()?;
    let _memcached = Memcached::start(&namespaces, End::Switch, GATEWAY)?;
    let server: SocketAddr = (GATEWAY, PORT).into();
    let (mut with, mut without, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        let rate = |keys| {
            let times = beside::<S, _>(&namespaces, server, keys, || gets(server, AT_ONCE, SPAN))?;
            anyhow::Ok(f64::from(AT_ONCE) / tenth(times) * 1e6)
        };
        let rate_idle = || {
            let passing = at_switch(&namespaces, || Ok(attach::accept("client0")?))?;
            let rate = rate(None);
            drop(passing);
            rate
        };
        // The variants take turns at being first, so that drift of the machine favours none of
        // them.
        without.push(rate(None)?);
        with.push(rate(Some(0))?);
        idle.push(rate_idle()?);
        idle.push(rate_idle()?);
        with.push(rate(Some(0))?);
        without.push(rate(None)?);
    }
    let readings = [("misses", with), ("without the program", without), ("an idle program", idle)];
    let reading = |(name, values): (&str, _)| Reading { name: name.into(), values, unit: "1/s" };
    Ok(readings.into_iter().map(reading).collect())
}
