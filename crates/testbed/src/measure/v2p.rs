//! Cost of a packet at a SwitchV2P switch and at the smallest forwarders, in interleaved rounds:
//! route and next hop included.

use std::{fs, net::Ipv4Addr};

use anyhow::{Context, ensure};
use policy::v2p::{Quirks, Role, Rules};
use switch::v2p::{
    config::{Encapsulation, Switch},
    measure::{Measure, Program, Request},
    packet::{Control, Tags, Tunnelled},
    plane::Plane,
};

use super::Reading;
use crate::rack::namespaces::{End, Namespaces, ip};

/// Number of packets of one reading.
const PACKETS: u32 = 200_000;
const MACHINES: u32 = 1024;
const VXLAN: Encapsulation = Encapsulation::Vxlan(42);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 0);
const FROM: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 200);
const MACHINE: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 0);
/// Offsets of the inner destination, and of the address in a control packet.
const INNER: u32 = 14 + 20 + 30 + 16;
const MAPPING: u32 = 14 + 20 + 8 + 8;
/// Expected verdict: packets without a route are not measured.
const REDIRECT: u32 = 4;
const PASS: u32 = 2;

struct Side {
    name: &'static str,
    plane: Option<Plane>,
    program: Option<Program<'static>>,
    frame: Vec<u8>,
    /// Offset of the address that changes, or 0.
    at: u32,
    verdict: u32,
}

fn rules() -> Rules {
    Rules::full(0.005, 12_000, Quirks::all(false))
}

fn plane(role: Role, entries: u32, rules: Rules) -> anyhow::Result<Plane> {
    let mut plane = Plane::load(Switch {
        id: 0,
        role,
        first_address: OWN,
        entries,
        pod: (Ipv4Addr::new(10, 8, 0, 0), Ipv4Addr::new(10, 8, 255, 255)),
        encapsulation: VXLAN,
        rules,
    })?;
    plane.add_gateway(GATEWAY)?;
    Ok(plane)
}

/// A switch with all machines in its cache, except those that share a line.
fn filled(role: Role) -> anyhow::Result<Plane> {
    let mut plane = plane(role, MACHINES * 64, rules())?;
    for number in 0..MACHINES {
        let machine = Ipv4Addr::from(u32::from(MACHINE) + number);
        let mut packet = tunnelled((FROM, SERVER), machine);
        // Each role learns from one of these: destination, source, promotion.
        packet.tags = Some(Tags {
            entry: Some((machine, SERVER)),
            promotion: role == Role::Core,
            ..Tags::default()
        });
        plane.run(&packet.frame(VXLAN), 1)?;
    }
    Ok(plane)
}

fn tunnelled(outer: (Ipv4Addr, Ipv4Addr), destination: Ipv4Addr) -> Tunnelled {
    let inner = (Ipv4Addr::new(172, 17, 0, 1), destination);
    Tunnelled { outer, hops: 60, port: 40_000, tags: None, inner, payload: vec![7; 64] }
}

