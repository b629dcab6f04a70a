//! Attaching the programs to interfaces, and detaching them.

use std::{
    fs,
    path::Path,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Relaxed},
    },
};

use aya::programs::{
    SchedClassifier, TcAttachType, Xdp, XdpMode,
    links::{FdLink, PinnedLink},
    tc::{self, SchedClassifierLink},
    xdp::XdpLink,
};
use rustix::net::{AddressFamily, SocketType, netdevice};

use crate::{
    Error,
    layout::SERVER_INTERFACES_MAX,
    plane::{DataPlane, Mode},
};

/// The role of the hosts that are connected to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Clients only.
    Clients,
    /// Servers, and possibly clients: messages of agents are accepted only there.
    Servers,
}

impl DataPlane {
    /// Attaches to an interface, in native mode if its driver supports it. Programs of an earlier
    /// process there are replaced without a gap in which packets would pass. With pins, the
    /// programs stay when this process ends.
    ///
    /// # Errors
    /// There is no such interface, the kernel refuses, or servers are behind too many.
    pub fn attach(&mut self, interface: &str, side: Side, generic: bool) -> Result<Mode, Error> {
        self.take_side(number_of(interface)?, side)?;
        if let Some(pins) = self.config().pins.clone() {
            if !generic && self.replaces(&pins, interface).is_some() {
                return Ok(Mode::Kept);
            }
            detach(&pins, interface)?;
        }
        let what = format!("cannot attach to {interface}");
        let program = self.program("serve")?;
        let xdp = <&mut Xdp>::try_from(program).map_err(Error::kernel(&what))?;
        let native = if generic { None } else { xdp.attach(interface, XdpMode::Driver).ok() };
        let (id, mode) = match native {
            Some(id) => (id, Mode::Native),
            None => {
                (xdp.attach(interface, XdpMode::Skb).map_err(Error::kernel(&what))?, Mode::Generic)
            }
        };
        let link = xdp.take_link(id).map_err(Error::kernel(&what))?;
        let ingress = FdLink::try_from(link).map_err(Error::kernel(&what))?;
        let egress = self.attach_egress(interface, &what)?;
        // Earlier packets were not seen. If attaching fails here, the program is detached and
        // cannot rely on them.
        self.forget_connections();
        self.shared().watched_ns.store(0, Relaxed);
        self.keep(ingress, &ingress_pin(interface))?;
        egress.map_or(Ok(()), |link| self.keep(link, &egress_pin(interface)))?;
        Ok(mode)
    }

    /// Sets the role of the interface with that number.
    ///
    /// # Errors
    /// Servers are behind [`SERVER_INTERFACES_MAX`] already.
    pub fn take_side(&self, interface: u32, side: Side) -> Result<(), Error> {
        let known = &self.shared().server_interfaces;
        for place in known {
            let _ = place.compare_exchange(interface, 0, AcqRel, Relaxed);
        }
        let takes =
            |place: &AtomicU32| place.compare_exchange(0, interface, AcqRel, Relaxed).is_ok();
        if side == Side::Clients || known.iter().any(takes) {
            return Ok(());
        }
        let max = SERVER_INTERFACES_MAX as u64;
        Err(Error::Size { what: "interfaces towards servers", min: 0, max, got: max + 1 })
    }

    /// Puts the programs where those of an earlier process are, if both still are at this
    /// interface.
    fn replaces(&mut self, pins: &Path, interface: &str) -> Option<()> {
        let pinned = |name: String| PinnedLink::from_pin(pins.join(name)).ok().map(FdLink::from);
        let ingress = pinned(ingress_pin(interface))?;
        if self.config().memcache_port != 0 {
            let egress = pinned(egress_pin(interface))?;
            let id = egress.info().ok()?.program_id();
            // Links also remain for an interface that was removed or renamed.
            let (_, here) = SchedClassifier::query_tcx(interface, TcAttachType::Egress).ok()?;
            here.iter().find(|program| program.id() == id)?;
            let program = self.program("answered").ok()?;
            let program = <&mut SchedClassifier>::try_from(program).ok()?;
            let id = program.attach_to_link(SchedClassifierLink::try_from(egress).ok()?).ok()?;
            // Only the pin holds it: removing the pin detaches.
            drop(program.take_link(id));
        }
        let xdp = <&mut Xdp>::try_from(self.program("serve").ok()?).ok()?;
        let id = xdp.attach_to_link(XdpLink::try_from(ingress).ok()?).ok()?;
        drop(xdp.take_link(id));
        Some(())
    }

