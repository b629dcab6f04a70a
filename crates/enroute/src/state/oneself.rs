//! What a node says of itself, asked by scripts that answer in a word: what it can tell of a cluster of a thousand
//! nodes is a thousand lines, and from each of them a million.

use std::net::SocketAddr;

use anyhow::bail;
use state::members::{self, Member};
use wire::resp::Reply;

use super::cluster::Cluster;

/// Its own line of CLUSTER NODES, and the latest epoch it has heard of. An id begins a line only of its node.
const TELL: &str = "\
    local nodes, latest = '\\n' .. redis.call('CLUSTER', 'NODES'), 0 \
    for epoch in string.gmatch(nodes, ' (%d+) %a*connected') do \
      latest = math.max(latest, tonumber(epoch)) \
    end \
    return {string.match(nodes, '\\n(' .. redis.call('CLUSTER', 'MYID') .. ' [^\\n]*)'), latest}";

/// How many keys it has that are in none of these slots, first and last of each range.
const OTHERS: &str = "\
    local keys = redis.call('DBSIZE') \
    for i = 1, #ARGV, 2 do \
      for slot = tonumber(ARGV[i]), tonumber(ARGV[i + 1]) do \
        keys = keys - redis.call('CLUSTER', 'COUNTKEYSINSLOT', slot) \
      end \
    end \
    return keys";

/// The node at `address`, and the latest epoch it has heard of.
///
/// # Errors
/// It does not answer.
pub(super) fn tell(
    cluster: &Cluster,
    address: SocketAddr,
) -> anyhow::Result<(Option<Member>, u64)> {
    let reply = cluster.ask(address, &["EVAL_RO", TELL, "0"])?;
    let [line, Reply::Integer(latest)] = reply.list() else {
        bail!("{address}: expected its own line of CLUSTER NODES, got {reply:?}");
    };
    let own = members::read(&line.text().unwrap_or_default(), address).pop();
    Ok((own, latest.unsigned_abs()))
}

/// Whether the node has keys of slots that are not its own and do not come to it.
///
/// # Errors
/// It does not answer.
pub(super) fn has_others_keys(cluster: &Cluster, member: &Member) -> anyhow::Result<bool> {
    let coming = member.importing.iter().map(|&(slot, _)| (slot, slot));
    let ranges = member.slots.iter().copied().chain(coming);
    let bounds =
        ranges.flat_map(|(first, last)| [first, last].map(|slot| slot.number().to_string()));
    let words = ["EVAL_RO", OTHERS, "0"].map(str::to_owned).into_iter().chain(bounds);
    match cluster.ask(member.address, &words.collect::<Vec<_>>())? {
        Reply::Integer(keys) => Ok(keys != 0),
        other => bail!("{}: expected a number of keys, got {other:?}", member.address),
    }
}
