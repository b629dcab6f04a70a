//! A SwitchV2P switch for tests, in a small synthetic fabric.
#![allow(dead_code, reason = "not every test uses all of it")]

#[path = "loaded.rs"]
mod loaded;

use std::net::Ipv4Addr;

use loaded::loaded;
use policy::v2p::{Quirks, Role, Rules};
use switch::{
    object,
    v2p::{
        config::{Encapsulation, Switch},
        packet::Tunnelled,
        plane::{Host, Plane},
    },
};

/// Without a network, packets come in at the loopback interface.
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const ID: u16 = 7;
pub(crate) const VXLAN: Encapsulation = Encapsulation::Vxlan(42);
pub(crate) const ROLES: [Role; 5] =
    [Role::GatewayTor, Role::GatewaySpine, Role::Tor, Role::Spine, Role::Core];

pub(crate) const PAPER: Rules = Rules::full(1.0, 12_000, Quirks::all(false));

/// Server `host` of `rack`; racks 0 and 1 are in the switch's pod, and rack 0 is its own.
pub(crate) fn server(rack: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, rack / 2, rack, host + 1)
}

pub(crate) fn gateway(number: u8) -> Ipv4Addr {
    server(number * 3, 200)
}

pub(crate) fn machine(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 16, 0, number + 1)
}

pub(crate) fn config(role: Role, entries: u32, rules: Rules) -> Switch {
    Switch {
        id: ID,
        role,
        first_address: Ipv4Addr::new(10, 255, 0, 0),
        entries,
        pod: (Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(10, 0, 255, 255)),
        encapsulation: VXLAN,
        rules,
    }
}

pub(crate) fn plane(config: Switch) -> Option<Plane> {
    let mut plane = loaded(object::V2P, || Plane::load(config))?;
    (0..2).for_each(|number| plane.add_gateway(gateway(number)).expect("there is room"));
    (0..3).for_each(|host| attach(&mut plane, server(0, host), false));
    attach(&mut plane, gateway(0), true);
    plane.remove_interface(INTERFACE).expect("it is there");
    Some(plane)
}

/// From now on, packets come from this server or gateway of the rack.
pub(crate) fn attach(plane: &mut Plane, address: Ipv4Addr, is_gateway: bool) {
    plane.add_host(Host { address, interface: INTERFACE, is_gateway }).expect("there is room");
}

pub(crate) fn packet(outer: (Ipv4Addr, Ipv4Addr), inner: (Ipv4Addr, Ipv4Addr)) -> Tunnelled {
    let payload = vec![0xab; 30];
    Tunnelled { outer, hops: 60, port: 40_000, tags: None, inner, payload }
}
