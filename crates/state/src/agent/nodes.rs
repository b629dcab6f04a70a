//! The agent's side of the nodes: its connections, and where requests are sent.

use std::{mem, net::SocketAddr, time::Duration};

use wire::resp::{Kind, Version, response};

use super::{
    Agent, Output, RETRY_FOR,
    copies::Held,
    flight::{Asked, Asker, Link, Purpose},
    own::Own,
};

/// Delay before a request is retried whose connection was lost.
const LOST_PAUSE: Duration = Duration::from_millis(100);
/// Interval of periodic queries of slot owners.
const SLOTS_PERIOD: Duration = Duration::from_secs(5);
/// Minimum time between two such queries.
const SLOTS_PAUSE: Duration = Duration::from_millis(200);
/// Timeout of such a query; the node is not asked again.
const SLOTS_LIMIT: Duration = Duration::from_secs(2);
/// Interval at which the infrastructure monitor pings nodes that have slots or may get some.
const PING_PERIOD: Duration = Duration::from_millis(250);
/// Maximum number of nodes pinged at once; with more nodes they take turns, so that neither an
/// agent's pings grow with the nodes nor a node's without limit with the agents.
const PINGED_MAX: usize = 64;

const NODES: &[u8] = b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const INFO: &[u8] = b"*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n";

impl Agent {
    /// Connections to be made: seat and address.
    pub fn wishes(&mut self) -> Vec<(usize, SocketAddr)> {
        let links = &self.links;
        let wish = |link: usize| {
            let found = links.get(link).filter(|found| !found.closed)?;
            Some((link, found.address))
        };
        mem::take(&mut self.wishes).into_iter().filter_map(wish).collect()
    }

    /// Output of a connection; empty before it is established.
    pub fn link_output(&mut self, link: usize) -> Option<&mut Output> {
        self.links
            .get_mut(link)
            .filter(|link| link.connected && !link.closed)
            .map(|link| &mut link.output)
    }

    /// Connections with pending output; possibly with duplicates and closed ones.
    pub fn links_spoken(&mut self, into: &mut Vec<usize>) {
        into.append(&mut self.links_spoken);
    }

    /// A requested connection was established.
    pub fn connected(&mut self, link: usize) {
        if let Some(found) = self.links.get_mut(link) {
            found.connected = true;
            self.links_spoken.push(link);
        }
    }

    /// Whether replies are outstanding on a connection, and a node that works gives them soon.
    #[must_use]
    pub fn is_waiting(&self, link: usize) -> bool {
        let front = self.links.get(link).and_then(|link| link.flights.front());
        front.is_some_and(|flight| match &flight.asker {
            Asker::Client(asked) => asked.own != Some(Own::Block),
            _ => true,
        })
    }

    /// A connection was lost, or could not be established.
    pub fn lost(&mut self, link: usize, why: &str, now: Duration) {
        let Some(mut lost) = self.links.try_remove(link) else { return };
        self.held -= lost.counted;
        if lost.closed {
            return;
        }
        if let Some(owner) = lost.owner {
            self.lost_own(link, owner);
        } else if let Some(links) = self.links_of.get_mut(lost.node) {
            links[lost.purpose.place()] = None;
        }
        self.copies.lost(link);
        self.any += 1;
        self.hurry_slots(now);
        for (asker, request, executed) in lost.lose() {
            let (asked, version) = match asker {
                Asker::Slots => {
                    self.slots_asked = None;
                    continue;
                }
                Asker::Ping(_) | Asker::Proof(_) | Asker::Expiry(..) | Asker::Ignored(_) => {
                    continue;
                }
                Asker::Subscribe(subscribing) => {
                    let mut answer = Vec::new();
                    let text = format!("ERR cannot reach {}: {why}", lost.address);
                    response::write_error(&mut answer, text.as_bytes());
                    self.subscribed(subscribing, &answer, now);
                    continue;
                }
                Asker::Client(asked)
                    if asked.own == Some(Own::Exec) && !(executed && asked.write) =>
                {
                    self.tell_changed(&asked, now);
                    continue;
                }
                Asker::Client(asked) => (asked, lost.purpose.version()),
                Asker::Copied(asked, version, _) => (asked, version),
            };
            if executed && asked.write {
                // Built with `RUSTFLAGS='--cfg enroute_broken_lease'` the agent says of such a
                // write that it was not executed: the history checker has to find that out (make
                // soak).
                let word = if cfg!(enroute_broken_lease) { "ERR" } else { "UNCERTAIN" };
                let text = format!(
                    "{word} the connection to {} was lost before it answered ({why}); the \
                         command may have been executed or not, and was not repeated",
                    lost.address
                );
                self.tell_error(&asked, &text, now);
            } else {
                let text =
                    format!("ERR cannot reach {}: {why}; tried for {RETRY_FOR:?}", lost.address);
                let mut answer = Vec::new();
                response::write_error(&mut answer, text.as_bytes());
                self.delay(asked, version, request, LOST_PAUSE, &answer, now);
            }
        }
    }

