//! Parsing of `CLUSTER NODES`: nodes, slot owners, open slots.
//!
//! A node is queried about itself by scripts with short replies: in a cluster of a thousand nodes
//! the full reply has a thousand lines, and those of all nodes have a million.

use std::net::{IpAddr, SocketAddr};

use wire::resp::Reply;

use crate::{
    query::{Query, number, text, unexpected, words},
    slot::{SLOTS, Slot},
};

/// Returns the node's own line of CLUSTER NODES, and the latest epoch it knows. A line that begins
/// with an id is the line of that node.
const ONESELF: &str = "\
    local nodes, latest = '\\n' .. redis.call('CLUSTER', 'NODES'), 0 \
    for epoch in string.gmatch(nodes, ' (%d+) %a*connected') do \
      latest = math.max(latest, tonumber(epoch)) \
    end \
    return {string.match(nodes, '\\n(' .. redis.call('CLUSTER', 'MYID') .. ' [^\\n]*)'), latest}";

/// Counts a node's keys that are in none of these slots, given as the first and last slot of each
/// range.
const FOREIGN_KEYS: &str = "\
    local keys = redis.call('DBSIZE') \
    for i = 1, #ARGV, 2 do \
      for slot = tonumber(ARGV[i]), tonumber(ARGV[i + 1]) do \
        keys = keys - redis.call('CLUSTER', 'COUNTKEYSINSLOT', slot) \
      end \
    end \
    return keys";

/// A node, as reported by a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Forty hexadecimal digits.
    pub id: String,
    /// Address for clients.
    pub address: SocketAddr,
    /// It is the node that reported the line.
    pub myself: bool,
    /// It owns slots, or may.
    pub primary: bool,
    /// Other nodes consider it failed, or suspect it.
    pub failing: bool,
    /// Configuration epoch: of two nodes that claim a slot, the one with the higher epoch owns it.
    pub epoch: u64,
    /// First and last of each range of slots it owns.
    pub slots: Vec<(Slot, Slot)>,
    /// Slots that leave it, and their targets; known only for the reporting node.
    pub migrating: Vec<(Slot, String)>,
    /// Slots that it imports, and their sources; known only for the reporting node.
    pub importing: Vec<(Slot, String)>,
}

impl Member {
    /// Its slots, one by one.
    pub fn owned(&self) -> impl Iterator<Item = Slot> {
        let numbers = self.slots.iter().flat_map(|(first, last)| first.number()..=last.number());
        numbers.filter_map(Slot::new)
    }

    /// Whether it owns the slot.
    #[must_use]
    pub fn owns(&self, slot: Slot) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// All nodes that the node at `asked` knows.
#[must_use]
pub fn nodes(asked: SocketAddr) -> Query<'static, Vec<Member>> {
    Query::new(words!["CLUSTER", "NODES"], move |reply| Ok(read(&text(&reply)?, asked)))
}

/// The node at `asked`, and the latest epoch it knows.
#[must_use]
pub fn oneself(asked: SocketAddr) -> Query<'static, (Option<Member>, u64)> {
    Query::new(words!["EVAL_RO", ONESELF, 0], move |reply| match reply.list() {
        [line, Reply::Integer(latest)] => {
            let own = read(&line.text().unwrap_or_default(), asked).pop();
            Ok((own, latest.unsigned_abs()))
        }
        _ => Err(unexpected("its own line of CLUSTER NODES, and an epoch", &reply)),
    })
}

/// Returns the number of a node's keys in slots that are not its own and are not being moved to it.
#[must_use]
pub fn foreign_keys(member: &Member) -> Query<'static, u64> {
    let coming = member.importing.iter().map(|&(slot, _)| (slot, slot));
    let ranges = member.slots.iter().copied().chain(coming);
    let mut words = words!["EVAL_RO", FOREIGN_KEYS, 0];
    words.extend(ranges.flat_map(|(first, last)| words![first, last]));
    Query::new(words, |reply| number(&reply))
}

/// Returns the number of keys of a slot at a node.
#[must_use]
pub fn keys_in(slot: Slot) -> Query<'static, u64> {
    Query::new(words!["CLUSTER", "COUNTKEYSINSLOT", slot], |reply| number(&reply))
}

