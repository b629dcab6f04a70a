//! Random sequences of packets through the program in the kernel and through `policy::v2p::Switch`:
//! after every step the packet, the generated packets, every line of the cache and every access bit
//! are equal, for all roles, rules and quirks.

#[path = "support/v2p.rs"]
mod v2p;

use std::{
    net::Ipv4Addr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use policy::v2p as policy;
use policy::{Emit, Header, Mapping, Quirks, Role, Rules, vip_hash};
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng, SeedableRng},
};
use switch::v2p::{
    bits::COUNTS,
    config::{Encapsulation, Switch},
    packet::{Control, Packet, Tags, Tunnelled},
    plane::{Passed, Plane, read_line},
};
use v2p::{ID, ROLES, VXLAN, attach, config, gateway, machine, packet, plane, server};

const MACHINES: u8 = 12;
const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn machine(&mut self) -> Ipv4Addr {
        machine(self.below(MACHINES.into()) as u8)
    }

    fn server(&mut self) -> Ipv4Addr {
        server(self.below(4) as u8, self.below(3) as u8)
    }

    fn gateway(&mut self) -> Ipv4Addr {
        gateway(self.below(2) as u8)
    }

    fn rules(&mut self) -> Rules {
        let mut quirks = Quirks::all(self.one_in(2));
        for quirk in [
            &mut quirks.spines_only_promote,
            &mut quirks.promote_without_access_bit,
            &mut quirks.cores_fill_empty_lines,
            &mut quirks.tors_fill_empty_lines,
            &mut quirks.tors_learn_sources_from_fabric_only,
            &mut quirks.tors_ignore_spillover,
            &mut quirks.one_tag,
            &mut quirks.learning_packet_for_any,
            &mut quirks.one_shot_vector,
            &mut quirks.gateway_tors_never_invalidate,
        ] {
            *quirk ^= self.one_in(4);
        }
        Rules {
            learn_probability: [0.0, 0.5, 1.0][self.below(3) as usize],
            spillover: !self.one_in(4),
            promotion: !self.one_in(4),
            invalidation: !self.one_in(4),
            timestamp_vector: !self.one_in(4),
            base_rtt_ns: [0, 200_000, 1 << 60][self.below(3) as usize],
            quirks,
        }
    }
}

/// The program and the policy.
struct Both {
    kernel: Plane,
    policy: policy::Switch,
    config: Switch,
}

/// The input of a switch besides a packet's header.
struct Sent {
    packet: Tunnelled,
    from: From,
}

enum From {
    Fabric,
    Server(Ipv4Addr),
    Gateway,
}

impl Both {
    fn new(config: Switch) -> Option<Self> {
        let pod = config.pip(config.pod.0)..config.pip(config.pod.1) + 1;
        let rules = Arc::new(config.rules);
        let policy = policy::Switch::new(ID, config.role, config.entries, pod, rules);
        Some(Self { kernel: plane(config.clone())?, policy, config })
    }

    fn mapping(&self, (vip, pip): (Ipv4Addr, Ipv4Addr)) -> Mapping {
        Mapping { vip: vip.into(), pip: self.config.pip(pip) }
    }

    fn is_gateway(address: Ipv4Addr) -> bool {
        (0..2).any(|number| gateway(number) == address)
    }

    /// A server or gateway of the switch's rack.
    fn is_attached(&self, address: Ipv4Addr) -> bool {
        let is_tor = matches!(self.config.role, Role::Tor | Role::GatewayTor);
        is_tor && ((0..3).any(|host| server(0, host) == address) || address == gateway(0))
    }

    fn header(&self, sent: &Sent) -> Header {
        let Sent { packet, from } = sent;
        let tags = packet.tags.unwrap_or_default();
        let misdelivered = match from {
            From::Server(server) if *server != packet.outer.0 || tags.returned => Some(*server),
            _ => tags.misdelivered_from,
        };
        let (source_vip, destination_vip) = (packet.inner.0.into(), packet.inner.1.into());
        Header {
            source_pip: self.config.pip(packet.outer.0),
            destination_pip: self.config.pip(packet.outer.1),
            source_vip,
            destination_vip,
            source_hash: vip_hash(source_vip),
            destination_hash: vip_hash(destination_vip),
            tag: tags.entry.map_or(Mapping::NONE, |entry| self.mapping(entry)),
            misdelivered_from: misdelivered.map_or(0, |from| self.config.pip(from)),
            hit: tags.hit,
            hops: if matches!(from, From::Fabric) { 2 } else { 0 },
            resolved: !Self::is_gateway(packet.outer.1),
            promotion: tags.promotion,
        }
    }