fn sides() -> anyhow::Result<Vec<Side>> {
    let unresolved = tunnelled((FROM, GATEWAY), MACHINE).frame(VXLAN);
    let resolved = tunnelled((FROM, SERVER), MACHINE).frame(VXLAN);
    let side = |name, plane, frame: &[u8], at| Side {
        name,
        plane: Some(plane),
        program: None,
        frame: frame.to_vec(),
        at,
        verdict: REDIRECT,
    };
    let floor = |name, program, frame: &[u8], at| Side {
        name,
        plane: None,
        program: Some(program),
        frame: frame.to_vec(),
        at,
        verdict: REDIRECT,
    };
    let mut inner = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    inner.extend(&resolved[14 + 20 + 30..]);
    let invalidation =
        Control { outer: (FROM, SERVER), invalidation: true, mapping: (MACHINE, SERVER) };
    let mut misdelivered = tunnelled((FROM, GATEWAY), MACHINE);
    misdelivered.tags = Some(Tags { hit: 3, misdelivered_from: Some(SERVER), ..Tags::default() });
    // Packets that leave a note go to the kernel; the last one decides the verdict.
    let seldom = Rules { learn_probability: 1e-9, base_rtt_ns: 1 << 60, ..rules() };
    let every = Rules { learn_probability: 1.0, ..rules() };
    let mut announcing =
        side("learning packet", plane(Role::GatewayTor, 1, every)?, &resolved, INNER);
    announcing.verdict = PASS;
    Ok(vec![
        floor("smallest encapsulating forwarder", Program::Encapsulate, &inner, 14 + 16),
        floor("forwarding only", Program::Forward, &resolved, 0),
        side("hit at a core", filled(Role::Core)?, &unresolved, INNER),
        side("hit at a gateway spine", filled(Role::GatewaySpine)?, &unresolved, INNER),
        side("hit at a spine", filled(Role::Spine)?, &unresolved, INNER),
        side("hit at a ToR", filled(Role::Tor)?, &unresolved, INNER),
        side("miss at a core", plane(Role::Core, MACHINES, rules())?, &unresolved, INNER),
        side("miss at a ToR", plane(Role::Tor, MACHINES, rules())?, &unresolved, INNER),
        side("learn at a gateway ToR", plane(Role::GatewayTor, 1, seldom)?, &resolved, INNER),
        announcing,
        side("invalidation packet", filled(Role::Core)?, &invalidation.frame(), MAPPING),
        side(
            "misdelivered packet",
            plane(Role::Tor, MACHINES, seldom)?,
            &misdelivered.frame(VXLAN),
            INNER + 20,
        ),
    ])
}

pub(super) fn measure(rounds: usize, show: impl Fn(&str) + Sync) -> anyhow::Result<Vec<Reading>> {
    let namespaces = Namespaces::build()?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            namespaces.enter(End::Switch)?;
            route(&namespaces)?;
            readings(rounds, &show)
        });
        thread.join().map_err(|_| anyhow::anyhow!("the thread that measures panicked"))?
    })
}

/// A route for the measured packets: in test runs they arrive at the loopback interface.
fn route(namespaces: &Namespaces) -> anyhow::Result<()> {
    let switch = namespaces.name(End::Switch);
    ip(&["-n", &switch, "route", "add", "10.8.0.0/16", "via", "10.2.0.2"])?;
    let neighbour = ["neighbour", "replace", "10.2.0.2", "lladdr", "02:00:00:00:00:02"];
    ip(&[&["-n", &switch][..], &neighbour, &["dev", "server0", "nud", "permanent"]].concat())?;
    let path = "/proc/sys/net/ipv4/conf/lo/forwarding";
    fs::write(path, "1").with_context(|| format!("cannot write {path}"))
}

fn readings(rounds: usize, show: impl Fn(&str)) -> anyhow::Result<Vec<Reading>> {
    show("filling caches");
    let mut measure = Measure::load(OWN, VXLAN)?;
    for number in 0..MACHINES {
        measure.add(Ipv4Addr::from(u32::from(MACHINE) + number), SERVER)?;
    }
    let sides = sides()?;
    let reading = |side: &Side| Reading { name: side.name.into(), values: Vec::new(), unit: "ns" };
    let mut readings: Vec<Reading> = sides.iter().map(reading).collect();
    for round in 0..rounds {
        show(&format!("round {} of {rounds}", round + 1));
        for (side, reading) in sides.iter().zip(&mut readings) {
            reading.values.push(read(&mut measure, side)?);
        }
    }
    Ok(readings)
}

fn read(measure: &mut Measure, side: &Side) -> anyhow::Result<f64> {
    let machines = if side.at == 0 { 0 } else { MACHINES };
    let request = Request { frame: &side.frame, machines, first: MACHINE, at: side.at };
    let (nothing, _) = measure.ns(Program::Nothing, request, PACKETS)?;
    let program = match (&side.plane, side.program) {
        (Some(plane), _) => Program::Switch(plane),
        (None, program) => program.unwrap_or(Program::Nothing),
    };
    let (ns, verdict) = measure.ns(program, request, PACKETS)?;
    let expected = side.verdict;
    ensure!(verdict == expected, "{}: expected verdict {expected}, got {verdict}", side.name);
    Ok(ns as f64 - nothing as f64)
}
