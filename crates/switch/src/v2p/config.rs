//! Parameters that are fixed before the programs are loaded.

use std::net::Ipv4Addr;

use policy::v2p::{Mapping, Role, Rules};

use crate::Error;

/// What stands between the outer and the inner header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// VXLAN of this network identifier, to UDP port 4789.
    Vxlan(u32),
    /// Nothing (IP-in-IP).
    IpInIp,
}

/// One switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Its identifier.
    pub id: u16,
    /// Its category.
    pub role: Role,
    /// Address of the switch with identifier 0; those of the others follow it.
    pub first_address: Ipv4Addr,
    /// Lines of its cache, at least 1.
    pub entries: u32,
    /// First and last physical address of its pod; promotion is for packets that leave it.
    pub pod: (Ipv4Addr, Ipv4Addr),
    /// Between which headers.
    pub encapsulation: Encapsulation,
    /// Enabled features, and the rules in use.
    pub rules: Rules,
}

/// Lines of one cache at most.
pub const ENTRIES_MAX: u32 = 1 << 24;

impl Switch {
    /// The address that its own packets come from and invalidation packets go to.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first_address).wrapping_add(u32::from(self.id)))
    }

    /// The policy's physical address of `address`.
    #[must_use]
    pub fn pip(&self, address: Ipv4Addr) -> u32 {
        u32::from(address) ^ top_of(self.first_address)
    }

    /// The address of the policy's physical one.
    #[must_use]
    pub fn address_of(&self, pip: u32) -> Ipv4Addr {
        Ipv4Addr::from(pip ^ top_of(self.first_address))
    }

    /// Checks that a physical address begins with the bit that all begin with.
    ///
    /// # Errors
    /// It begins with the other.
    pub(super) fn check_address(&self, what: &'static str, address: Ipv4Addr) -> Result<(), Error> {
        match self.pip(address) {
            1..=Mapping::PIP_MAX => Ok(()),
            _ => Err(Error::Underlay { what, address, first_address: self.first_address }),
        }
    }

    /// Checks what the programs rely on.
    ///
    /// # Errors
    /// A size or an address is out of range.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=ENTRIES_MAX).contains(&self.entries) {
            let (what, got) = ("lines of the cache", self.entries.into());
            return Err(Error::Size { what, min: 1, max: ENTRIES_MAX.into(), got });
        }
        self.check_address("first address of the pod", self.pod.0)?;
        self.check_address("last address of the pod", self.pod.1)?;
        self.check_address("address of the switch", self.address())
    }
}

/// The bit that all physical addresses begin with: the policy's have the access bit in its place.
pub(super) fn top_of(address: Ipv4Addr) -> u32 {
    u32::from(address) & !Mapping::PIP_MAX
}
