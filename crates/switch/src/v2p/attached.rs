//! Programs at interfaces, for as long as their process lives or, pinned, until they are detached.

use std::{collections::BTreeSet, fs, path::Path};

use aya::{
    Ebpf,
    programs::{SchedClassifier, TcAttachType, Xdp, XdpMode, links::FdLink},
};

use crate::Error;

/// Links to one interface: they end with this, unless they are pinned.
#[derive(Debug)]
pub struct Attached {
    interface: String,
    links: Vec<(&'static str, FdLink)>,
}

impl Attached {
    /// Puts the XDP program `name` at an interface, in native mode if its driver can.
    pub(super) fn xdp(ebpf: &mut Ebpf, name: &'static str, interface: &str) -> Result<Self, Error> {
        let what = || format!("cannot attach to {interface}");
        let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
        let xdp = <&mut Xdp>::try_from(program).map_err(Error::kernel(what()))?;
        let id = match xdp.attach(interface, XdpMode::Driver) {
            Ok(id) => id,
            Err(_) => xdp.attach(interface, XdpMode::Skb).map_err(Error::kernel(what()))?,
        };
        let link = xdp.take_link(id).map_err(Error::kernel(what()))?;
        let link = FdLink::try_from(link).map_err(Error::kernel(what()))?;
        Ok(Self { interface: interface.to_owned(), links: vec![("xdp", link)] })
    }

    /// Puts the program `name` of the traffic control behind it.
    pub(super) fn and_behind(mut self, ebpf: &mut Ebpf, name: &'static str) -> Result<Self, Error> {
        let what = || format!("cannot attach to {} (a kernel of 6.6 or newer can)", self.interface);
        let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
        let program = <&mut SchedClassifier>::try_from(program).map_err(Error::kernel(what()))?;
        let id = program
            .attach(&self.interface, TcAttachType::Ingress)
            .map_err(Error::kernel(what()))?;
        let link = program.take_link(id).map_err(Error::kernel(what()))?;
        let link = FdLink::try_from(link).map_err(Error::kernel(what()))?;
        self.links.push(("tc", link));
        Ok(self)
    }

    /// Lets the programs stay when this process ends.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pin(self, pins: &Path) -> Result<(), Error> {
        for (kind, link) in self.links {
            let pin = pins.join(format!("link-{kind}-{}", self.interface));
            let what = format!("cannot pin {}", pin.display());
            link.pin(pin).map_err(Error::kernel(what))?;
        }
        Ok(())
    }
}

/// Names of the interfaces with pinned programs.
#[must_use]
pub fn interfaces(pins: &Path) -> Vec<String> {
    let entries = fs::read_dir(pins).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.file_name();
        let (_, interface) = name.to_str()?.strip_prefix("link-")?.split_once('-')?;
        Some(interface.to_owned())
    });
    found.collect::<BTreeSet<_>>().into_iter().collect()
}