    /// Runs one packet through both.
    fn step(&mut self, sent: &Sent) {
        match sent.from {
            From::Fabric => self.kernel.remove_interface(v2p::INTERFACE).expect("known"),
            From::Server(server) => attach(&mut self.kernel, server, false),
            From::Gateway => attach(&mut self.kernel, gateway(0), true),
        }
        let frame = sent.packet.frame(self.config.encapsulation);
        let vector = |kernel: &Plane, hit: u16| {
            usize::from(hit)
                .checked_sub(1)
                .map_or(0, |culprit| kernel.vector[culprit].load(Relaxed))
        };
        let hit = sent.packet.tags.unwrap_or_default().hit;
        let (counts, last, now) = (self.counts(), vector(&self.kernel, hit), now_ns());
        let passed = self.kernel.run(&frame, 1).expect("it runs");
        let after = self.counts();
        let counted = |name: &str| {
            let at = COUNTS.iter().position(|(known, _)| *known == name).expect("a counter");
            after[at] - counts[at]
        };

        let mut header = self.header(sent);
        let now = match vector(&self.kernel, hit) {
            written if written != last => written - 1,
            _ => now,
        };
        let draw = || if counted("LEARNING") == 1 { 0.0 } else { 1.0 };
        let outcome = self.policy.process(&mut header, draw, now);
        assert_eq!(counted("PACKETS"), 1);
        assert_eq!(counted("HITS"), u64::from(outcome.hit));
        let (learning, invalidations) = match outcome.emit {
            None => (0, 0),
            Some(Emit::Learning(_)) => (1, 0),
            Some(Emit::Invalidation(..)) => (0, 1),
        };
        assert_eq!((counted("LEARNING"), counted("INVALIDATIONS")), (learning, invalidations));
        self.same_note(sent, outcome.emit, &passed);
        self.same_packet(sent, &header, &passed);
        self.same_cache();
    }

    fn counts(&self) -> [u64; COUNTS.len()] {
        self.kernel.counts().expect("counters")
    }

    /// Compares the generated packet, unless it is for this switch.
    fn same_note(&self, sent: &Sent, emit: Option<Emit>, passed: &Passed) {
        let note = passed.note.map(|note| (note.invalidation, note.mapping, note.destination));
        let expected = match emit {
            Some(Emit::Learning(mapping)) if !self.is_attached(sent.packet.outer.0) => {
                Some((false, mapping, sent.packet.outer.0))
            }
            Some(Emit::Invalidation(stale, culprit)) if culprit != ID => {
                let to = u32::from(self.config.first_address) + u32::from(culprit);
                Some((true, stale, to.into()))
            }
            _ => None,
        };
        assert_eq!(note, expected);
    }

    fn same_packet(&self, sent: &Sent, header: &Header, passed: &Passed) {
        let address = |pip| self.config.address_of(pip);
        let to = address(header.destination_pip);
        let mut tags = Tags {
            hit: header.hit,
            entry: header.tag.is_some().then(|| (header.tag.vip.into(), address(header.tag.pip))),
            // If one tag carries both, the policy drops the mark when it takes the entry.
            promotion: header.promotion && header.tag.is_some(),
            misdelivered_from: Some(header.misdelivered_from).filter(|pip| *pip != 0).map(address),
            returned: false,
        };
        if self.is_attached(to) && !Self::is_gateway(to) {
            tags = Tags { hit: header.hit, ..Tags::default() };
        }
        let carries = sent.packet.tags.is_some() || tags != Tags::default();
        let hops = match passed.verdict {
            PASS => sent.packet.hops,
            REDIRECT => sent.packet.hops - 1,
            other => panic!("verdict {other}"),
        };
        let expected = Tunnelled {
            outer: (sent.packet.outer.0, to),
            tags: carries.then_some(tags),
            hops,
            ..sent.packet.clone()
        };
        assert_eq!(Packet::read(&passed.frame), Ok(Packet::Tunnelled(expected)));
    }