/// Parses the answer to `CLUSTER NODES` of the node at `asked`. Invalid lines, and nodes without an
/// address, are skipped.
#[must_use]
pub fn read(text: &str, asked: SocketAddr) -> Vec<Member> {
    text.lines().filter_map(|line| member(line, asked)).collect()
}

/// The owner of each slot, from what every node reports of itself: `members` are their own lines.
#[must_use]
pub fn owners(members: &[Member]) -> Vec<Option<usize>> {
    let mut owners: Vec<Option<usize>> = vec![None; SLOTS];
    for (number, member) in members.iter().enumerate() {
        for slot in member.owned() {
            let Some(owner) = owners.get_mut(slot.number()) else { continue };
            let known = owner.and_then(|owner| members.get(owner));
            if known.is_none_or(|known| known.epoch < member.epoch) {
                *owner = Some(number);
            }
        }
    }
    owners
}

fn member(line: &str, asked: SocketAddr) -> Option<Member> {
    let mut words = line.split_ascii_whitespace();
    let (id, place, flags) = (words.next()?, words.next()?, words.next()?);
    let epoch = words.nth(3)?.parse().ok()?;
    let flag = |flag: &str| flags.split(',').any(|found| found == flag);
    if flag("noaddr") || flag("handshake") {
        return None;
    }
    let mut member = Member {
        id: id.to_owned(),
        address: address(place, asked)?,
        myself: flag("myself"),
        primary: flag("master"),
        failing: flag("fail") || flag("fail?"),
        epoch,
        slots: Vec::new(),
        migrating: Vec::new(),
        importing: Vec::new(),
    };
    for word in words.skip(1) {
        member.claim(word);
    }
    Some(member)
}

impl Member {
    fn claim(&mut self, word: &str) -> Option<()> {
        let slot = |text: &str| Slot::new(text.parse().ok()?);
        if let Some(open) = word.strip_prefix('[').and_then(|open| open.strip_suffix(']')) {
            if let Some((number, to)) = open.split_once("->-") {
                self.migrating.push((slot(number)?, to.to_owned()));
            } else if let Some((number, from)) = open.split_once("-<-") {
                self.importing.push((slot(number)?, from.to_owned()));
            }
        } else {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            self.slots.push((slot(first)?, slot(last)?));
        }
        Some(())
    }
}

/// `ip:port@bus[,name…]`; without an ip, of the node that was asked.
fn address(place: &str, asked: SocketAddr) -> Option<SocketAddr> {
    let place = place.split(['@', ',']).next()?;
    let (ip, port) = place.rsplit_once(':')?;
    let ip: IpAddr = if ip.is_empty() { asked.ip() } else { ip.parse().ok()? };
    Some(SocketAddr::new(ip, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
aa 127.0.0.1:7102@17102 master - 0 1426238317239 2 connected 5461-10922
bb :7101@17101,name myself,master - 0 0 7 connected 0-5460 10923 [93->-aa] [77-<-cc]
cc 127.0.0.1:7103@17103 slave,fail aa 0 1426238316232 2 disconnected
dd :0@0 master,noaddr - 0 0 3 disconnected 12000
";

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn slot(number: usize) -> Slot {
        Slot::new(number).expect("a slot")
    }

    #[test]
    fn what_a_node_says_is_read() {
        let members = read(SAID, at(7101));
        assert_eq!(members.len(), 3);
        let (aa, bb, cc) = (&members[0], &members[1], &members[2]);
        assert!(aa.primary && !aa.myself && bb.myself && bb.primary && !cc.primary && cc.failing);
        assert_eq!((aa.address, bb.address, bb.epoch), (at(7102), at(7101), 7));
        assert_eq!(bb.migrating, [(slot(93), "aa".to_owned())]);
        assert_eq!(bb.importing, [(slot(77), "cc".to_owned())]);
        assert_eq!((aa.owned().count(), bb.owned().count()), (5_462, 5_462));
    }

    #[test]
    fn of_two_that_claim_a_slot_the_later_epoch_has_it() {
        let mut members = read(SAID, at(7101));
        members[0].slots.push((slot(5), slot(5)));
        let owners_then = owners(&members);
        assert_eq!(
            (owners_then[5], owners_then[6000], owners_then[12_000]),
            (Some(1), Some(0), None)
        );
        members[0].epoch = 8;
        assert_eq!(owners(&members)[5], Some(0));
    }
}
