//! The fence of a lease at every primary. Why it keeps two placers from acting at the same time:
//! [`state::lease`].

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use state::{
    fence::{self, Others},
    lease::Token,
    view::View,
};

use super::{
    cluster::{Cluster, LIMIT, query},
    wave::wave,
};
use resp_client::blocking::Connection;

/// Interval of checks whether an earlier fence has disappeared.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// A subscriber at each primary.
pub(super) struct Fence {
    pub(super) token: Token,
    pub(super) channel: String,
    /// Names of the holders whose fences it replaced.
    pub(super) fenced_off: BTreeSet<String>,
    subscribers: Vec<(SocketAddr, Connection)>,
}

/// The result of raising one.
pub(super) enum Raised {
    Everywhere(Fence),
    Outranked(Token),
}

/// Result at one node: the subscriber's connection and the names of holders whose fences it
/// replaced, or the higher token found there.
type AtNode = Result<(Connection, BTreeSet<String>), Token>;

impl Fence {
    /// Raises it at all primaries. After a failure it is at none.
    ///
    /// # Errors
    /// A primary does not answer, or keeps a lower one.
    pub(super) fn raise(
        cluster: &Cluster,
        view: &View,
        token: Token,
        name: &str,
    ) -> anyhow::Result<Raised> {
        let channel = token.channel(name);
        let nodes: Vec<SocketAddr> = view.primaries().map(|(_, member)| member.address).collect();
        let raised = wave(&nodes, |&node| raise_at(cluster, node, token, &channel));
        let (mut subscribers, mut fenced_off) = (Vec::new(), BTreeSet::new());
        for (node, raised) in nodes.into_iter().zip(raised) {
            match raised? {
                Ok((subscriber, gone)) => {
                    subscribers.push((node, subscriber));
                    fenced_off.extend(gone);
                }
                Err(higher) => return Ok(Raised::Outranked(higher)),
            }
        }
        // Another holder may have closed the first while the last was raised, and a node that has
        // restarted hides that.
        let still = wave(&subscribers, |(node, _)| stands_at(cluster, *node, &channel));
        still.into_iter().collect::<anyhow::Result<()>>()?;
        Ok(Raised::Everywhere(Self { token, channel, fenced_off, subscribers }))
    }

    /// Whether the connections to all primaries are open.
    pub(super) fn stands(&self, view: &View) -> bool {
        let stands_at = |address| {
            let mut all = self.subscribers.iter();
            all.any(|(node, subscriber)| *node == address && subscriber.is_open())
        };
        view.primaries().all(|(_, member)| stands_at(member.address))
    }
}

fn raise_at(
    cluster: &Cluster,
    node: SocketAddr,
    token: Token,
    channel: &str,
) -> anyhow::Result<AtNode> {
    let mut subscriber = cluster.connect(node)?;
    for step in fence::subscribe(channel) {
        query(&mut subscriber, step)?;
    }
    let (until, mut gone) = (Instant::now() + LIMIT, BTreeSet::new());
    loop {
        let lower = match cluster.query(node, fence::others(token, channel))? {
            Others::Higher(higher) => return Ok(Err(higher)),
            Others::Lower(lower) => lower,
        };
        let holders = lower.iter().filter_map(|other| Token::read(other));
        gone.extend(holders.map(|(_, name)| name.to_owned()));
        if lower.is_empty() {
            return Ok(Ok((subscriber, gone)));
        }
        if Instant::now() > until {
            bail!(
                "{node}: a connection that is not a placer's is subscribed to {}: find it by `CLIENT LIST TYPE pubsub` \
                 and close it",
                lower.join(" and of ")
            );
        }
        let kills = cluster.query(node, fence::close(&lower))?;
        cluster.query_all(node, kills)?;
        thread::sleep(LOOK_PAUSE);
    }
}

fn stands_at(cluster: &Cluster, node: SocketAddr, channel: &str) -> anyhow::Result<()> {
    if !cluster.query(node, fence::stands(channel))? {
        bail!(
            "{node} lost the subscription of {channel} at once: another placer raised its fence, or the node has \
             restarted"
        );
    }
    Ok(())
}