    fn same_cache(&self) {
        let cache = self.policy.cache();
        let lines = self.config.entries;
        let mut expected: Vec<_> =
            (0..lines).map(|line| (Mapping::NONE, cache.accessed(line))).collect();
        for mapping in cache.mappings() {
            expected[(vip_hash(mapping.vip) % lines) as usize].0 = mapping;
        }
        let found: Vec<_> = self.kernel.lines.iter().map(read_line).collect();
        assert_eq!(found, expected);
    }

    /// Runs a learning or invalidation packet through both.
    fn control(&mut self, control: Control) {
        self.kernel.remove_interface(v2p::INTERFACE).expect("known");
        let passed = self.kernel.run(&control.frame(), 1).expect("it runs");
        let mapping = self.mapping(control.mapping);
        let arrives = if control.invalidation {
            self.policy.invalidate(mapping);
            control.outer.1 == self.config.address()
        } else {
            let arrives = self.is_attached(control.outer.1);
            if arrives {
                self.policy.learn_from_packet(mapping);
            }
            arrives
        };
        assert_eq!(passed.verdict == DROP, arrives);
        if !arrives {
            assert_eq!(Packet::read(&passed.frame), Ok(Packet::Control(control)), "unchanged");
        }
        self.same_cache();
    }
}

fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn random_packet(random: &mut Random, is_tor: bool) -> Sent {
    let from = match random.below(4) {
        0 | 1 if is_tor => From::Server(server(0, random.below(3) as u8)),
        2 if is_tor => From::Gateway,
        _ => From::Fabric,
    };
    let to = if random.one_in(2) { random.gateway() } else { random.server() };
    let mut packet = packet((random.server(), to), (random.machine(), random.machine()));
    let tags = Tags {
        hit: if random.one_in(2) { random.below(9) as u16 } else { 0 },
        entry: random.one_in(3).then(|| (random.machine(), random.server())),
        misdelivered_from: random.one_in(5).then(|| random.server()),
        ..Tags::default()
    };
    let promotion = tags.entry.is_some() && random.one_in(2);
    match from {
        From::Server(server) if random.one_in(2) => {
            // A new packet, without tags.
            packet.outer.0 = server;
        }
        From::Server(server) => {
            // Returned by the server: with the hit tag that it arrived with, or without.
            let returned = packet.outer.0 == server || random.one_in(2);
            let keeps = returned || random.one_in(2);
            packet.tags = keeps.then_some(Tags { hit: tags.hit, returned, ..Tags::default() });
        }
        From::Fabric | From::Gateway => {
            packet.tags = random.one_in(2).then_some(Tags { promotion, ..tags });
        }
    }
    Sent { packet, from }
}

fn random_control(random: &mut Random, config: &Switch) -> Control {
    let invalidation = random.one_in(2);
    let own = config.address();
    let to = match invalidation {
        true if random.one_in(3) => own,
        true => Ipv4Addr::from(u32::from(own) + 1),
        false => random.server(),
    };
    let from = Ipv4Addr::from(u32::from(own) + 2);
    Control { outer: (from, to), invalidation, mapping: (random.machine(), random.server()) }
}

fn compare(encapsulation: Encapsulation, rounds: u64, seed: u64) {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(seed));
    for round in 0..rounds {
        let role = ROLES[(round % 5) as usize];
        let entries = [1, 3, 8, 64][random.below(4) as usize];
        let config = Switch { encapsulation, ..config(role, entries, random.rules()) };
        let Some(mut both) = Both::new(config) else { return };
        for _ in 0..300 {
            if random.one_in(8) {
                let control = random_control(&mut random, &both.config);
                both.control(control);
            } else {
                let is_tor = matches!(role, Role::Tor | Role::GatewayTor);
                let mut sent = random_packet(&mut random, is_tor);
                if encapsulation == Encapsulation::IpInIp {
                    sent.packet.port = 0;
                }
                both.step(&sent);
            }
        }
    }
}

#[test]
fn in_vxlan() {
    compare(VXLAN, 60, 1);
}

#[test]
fn in_ip_in_ip() {
    compare(Encapsulation::IpInIp, 20, 2);
}
