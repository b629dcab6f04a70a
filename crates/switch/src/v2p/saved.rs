//! Load parameters of a switch, as they are kept for processes that use it later.

use std::net::Ipv4Addr;

use policy::v2p::{Quirks, Role, Rules};
use serde::{Deserialize, Serialize};

use super::config::{Encapsulation, Switch};

/// Raised whenever the maps of `bpf/v2p/maps.h` or the counters change.
pub const LAYOUT: u32 = 1;

/// A role's name on the command line.
pub const ROLES: [(&str, Role); 5] = [
    ("gateway-tor", Role::GatewayTor),
    ("gateway-spine", Role::GatewaySpine),
    ("tor", Role::Tor),
    ("spine", Role::Spine),
    ("core", Role::Core),
];

/// Load parameters of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// [`LAYOUT`] of the build that loaded it.
    pub layout: u32,
    /// Identifier.
    pub id: u16,
    /// One of [`ROLES`].
    pub role: String,
    /// Address of the switch with identifier 0.
    pub first_address: Ipv4Addr,
    /// Lines of the cache.
    pub entries: u32,
    /// First and last physical address of the pod.
    pub pod: (Ipv4Addr, Ipv4Addr),
    /// VXLAN's network identifier; none: IP-in-IP.
    pub network: Option<u32>,
    /// Probability of a learning packet.
    pub learn_probability: f64,
    /// What the timestamp vector compares with, in nanoseconds.
    pub base_rtt_ns: u64,
    /// The rules of the authors' published code, instead of the paper's text.
    pub published: bool,
}

impl Saved {
    /// The same for the loader; none if the role is unknown or the maps are another build's.
    #[must_use]
    pub fn config(&self) -> Option<Switch> {
        let (_, role) = ROLES.into_iter().find(|(name, _)| *name == self.role)?;
        (self.layout == LAYOUT).then_some(Switch {
            id: self.id,
            role,
            first_address: self.first_address,
            entries: self.entries,
            pod: self.pod,
            encapsulation: self.network.map_or(Encapsulation::IpInIp, Encapsulation::Vxlan),
            rules: Rules::full(
                self.learn_probability,
                self.base_rtt_ns,
                Quirks::all(self.published),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_other_builds_and_roles_are_refused() {
        let saved = Saved {
            layout: LAYOUT,
            id: 3,
            role: "spine".into(),
            first_address: Ipv4Addr::new(10, 255, 0, 0),
            entries: 64,
            pod: (Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(10, 0, 255, 255)),
            network: None,
            learn_probability: 0.005,
            base_rtt_ns: 12_000,
            published: true,
        };
        let config = saved.config().expect("a switch");
        assert_eq!((config.role, config.encapsulation), (Role::Spine, Encapsulation::IpInIp));
        assert!(config.rules.quirks.one_tag);
        assert_eq!(Saved { role: "leaf".into(), ..saved.clone() }.config(), None);
        assert_eq!(Saved { layout: LAYOUT + 1, ..saved }.config(), None);
    }
}
