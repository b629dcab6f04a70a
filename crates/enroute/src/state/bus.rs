//! Confirms that messages of nodes over the cluster bus have arrived.
//!
//! A node that takes a slot announces that to all others, without acknowledgement. The message may
//! be delayed: by an unacknowledged one before it (40 ms by Nagle's algorithm, which Redis leaves
//! enabled), or by packet loss. A target that takes the slot before then may act on the old message
//! and drop the keys (`docs/decisions/0102-slot-ownership-handover.md`). A published message uses
//! the same connection, after all earlier messages of its node: a subscriber that receives it at
//! another node knows that those have arrived there.

use std::{
    collections::BTreeSet,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use state::{Node, bus, members::Member, view::View};

use super::{
    cluster::{Cluster, query},
    wave::wave,
};
use resp_client::blocking::Connection;

/// Timeout until a published message has reached every node.
const LIMIT: Duration = Duration::from_secs(2);
/// Interval of repetitions until then: a node drops messages to another node while it reconnects to
/// it.
const PERIOD: Duration = Duration::from_millis(300);
/// Messages that have arrived already are read even after the timeout.
const AT_LEAST: Duration = Duration::from_millis(5);

/// Earlier messages of source nodes.
pub(super) struct Bus<'a> {
    cluster: &'a Cluster,
    view: &'a View,
    sources: BTreeSet<Node>,
    heard: OnceLock<Result<BTreeSet<Node>, String>>,
}

impl<'a> Bus<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        view: &'a View,
        sources: impl IntoIterator<Item = Node>,
    ) -> Self {
        let (sources, heard) = (sources.into_iter().collect(), OnceLock::new());
        Self { cluster, view, sources, heard }
    }

    /// Returns after all primaries have received the messages that `source` had sent before the
    /// first call for any of the sources.
    ///
    /// # Errors
    /// Some have not, or the user lacks the rights.
    pub(super) fn is_heard(&self, source: Node, turn: u64) -> anyhow::Result<()> {
        let heard = self.heard.get_or_init(|| self.hear(turn).map_err(|why| format!("{why:#}")));
        match heard {
            Ok(heard) if heard.contains(&source) => Ok(()),
            Ok(_) => bail!(
                "messages of {} over the cluster bus did not reach all nodes within {LIMIT:?}: check `CLUSTER LINKS` \
                 there",
                self.view.member(source)?.address
            ),
            Err(why) => bail!("{why}"),
        }
    }

    /// Returns the sources whose messages have reached all primaries.
    fn hear(&self, turn: u64) -> anyhow::Result<BTreeSet<Node>> {
        let channel = bus::channel(turn);
        let listen = |&(_, member): &(Node, &Member)| -> anyhow::Result<Connection> {
            let mut node = self.cluster.connect(member.address)?;
            query(&mut node, bus::subscribe(&channel)).with_context(|| {
                let channels = bus::CHANNELS;
                format!("slot moves need the rights +publish, +subscribe and channels {channels}*")
            })?;
            Ok(node)
        };
        let primaries: Vec<_> = self.view.primaries().collect();
        let ears = wave(&primaries, listen).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let ears: Vec<_> =
            ears.into_iter().map(|node| Mutex::new((node, BTreeSet::new()))).collect();
        let until = Instant::now() + LIMIT;
        loop {
            let by_all = |source: &Node| ears.iter().all(|ear| ear.lock().1.contains(source));
            let (heard, missing): (Vec<Node>, Vec<Node>) =
                self.sources.iter().copied().partition(by_all);
            let now = Instant::now();
            if missing.is_empty() || now >= until {
                return Ok(heard.into_iter().collect());
            }
            let publish = |source: &Node| -> anyhow::Result<()> {
                let address = self.view.member(*source)?.address;
                self.cluster.query(address, bus::publish(&channel, *source))
            };
            wave(&missing, publish).into_iter().collect::<anyhow::Result<()>>()?;
            let round = Instant::now() + PERIOD;
            wave(&ears, |ear| listen_until(&mut ear.lock(), self.sources.len(), round));
        }
    }
}

/// Receives from the given number of sources, or until the given time.
fn listen_until((node, heard): &mut (Connection, BTreeSet<Node>), sources: usize, round: Instant) {
    while heard.len() < sources {
        let left = round.saturating_duration_since(Instant::now());
        let Ok(message) = node.hear(left.max(AT_LEAST)) else {
            return thread::sleep(round.saturating_duration_since(Instant::now()));
        };
        heard.extend(bus::source(&message));
    }
}
