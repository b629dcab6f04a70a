//! Redis Cluster: replaces the nodes' addresses by those of the listeners in front of them.
//!
//! A client learns the nodes from `CLUSTER SLOTS`, `SHARDS` or `NODES` and from redirections, and
//! would then connect to them and bypass the cache. An address without a listener is left
//! unchanged.

use std::{
    collections::BTreeSet,
    mem,
    sync::{Mutex, PoisonError},
};

use wire::resp::{Frame, Kind, response};

/// Addresses of the cluster's nodes, each with the listener for it.
#[derive(Debug, Default)]
pub struct Addresses {
    known: Vec<[Address; 2]>,
    strangers: Mutex<Strangers>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    host: String,
    port: u16,
}

/// Addresses without a listener.
#[derive(Debug, Default)]
struct Strangers {
    seen: BTreeSet<Address>,
    untold: Vec<String>,
}

/// Maximum number of reported addresses without a listener.
const STRANGERS_MAX: usize = 64;

/// A reply that names nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// `CLUSTER SLOTS`: ranges, each with its nodes as arrays of host, port and more.
    Slots,
    /// `CLUSTER SHARDS`: maps that hold maps with `ip`, `endpoint` and `port`.
    Shards,
    /// `CLUSTER NODES` and `CLUSTER REPLICAS`: a line of text for each node.
    Nodes,
}

impl Topology {
    pub(super) fn of(command: &str) -> Option<Self> {
        match command {
            "cluster|slots" => Some(Self::Slots),
            "cluster|shards" => Some(Self::Shards),
            "cluster|nodes" | "cluster|replicas" | "cluster|slaves" => Some(Self::Nodes),
            _ => None,
        }
    }
}

impl Addresses {
    /// Creates it from pairs of a node's `host:port` and that of its listener.
    #[must_use]
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let pairs = pairs.into_iter();
        let known = pairs.filter_map(|(node, ours)| Some([parse(&node)?, parse(&ours)?])).collect();
        Self { known, strangers: Mutex::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Takes the addresses without a listener that were found since the last call, each reported
    /// once.
    #[must_use]
    pub fn take_strangers(&self) -> Vec<String> {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut strangers.untold)
    }

    /// The listener for `host:port`. A node without a host is identified by its port, if that is
    /// unique.
    fn find(&self, host: &str, port: u16) -> Option<&Address> {
        let named = !matches!(host, "" | "?");
        let mut matching = self
            .known
            .iter()
            .filter(|[node, _]| node.port == port && (!named || node.host == host))
            .map(|[_, ours]| ours);
        match (matching.next(), matching.next()) {
            (Some(ours), None) => Some(ours),
            (Some(ours), Some(_)) if named => Some(ours),
            // A client that was given a listener's address may send it back.
            _ if self.known.iter().any(|[_, ours]| ours.host == host && ours.port == port) => None,
            _ => {
                self.note(host, port);
                None
            }
        }
    }

