//! What the program costs gets it does not answer: memcached on the second processor, clients on the
//! first, and nothing cached.

use std::{net::SocketAddr, time::Duration};

use super::{
    Reading,
    host::{Memcached, PORT, beside, gets, tenth},
};
use crate::switch::rack::namespaces::{End, GATEWAY, Namespaces};

const SPAN: Duration = Duration::from_millis(700);
/// Gets under way.
const AT_ONCE: u16 = 32;

pub(super) fn measure(rounds: usize, show: impl Fn(&str) + Sync) -> anyhow::Result<Vec<Reading>> {
    let namespaces = Namespaces::build()?;
    let _memcached = Memcached::start(&namespaces, End::Switch, GATEWAY)?;
    let server: SocketAddr = (GATEWAY, PORT).into();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        // Each goes first as often as the other, so that a drift of the machine favours neither.
        for keys in [None, Some(0), Some(0), None] {
            let times = beside(&namespaces, server, keys, || gets(server, AT_ONCE, SPAN))?;
            let values = if keys.is_some() { &mut with } else { &mut without };
            values.push(f64::from(AT_ONCE) / tenth(times) * 1e6);
        }
    }
    Ok(vec![
        Reading { name: "misses".into(), values: with, unit: "1/s" },
        Reading { name: "without the program".into(), values: without, unit: "1/s" },
    ])
}
