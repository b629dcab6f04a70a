//! Putting the programs where packets pass, and taking them away.

use std::{fs, path::Path};

use aya::programs::{
    SchedClassifier, TcAttachType, Xdp, XdpMode,
    links::{FdLink, PinnedLink},
    tc,
};

use crate::{
    Error,
    plane::{DataPlane, Mode},
};

impl DataPlane {
    /// Attaches to an interface, in native mode if its driver can; replaces an earlier process's
    /// programs there. With pins, the programs stay when this process ends.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn attach(&mut self, interface: &str, generic: bool) -> Result<Mode, Error> {
        if let Some(pins) = self.config().pins.clone() {
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
        let link = FdLink::try_from(link).map_err(Error::kernel(&what))?;
        self.keep(link, &format!("link-ingress-{interface}"))?;
        self.attach_egress(interface, &what)?;
        Ok(mode)
    }

    fn attach_egress(&mut self, interface: &str, what: &str) -> Result<(), Error> {
        if self.config().memcache_port == 0 {
            return Ok(());
        }
        // There already is one, or links need none (kernel 6.6).
        let _ = tc::qdisc_add_clsact(interface);
        let program = self.program("answered")?;
        let egress = <&mut SchedClassifier>::try_from(program).map_err(Error::kernel(what))?;
        let id = egress.attach(interface, TcAttachType::Egress).map_err(Error::kernel(what))?;
        let link = egress.take_link(id).map_err(Error::kernel(what))?;
        match FdLink::try_from(link) {
            Ok(link) => self.keep(link, &format!("link-egress-{interface}")),
            // Before 6.6 the filter belongs to the interface, and stays with it.
            Err(_) => Ok(()),
        }
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

    /// Forgets everything cached, and what connections wait for, before the programs come back to
    /// where packets passed without them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn clear(&mut self) -> Result<(), Error> {
        for place in self.lookup.places().collect::<Vec<_>>() {
            let name = self.entries[place as usize].name();
            self.evict(place, &name);
        }
        self.shared().epoch.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        self.flows.clear();
        self.counters.clear();
        self.sketch.clear();
        self.filter.clear();
        Ok(())
    }
}

/// A program that lets everything in, where frames of a program at the other end of a veth pair come
/// back: its driver drops them where no program receives. Ends with this, unless it is pinned.
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
    /// Lets it stay when this process ends.
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

/// Takes the programs away from an interface; fine if there are none.
///
/// # Errors
/// A pin cannot be removed.
pub fn detach(pins: &Path, interface: &str) -> Result<(), Error> {
    for name in [format!("link-ingress-{interface}"), format!("link-egress-{interface}")] {
        let path = pins.join(name);
        if path.exists() {
            let what = format!("cannot detach {}", path.display());
            let link = PinnedLink::from_pin(&path).map_err(Error::kernel(&what))?;
            link.unpin().map_err(Error::kernel(&what))?;
        }
    }
    // Of a kernel before 6.6.
    let _ = tc::qdisc_detach_program(interface, TcAttachType::Egress, "answered");
    Ok(())
}

/// The interfaces there are pinned links for.
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