    fn note(&self, host: &str, port: u16) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let stranger = Address { host: host.to_owned(), port };
        if strangers.seen.len() < STRANGERS_MAX && strangers.seen.insert(stranger) {
            strangers.untold.push(format!("{host}:{port}"));
        }
    }

    /// Writes `reply` with the addresses a client is to use.
    pub(super) fn rewrite(&self, topology: Topology, reply: &Frame<'_>, out: &mut Vec<u8>) {
        if !reply.kind().is_aggregate() {
            match (topology, reply.payload(), reply.kind()) {
                (Topology::Nodes, Some(text), Kind::Bulk) => {
                    response::write_bulk(out, &self.lines(text));
                }
                (Topology::Nodes, Some(text), Kind::Verbatim) => {
                    let (format, text) = text.split_at_checked(4).unwrap_or((b"txt:", text));
                    let text = [format, &self.lines(text)].concat();
                    out.extend_from_slice(format!("={}\r\n", text.len()).as_bytes());
                    out.extend_from_slice(&text);
                    out.extend_from_slice(b"\r\n");
                }
                _ => out.extend_from_slice(reply.bytes()),
            }
            return;
        }
        let elements: Vec<_> = reply.elements().collect();
        let ours = match topology {
            Topology::Slots => self.slots_node(&elements),
            Topology::Shards => self.shards_node(&elements),
            Topology::Nodes => None,
        };
        out.extend_from_slice(header(reply, &elements));
        for (place, element) in elements.iter().enumerate() {
            let replaced = ours.and_then(|ours| {
                let name = place.checked_sub(1).and_then(|before| elements.get(before));
                Some((ours, part(topology, place, name?)?))
            });
            match (replaced, ours, topology, place) {
                (_, Some(ours), Topology::Slots, 0) | (Some((ours, Part::Host)), ..) => {
                    response::write_bulk(out, ours.host.as_bytes());
                }
                (Some((ours, Part::Port)), ..) => response::write_integer(out, ours.port.into()),
                _ => self.rewrite(topology, element, out),
            }
        }
    }

    /// Host, port, …: one node in `CLUSTER SLOTS`.
    fn slots_node(&self, elements: &[Frame<'_>]) -> Option<&Address> {
        let [host, port, ..] = elements else { return None };
        let named = host.kind() == Kind::Bulk || host.is_null();
        self.find(text(host), number(port).filter(|_| named)?)
    }

    /// `id`, `port`, `ip`, `endpoint`, …, names and values in turn: one node in `CLUSTER SHARDS`.
    fn shards_node(&self, elements: &[Frame<'_>]) -> Option<&Address> {
        let value = |name: &str| {
            let place = elements.iter().step_by(2).position(|element| text(element) == name)?;
            elements.get(2 * place + 1)
        };
        self.find(text(value("ip")?), number(value("port")?)?)
    }

    /// `id host:port@bus[,name] flags …` for each node.
    fn lines(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match std::str::from_utf8(line).ok().and_then(|line| self.line(line)) {
                Some(rewritten) => out.extend_from_slice(rewritten.as_bytes()),
                None => out.extend_from_slice(line),
            }
        }
        out
    }

    fn line(&self, line: &str) -> Option<String> {
        let (id, rest) = line.split_once(' ')?;
        let (place, rest) = rest.split_once(' ')?;
        let (address, bus) = place.split_once('@')?;
        let (host, port) = address.rsplit_once(':')?;
        let ours = self.find(host, port.parse().ok()?)?;
        let bus = bus.split(',').next().unwrap_or_default();
        Some(format!("{id} {}:{}@{bus} {rest}", ours.host, ours.port))
    }

    /// The redirection `-MOVED slot host:port` or `-ASK slot host:port`, rewritten; `None` if
    /// `reply` is no redirection, or leads to a node without a listener.
    pub(super) fn redirect(&self, reply: &[u8]) -> Option<Vec<u8>> {
        let line = reply.strip_prefix(b"-").and_then(|line| line.strip_suffix(b"\r\n"))?;
        let words = [b"MOVED ".as_slice(), b"ASK "];
        if !words.iter().any(|word| line.starts_with(word)) {
            return None;
        }
        let (before, address) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
        let (host, port) = address.rsplit_once(':')?;
        let ours = self.find(host, port.parse().ok()?)?;
        Some(format!("-{before} {}:{}\r\n", ours.host, ours.port).into_bytes())
    }
}

enum Part {
    Host,
    Port,
}

/// Returns the part of a node's address that is at index `place`, after the element `before`.
fn part(topology: Topology, place: usize, before: &Frame<'_>) -> Option<Part> {
    match (topology, text(before)) {
        (Topology::Slots, _) if place == 1 => Some(Part::Port),
        (Topology::Shards, "ip" | "endpoint" | "hostname") if place % 2 == 1 => Some(Part::Host),
        (Topology::Shards, "port") if place % 2 == 1 => Some(Part::Port),
        _ => None,
    }
}

/// Returns the bytes of an aggregate before its elements.
fn header<'a>(aggregate: &Frame<'a>, elements: &[Frame<'_>]) -> &'a [u8] {
    let elements: usize = elements.iter().map(|element| element.bytes().len()).sum();
    let bytes = aggregate.bytes();
    bytes.get(..bytes.len() - elements).unwrap_or(bytes)
}

fn text<'a>(frame: &Frame<'a>) -> &'a str {
    std::str::from_utf8(frame.payload().unwrap_or_default()).unwrap_or_default()
}

fn number(frame: &Frame<'_>) -> Option<u16> {
    u16::try_from(frame.integer()?).ok()
}