    /// A node has sent `bytes`.
    ///
    /// # Errors
    /// A protocol violation: the connection must be closed.
    pub fn node_receive(&mut self, at: usize, bytes: &[u8], now: Duration) -> wire::Result<()> {
        let link = self.links.get_mut(at).filter(|link| !link.closed);
        let Some(link) = link else { return Ok(()) };
        let mut input = mem::take(&mut link.input);
        let (mut start, mut scanned, mut dropped) = (0, link.scanned, 0);
        let data = if input.is_empty() {
            bytes
        } else {
            input.extend_from_slice(bytes);
            &input
        };
        while let Some(link) = self.links.get_mut(at).filter(|link| !link.closed) {
            let progress = link.scanner.advance(data.get(scanned..).unwrap_or_default())?;
            scanned += progress.consumed;
            let answer = data.get(start..scanned).unwrap_or_default();
            if !progress.complete {
                if link.dropped > 0 || answer.len() > self.answer_bytes_max(at) {
                    dropped = answer.len();
                    start = scanned;
                }
                break;
            }
            start = scanned;
            if link.dropped > 0 {
                let bytes = mem::take(&mut link.dropped) + answer.len();
                self.dropped(at, progress.kind, bytes, now)?;
            } else if progress.kind != Some(Kind::Push) {
                self.answer(at, answer, now)?;
            } else if link.purpose == Purpose::Copies {
                self.copies.told(at, answer);
            } else if link.purpose == Purpose::Messages {
                self.message(at, answer, now);
            }
        }
        // A long answer arrives in many pieces: the part received so far is not copied for each.
        if input.is_empty() {
            input.extend_from_slice(bytes.get(start..).unwrap_or_default());
        } else {
            input.drain(..start);
        }
        if let Some(link) = self.links.get_mut(at).filter(|link| !link.closed) {
            (link.scanned, link.input) = (scanned - start, input);
            link.dropped += dropped;
            link.shrink();
        }
        self.count_link(at);
        Ok(())
    }

    /// Returns the time at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn next_timeout(&self) -> Duration {
        let asked = self.slots_asked.map_or(self.slots_due, |at| at + SLOTS_LIMIT);
        let delayed = self.delayed.first_key_value().map(|(&(at, _), _)| at);
        delayed.unwrap_or(Duration::MAX).min(asked).min(self.pings_due)
    }

    /// Takes the last answer without slots since the last call: the address of the node, and why.
    pub fn take_slotless(&mut self) -> Option<(SocketAddr, String)> {
        self.slotless.take()
    }

    /// Handles timers.
    pub fn handle_timeout(&mut self, now: Duration) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (asked, version, request) = entry.remove();
            self.held -= request.len();
            if let Some(client) = self.asker(&asked) {
                client.delayed -= 1;
                if client.delayed == 0 {
                    client.delayed_until = Duration::ZERO;
                }
            }
            self.dispatch(asked, version, &request, now);
        }
        self.recheck_users();
        if self.slots_asked.is_some_and(|at| at + SLOTS_LIMIT <= now) {
            self.any += 1;
            self.slots_asked = None;
        }
        if self.slots_asked.is_none() && self.slots_due <= now {
            (self.slots_asked, self.slots_due) = (Some(now), now + SLOTS_PERIOD);
            let node = self.any_node();
            self.say(node, Purpose::Requests(Version::Resp2), Asker::Slots, b"", NODES, 1);
        }
        if self.pings_due <= now {
            self.pings_due = now + PING_PERIOD;
            let places: Vec<usize> = self.map.places().collect();
            let turns = places.len().div_ceil(PINGED_MAX).max(1);
            self.pings = (self.pings + 1) % turns;
            for (at, node) in places.into_iter().enumerate() {
                let purpose = Purpose::Requests(Version::Resp2);
                if at % turns == self.pings {
                    let link = self.link(node, purpose);
                    if !self.monitor.blind && self.may_ping(link) {
                        self.say(node, purpose, Asker::Ping(now), b"", PING, 1);
                    }
                }
                if self.link_of(node, Purpose::Copies).is_some_and(|link| self.may_ping(link)) {
                    self.say(node, Purpose::Copies, Asker::Proof(now), b"", INFO, 1);
                }
            }
        }
    }

    /// Sends a request to the owner in the map, or to the node that must execute this part of it.
    pub(super) fn dispatch(
        &mut self,
        asked: Asked,
        version: Version,
        request: &[u8],
        now: Duration,
    ) {
        let node = match (asked.slot, asked.part) {
            (Some(slot), _) => self.map.owner(slot).unwrap_or_else(|| self.any_node()),
            (None, None) => self.any_node(),
            (None, Some(part)) => match self.place_of(&asked, part) {
                Ok(node) => node,
                Err(why) => return self.tell_error(&asked, &why, now),
            },
        };
        self.send(node, asked, version, b"", request, now);
    }

    /// Sends a request over the shared connection, or that of its client's own. During a write, no
    /// copy of its slot is made or used.
    pub(super) fn send(
        &mut self,
        node: usize,
        mut asked: Asked,
        version: Version,
        ahead: &[u8],
        request: &[u8],
        now: Duration,
    ) {
        if asked.own.is_some() {
            return self.send_own(node, asked, version, ahead, request, now);
        }
        if let Some(slot) = asked.slot.filter(|_| asked.write && asked.holds.is_none()) {
            asked.holds = Some(Held::Slot(slot));
            self.copies.write_begins(Held::Slot(slot));
        }
        let answers = asked.answers;
        self.say(node, Purpose::Requests(version), Asker::Client(asked), ahead, request, answers);
    }

    /// A node that cannot be reached is not measured.
    fn may_ping(&self, link: usize) -> bool {
        let is_ping = |asker: &Asker| matches!(asker, Asker::Ping(_) | Asker::Proof(_));
        self.links.get(link).is_some_and(|link| {
            link.connected && !link.flights.iter().any(|flight| is_ping(&flight.asker))
        })
    }

    pub(super) fn say(
        &mut self,
        node: usize,
        purpose: Purpose,
        asker: Asker,
        ahead: &[u8],
        request: &[u8],
        answers: u32,
    ) {
        let at = self.link(node, purpose);
        let Some(link) = self.links.get_mut(at) else { return };
        if link.output.is_empty() {
            self.links_spoken.push(at);
        }
        link.say(asker, ahead, request, answers);
        self.count_link(at);
    }

    /// The connection to a node, if there is one.
    pub(super) fn link_of(&self, node: usize, purpose: Purpose) -> Option<usize> {
        self.links_of.get(node)?[purpose.place()]
    }

    /// The connection to a node; it may not be established yet.
    pub(super) fn link(&mut self, node: usize, purpose: Purpose) -> usize {
        if self.links_of.len() <= node {
            self.links_of.resize(node + 1, [None; Purpose::COUNT]);
        }
        if let Some(link) = self.links_of[node][purpose.place()] {
            return link;
        }
        let address = self.map.address(node).unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let link = Link::new(node, purpose, address, self.login.as_ref(), &self.limits);
        let link = self.links.insert(link);
        self.links_of[node][purpose.place()] = Some(link);
        self.wishes.push(link);
        self.links_spoken.push(link);
        link
    }

    /// A node for requests that any node can answer: one with slots, if known.
    pub(super) fn any_node(&self) -> usize {
        let owners = self.map.owners();
        let place = self.any.checked_rem(owners.clone().count());
        let owner = place.and_then(|place| owners.clone().nth(place));
        let known = self.map.known();
        let node = || known.clone().nth(self.any.checked_rem(known.clone().count())?);
        owner.or_else(node).unwrap_or_default()
    }

    pub(super) fn hurry_slots(&mut self, now: Duration) {
        self.slots_due = self.slots_due.min(now + SLOTS_PAUSE);
    }
}

