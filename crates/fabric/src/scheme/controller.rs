//! Controller: a central program fills the caches (Appendix A).

use std::collections::{BTreeMap, HashMap};

use super::resolver::{Passing, Resolver, Step};
use crate::{Error, Placement, directory::Directory};

#[derive(Debug)]
pub(crate) struct Controller {
    /// Capacity and mappings of each switch.
    switches: Vec<(u32, HashMap<u32, u32>)>,
    /// Packets for each (source, destination, gateway) since the last read.
    traffic: BTreeMap<(u32, u32, u32), u64>,
}

impl Controller {
    pub(crate) fn new(entries: &[u32]) -> Self {
        let switches = entries.iter().map(|entries| (*entries, HashMap::new())).collect();
        Self { switches, traffic: BTreeMap::new() }
    }
}

impl Resolver for Controller {
    fn pass(&mut self, passing: Passing<'_>) -> Step {
        let header = passing.header;
        if header.resolved {
            return Step::default();
        }
        if passing.first_switch {
            let source = passing.directory.vm(header.source_vip);
            let destination = passing.directory.vm(header.destination_vip);
            *self.traffic.entry((source, destination, header.destination_pip)).or_default() += 1;
        }
        let (_, mappings) = &self.switches[passing.switch as usize];
        let Some(pip) = mappings.get(&header.destination_vip) else { return Step::default() };
        header.destination_pip = *pip;
        header.resolved = true;
        header.hit = passing.switch as u16 + 1;
        Step { hit: true, ..Step::default() }
    }

    fn place(&mut self, placements: &[Placement], directory: &Directory) -> Result<(), Error> {
        let known = self.switches.len();
        for placement in placements {
            let room =
                self.switches.get(placement.switch as usize).map(|(entries, _)| *entries as usize);
            if room.is_none_or(|room| placement.vms.len() > room) {
                let expected =
                    format!("one of {known} switches and at most {} mappings", room.unwrap_or(0));
                let got = format!("switch {} with {}", placement.switch, placement.vms.len());
                return Err(Error::Config { what: "placement", expected, got });
            }
        }
        self.switches.iter_mut().for_each(|(_, mappings)| mappings.clear());
        for placement in placements {
            let (_, mappings) = &mut self.switches[placement.switch as usize];
            mappings.extend(placement.vms.iter().map(|vm| {
                let vip = directory.vip(*vm);
                (vip, directory.mapped(vip))
            }));
        }
        Ok(())
    }

    fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)> {
        let traffic = std::mem::take(&mut self.traffic);
        traffic
            .into_iter()
            .map(|((from, to, gateway), packets)| (from, to, gateway, packets))
            .collect()
    }
}
