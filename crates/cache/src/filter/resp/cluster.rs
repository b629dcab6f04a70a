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

mod owners;

pub(crate) use owners::Owner;

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

/// Index of the metadata of a node in `CLUSTER SLOTS`.
const METADATA: usize = 3;

/// A reply that names nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// `CLUSTER SLOTS`: ranges, each with its nodes as arrays of host, port and more.
    Slots,
    /// `CLUSTER SHARDS`: maps that hold maps with `ip`, `endpoint`, `hostname`, `port` and
    /// `tls-port`.
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
        Self { known, ..Self::default() }
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

    /// The listener for a node with all these hosts and ports: its address, its announced host name
    /// (Redis 7), its ports with and without TLS. A node without a host is identified by its port,
    /// if that is unique.
    fn find(&self, hosts: &[&str], ports: &[u16]) -> Option<&Address> {
        let is_host = |host: &&str| !matches!(*host, "" | "?");
        let named = hosts.iter().any(is_host);
        let is_at = |address: &Address| {
            let mut hosts = hosts.iter().filter(|host| is_host(host));
            ports.contains(&address.port)
                && (!named || hosts.any(|host| address.host.eq_ignore_ascii_case(host)))
        };
        let mut matching = self.known.iter().filter(|[node, _]| is_at(node)).map(|[_, ours]| ours);
        match (matching.next(), matching.next()) {
            (Some(ours), None) => Some(ours),
            (Some(ours), Some(_)) if named => Some(ours),
            // A client that was given a listener's address may send it back.
            _ if named && self.known.iter().any(|[_, ours]| is_at(ours)) => None,
            _ => {
                if let (Some(host), Some(port)) = (hosts.first(), ports.first()) {
                    self.note(host, *port);
                }
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
                (_, Some(ours), Topology::Slots, METADATA) => {
                    write_metadata(element, ours, out);
                }
                (_, Some(ours), Topology::Slots, 0) | (Some((ours, Part::Host)), ..) => {
                    response::write_bulk(out, ours.host.as_bytes());
                }
                (Some((ours, Part::Port)), ..) => response::write_integer(out, ours.port.into()),
                _ => self.rewrite(topology, element, out),
            }
        }
    }

    /// Host, port, id, metadata: one node in `CLUSTER SLOTS`.
    fn slots_node(&self, elements: &[Frame<'_>]) -> Option<&Address> {
        let [host, port, ..] = elements else { return None };
        let named = host.kind() == Kind::Bulk || host.is_null();
        let port = number(port).filter(|_| named)?;
        let metadata: Vec<_> =
            elements.get(METADATA).map(|more| more.elements().collect()).unwrap_or_default();
        let more = ["ip", "hostname"].map(|name| value(&metadata, name).map_or("", text));
        self.find(&[text(host), more[0], more[1]], &[port])
    }

    /// `id`, `port`, `tls-port`, `ip`, `endpoint`, `hostname`, …, names and values in turn: one
    /// node in `CLUSTER SHARDS`.
    fn shards_node(&self, elements: &[Frame<'_>]) -> Option<&Address> {
        let ports = ["port", "tls-port"].map(|name| value(elements, name).and_then(number));
        let ports: Vec<u16> = ports.into_iter().flatten().collect();
        let ip = text(value(elements, "ip")?);
        let more = ["endpoint", "hostname"].map(|name| value(elements, name).map_or("", text));
        self.find(&[ip, more[0], more[1]], &ports)
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
        let (bus, more) = bus.split_once(',').unwrap_or((bus, ""));
        let name = more.split(',').next().unwrap_or_default();
        let ours = self.find(&[host, name], &[port.parse().ok()?])?;
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
        let ours = self.find(&[host], &[port.parse().ok()?])?;
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
        (Topology::Shards, "port" | "tls-port") if place % 2 == 1 => Some(Part::Port),
        _ => None,
    }
}

/// Writes the metadata of a node in `CLUSTER SLOTS`: its other addresses become that of the
/// listener, because clients may connect to any of them.
fn write_metadata(metadata: &Frame<'_>, ours: &Address, out: &mut Vec<u8>) {
    if !metadata.kind().is_aggregate() {
        out.extend_from_slice(metadata.bytes());
        return;
    }
    let elements: Vec<_> = metadata.elements().collect();
    out.extend_from_slice(header(metadata, &elements));
    let mut name = "";
    for (place, element) in elements.iter().enumerate() {
        match (place % 2, name) {
            (1, "ip" | "hostname") => response::write_bulk(out, ours.host.as_bytes()),
            _ => out.extend_from_slice(element.bytes()),
        }
        name = text(element);
    }
}

/// The value behind `name`, of names and values in turn.
fn value<'a, 'b>(elements: &'b [Frame<'a>], name: &str) -> Option<&'b Frame<'a>> {
    let place = elements.iter().step_by(2).position(|element| text(element) == name)?;
    elements.get(2 * place + 1)
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
        let pairs = [
            ("10.0.0.1:7000", "127.0.0.1:1"),
            ("[::1]:7001", "127.0.0.1:2"),
            ("b.node:7002", "ours:3"),
            ("c.node:7100", "127.0.0.1:4"),
        ];
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
        // A node that does not know its own address.
        let reply = "*1 *3 :0 :1 *2 $-1 :7000 ";
        assert_eq!(rewritten(Topology::Slots, reply), "*1 *3 :0 :1 *2 $9 127.0.0.1 :1 ");
        assert_eq!(rewritten(Topology::Slots, "-ERR "), "-ERR ");
    }

    #[test]
    fn slots_with_announced_host_names() {
        // Address and host name, either as the preferred endpoint, in both protocol versions; only
        // one of the two is configured as the origin of a listener.
        for (host, port, metadata, ours) in [
            ("$8 10.0.0.1", 7000, "*2 $8 hostname $6 a.node", ["$9 127.0.0.1", ":1"]),
            ("$6 a.node", 7000, "%1 $2 ip $8 10.0.0.1", ["$9 127.0.0.1", ":1"]),
            ("$6 B.NODE", 7002, "*2 $2 ip $8 10.9.9.9", ["$4 ours", ":3"]),
            ("$-1", 7002, "*2 $8 hostname $6 b.node", ["$4 ours", ":3"]),
            ("$1 ?", 7002, "*2 $8 hostname $6 b.node", ["$4 ours", ":3"]),
        ] {
            let reply = format!("*1 *3 :0 :1 *4 {host} :{port} $2 id {metadata} ");
            let (names, _) = metadata.rsplit_once(" $").unwrap();
            let [listener, port] = ours;
            let expected = format!("*1 *3 :0 :1 *4 {listener} {port} $2 id {names} {listener} ");
            assert_eq!(rewritten(Topology::Slots, &reply), expected);
        }
    }

    #[test]
    fn shards_with_tls_and_announced_host_names() {
        let node = |ports: &str, ip: &str, host: &str| {
            format!(
                "*1 *2 $5 nodes *1 *8 {ports} $2 ip {ip} $8 endpoint {host} $8 hostname {host} "
            )
        };
        for ports in ["$8 tls-port :7100 $2 id $1 a", "$8 tls-port :7100 $4 port :7000"] {
            let reply = node(ports, "$8 10.9.9.9", "$6 c.node");
            let ports = ports.replace(":7100", ":4").replace(":7000", ":4");
            let reply = reply.replace("*8", "*10");
            let expected = node(&ports, "$9 127.0.0.1", "$9 127.0.0.1").replace("*8", "*10");
            assert_eq!(rewritten(Topology::Shards, &reply), expected);
        }
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
                     b 10.0.0.9:7000@17000 slave a 0 0 1 connected\nnonsense\n\
                     c 10.0.0.8:7100@17100,c.node master - 0 0 1 connected\n";
        let expected = "a 127.0.0.1:1@17000 myself,master - 0 0 1 connected 0-99\n\
                        b 10.0.0.9:7000@17000 slave a 0 0 1 connected\nnonsense\n\
                        c 127.0.0.1:4@17100 master - 0 0 1 connected\n";
        assert_eq!(addresses().lines(lines.as_bytes()), expected.as_bytes());
    }

    #[test]
    fn redirections() {
        let redirect = |line: &[u8]| addresses().redirect(line);
        let moved = redirect(b"-MOVED 3999 10.0.0.1:7000\r\n");
        assert_eq!(moved.as_deref(), Some(&b"-MOVED 3999 127.0.0.1:1\r\n"[..]));
        let ask = redirect(b"-ASK 3999 ::1:7001\r\n");
        assert_eq!(ask.as_deref(), Some(&b"-ASK 3999 127.0.0.1:2\r\n"[..]));
        let named = redirect(b"-MOVED 3999 B.node:7002\r\n");
        assert_eq!(named.as_deref(), Some(&b"-MOVED 3999 ours:3\r\n"[..]));
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