pub(super) fn unexpected(expected: &'static str, got: String) -> wire::Error {
    wire::Error::Malformed { protocol: "redis", offset: 0, expected, got }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn of_many_nodes_each_is_pinged_in_its_turn() {
        const NODES: usize = 3 * PINGED_MAX + 8;
        let address = |node: usize| SocketAddr::from(([10, 0, 0, 1], 1 + node as u16));
        let limits = wire::resp::Limits::default();
        let mut agent = Agent::new(&[address(0)], None, limits, 7, Duration::ZERO);
        let connect = |agent: &mut Agent| {
            let wishes = agent.wishes();
            wishes.iter().for_each(|&(link, _)| agent.connected(link));
            wishes.into_iter().map(|(link, _)| link).collect::<Vec<_>>()
        };
        let mut links = connect(&mut agent);
        let line = |node: usize| {
            format!("{node} {}@1 master - 0 0 {node} connected {node}\n", address(node))
        };
        let text: String = (0..NODES).map(line).collect();
        agent.link_output(links[0]).expect("it is there").advance(super::NODES.len());
        let answer = format!("${}\r\n{text}\r\n", text.len());
        agent.node_receive(links[0], answer.as_bytes(), Duration::ZERO).expect("nodes");
        let (mut pinged, mut now) = (BTreeSet::new(), Duration::ZERO);
        // In its first turn a node is connected, in later ones it is pinged.
        for _ in 0..2 * NODES.div_ceil(PINGED_MAX) {
            now += PING_PERIOD;
            agent.handle_timeout(now);
            let new = connect(&mut agent);
            assert!(new.len() <= PINGED_MAX, "{} connections at once", new.len());
            links.extend(new);
            let mut count = 0;
            for &link in &links {
                let output = agent.link_output(link).expect("it is there");
                let pings = output.bytes().windows(4).filter(|word| word == b"PING").count();
                output.advance(output.bytes().len());
                for _ in 0..pings {
                    agent.node_receive(link, b"+PONG\r\n", now).expect("an answer");
                    (count, _) = (count + 1, pinged.insert(link));
                }
            }
            assert!(count <= PINGED_MAX, "{count} pings at once");
        }
        assert_eq!((links.len(), pinged.len()), (NODES, NODES));
    }
}