fn parse(address: &str) -> Option<Address> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some(Address { host, port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use wire::resp::{Limits, frame};

    use super::{Addresses, Topology};

    fn addresses() -> Addresses {
        let pairs = [("10.0.0.1:7000", "127.0.0.1:1"), ("[::1]:7001", "127.0.0.1:2")];
        Addresses::new(pairs.map(|(node, ours)| (node.to_owned(), ours.to_owned())))
    }

    fn rewritten(topology: Topology, reply: &str) -> String {
        let reply = reply.replace(' ', "\r\n");
        let (frame, _) = frame::decode(reply.as_bytes(), &Limits::default()).unwrap().unwrap();
        let mut out = Vec::new();
        addresses().rewrite(topology, &frame, &mut out);
        let limits = Limits::default();
        assert_eq!(frame::decode(&out, &limits).unwrap().unwrap().1, out.len(), "one whole reply");
        String::from_utf8(out).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn slots() {
        let reply = "*2 *4 :0 :99 *3 $8 10.0.0.1 :7000 $2 id *3 $3 ::1 :7001 $2 id \
                     *3 :100 :200 *4 $8 10.0.0.9 :7000 $2 id *2 $2 ip $1 x ";
        assert_eq!(
            rewritten(Topology::Slots, reply),
            "*2 *4 :0 :99 *3 $9 127.0.0.1 :1 $2 id *3 $9 127.0.0.1 :2 $2 id \
             *3 :100 :200 *4 $8 10.0.0.9 :7000 $2 id *2 $2 ip $1 x "
        );
        // A node that does not know its own host.
        let reply = "*1 *3 :0 :1 *2 $-1 :7000 ";
        assert_eq!(rewritten(Topology::Slots, reply), "*1 *3 :0 :1 *2 $9 127.0.0.1 :1 ");
        assert_eq!(rewritten(Topology::Slots, "-ERR "), "-ERR ");
    }

    #[test]
    fn shards_in_both_versions() {
        for (outer, node) in [("*4", "*8"), ("%2", "%4")] {
            let reply = format!(
                "*1 {outer} $5 slots *2 :0 :9 $5 nodes *1 {node} $2 id $1 a $4 port :7000 \
                 $2 ip $8 10.0.0.1 $8 endpoint $8 10.0.0.1 "
            );
            let expected = format!(
                "*1 {outer} $5 slots *2 :0 :9 $5 nodes *1 {node} $2 id $1 a $4 port :1 \
                 $2 ip $9 127.0.0.1 $8 endpoint $9 127.0.0.1 "
            );
            assert_eq!(rewritten(Topology::Shards, &reply), expected);
        }
    }

    #[test]
    fn nodes_line_by_line() {
        let lines = "a 10.0.0.1:7000@17000,name myself,master - 0 0 1 connected 0-99\n\
                     b 10.0.0.9:7000@17000 slave a 0 0 1 connected\nnonsense\n";
        let expected = "a 127.0.0.1:1@17000 myself,master - 0 0 1 connected 0-99\n\
                        b 10.0.0.9:7000@17000 slave a 0 0 1 connected\nnonsense\n";
        assert_eq!(addresses().lines(lines.as_bytes()), expected.as_bytes());
    }

    #[test]
    fn redirections() {
        let redirect = |line: &[u8]| addresses().redirect(line);
        let moved = redirect(b"-MOVED 3999 10.0.0.1:7000\r\n");
        assert_eq!(moved.as_deref(), Some(&b"-MOVED 3999 127.0.0.1:1\r\n"[..]));
        let ask = redirect(b"-ASK 3999 ::1:7001\r\n");
        assert_eq!(ask.as_deref(), Some(&b"-ASK 3999 127.0.0.1:2\r\n"[..]));
        assert_eq!(redirect(b"-MOVED 3999 10.0.0.9:7000\r\n"), None);
        assert_eq!(redirect(b"-MOVED\r\n"), None);
        assert_eq!(redirect(b"-ERR MOVED 1 10.0.0.1:7000\r\n"), None);
    }

    #[test]
    fn strangers_are_told_of_once() {
        let addresses = addresses();
        for _ in 0..3 {
            addresses.redirect(b"-MOVED 1 10.0.0.9:7000\r\n");
            addresses.redirect(b"-MOVED 1 127.0.0.1:1\r\n");
        }
        assert_eq!(addresses.take_strangers(), ["10.0.0.9:7000"]);
        addresses.redirect(b"-MOVED 1 10.0.0.9:7000\r\n");
        assert!(addresses.take_strangers().is_empty());
    }
}