    fn attach_egress(&mut self, interface: &str, what: &str) -> Result<Option<FdLink>, Error> {
        if self.config().memcache_port == 0 {
            return Ok(None);
        }
        // It exists already, or links need none (kernel 6.6).
        let _ = tc::qdisc_add_clsact(interface);
        let program = self.program("answered")?;
        let egress = <&mut SchedClassifier>::try_from(program).map_err(Error::kernel(what))?;
        let id = egress.attach(interface, TcAttachType::Egress).map_err(Error::kernel(what))?;
        let link = egress.take_link(id).map_err(Error::kernel(what))?;
        // Before 6.6 the filter belongs to the interface and stays attached.
        Ok(FdLink::try_from(link).ok())
    }

    fn keep(&mut self, link: FdLink, name: &str) -> Result<(), Error> {
        match self.config().pins.clone() {
            Some(pins) => {
                let what = format!("cannot pin {name}");
                link.pin(pins.join(name)).map(drop).map_err(Error::kernel(what))
            }
            None => {
                self.links.push(link);
                Ok(())
            }
        }
    }

    /// Drops all cached keys, which a new controller does not know.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn clear(&mut self) -> Result<(), Error> {
        for place in self.lookup.places().collect::<Vec<_>>() {
            let name = self.entries[place as usize].name();
            self.evict(place, &name);
        }
        self.shared().epoch.fetch_add(1, AcqRel);
        self.counters.clear();
        self.sketch.clear();
        self.filter.clear();
        Ok(())
    }
}

/// A program that passes every frame. It is needed at the peer of a veth interface whose program
/// sends frames back: the driver drops them if the peer has no program. Detached when dropped,
/// unless it is pinned.
#[derive(Debug)]
pub struct Accepting(FdLink);

/// Accepts at an interface.
///
/// # Errors
/// There is no such interface, or the kernel refuses.
pub fn accept(interface: &str) -> Result<Accepting, Error> {
    let object = crate::object::SMALLEST.ok_or(Error::NotBuilt)?;
    let what = format!("cannot accept at {interface}");
    let mut ebpf = aya::Ebpf::load(object).map_err(Error::kernel(&what))?;
    let program = ebpf.program_mut("pass").ok_or(Error::Missing("pass"))?;
    let xdp = <&mut Xdp>::try_from(program).map_err(Error::kernel(&what))?;
    xdp.load().map_err(Error::kernel(&what))?;
    let id = xdp.attach(interface, XdpMode::Driver).map_err(Error::kernel(&what))?;
    let link = xdp.take_link(id).map_err(Error::kernel(&what))?;
    Ok(Accepting(FdLink::try_from(link).map_err(Error::kernel(&what))?))
}

impl Accepting {
    /// Pins it, so that it stays attached when this process ends.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pin(self, pins: &Path, interface: &str) -> Result<(), Error> {
        let what = format!("cannot pin the program at {interface}");
        fs::create_dir_all(pins).map_err(Error::kernel(&what))?;
        let pin = pins.join(format!("accept-{interface}"));
        self.0.pin(pin).map(drop).map_err(Error::kernel(&what))
    }
}

/// Detaches the programs from an interface; no error if there are none.
///
/// # Errors
/// A pin cannot be removed.
pub fn detach(pins: &Path, interface: &str) -> Result<(), Error> {
    for name in [ingress_pin(interface), egress_pin(interface)] {
        let path = pins.join(name);
        if path.exists() {
            let what = format!("cannot detach {}", path.display());
            let link = PinnedLink::from_pin(&path).map_err(Error::kernel(&what))?;
            link.unpin().map_err(Error::kernel(&what))?;
        }
    }
    // On kernels before 6.6.
    let _ = tc::qdisc_detach_program(interface, TcAttachType::Egress, "answered");
    Ok(())
}

/// The number of an interface of this thread's network namespace.
///
/// # Errors
/// There is none of that name.
pub fn number_of(interface: &str) -> Result<u32, Error> {
    let what = format!("interface {interface} does not exist in this network namespace");
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let socket = socket.map_err(Error::kernel("cannot open a socket"))?;
    netdevice::name_to_index(&socket, interface).map_err(Error::kernel(what))
}

fn ingress_pin(interface: &str) -> String {
    format!("link-ingress-{interface}")
}

fn egress_pin(interface: &str) -> String {
    format!("link-egress-{interface}")
}

/// The interfaces with pinned links.
pub fn interfaces(pins: &Path) -> Vec<String> {
    let entries = fs::read_dir(pins).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            Some(entry.file_name().to_str()?.strip_prefix("link-ingress-")?.to_owned())
        })
        .collect();
    found.sort();
    found
}
