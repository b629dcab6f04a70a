//! Locations of the virtual machines: the actual ones, and those that the gateways know.

use policy::v2p::vip_hash;

use crate::{network::Shape, topology::Topology};

#[derive(Debug)]
pub(crate) struct Directory {
    vip_of_vm: Vec<u32>,
    vm_of_vip: Vec<u32>,
    hashes: Vec<u32>,
    /// Host of each virtual address.
    home: Vec<u32>,
    /// Mapping of each virtual address in the gateways (and, for schemes that use it, in the
    /// hosts).
    table: Vec<u32>,
}

impl Directory {
    pub(crate) fn new(topology: &Topology, shape: &Shape) -> Self {
        let vip_of_vm = topology.virtual_addresses();
        let vips = vip_of_vm.iter().max().map_or(0, |vip| vip + 1) as usize;
        let (mut vm_of_vip, mut home) = (vec![0; vips], vec![0; vips]);
        for (vm, vip) in (0..).zip(&vip_of_vm) {
            vm_of_vip[*vip as usize] = vm;
            home[*vip as usize] = shape.server(topology.placement[vm as usize]);
        }
        let hashes = (0..vips as u32).map(vip_hash).collect();
        Self { vip_of_vm, vm_of_vip, hashes, table: home.clone(), home }
    }

    pub(crate) fn vip(&self, vm: u32) -> u32 {
        self.vip_of_vm[vm as usize]
    }

    pub(crate) fn vm(&self, vip: u32) -> u32 {
        self.vm_of_vip[vip as usize]
    }

    pub(crate) fn hash(&self, vip: u32) -> u32 {
        self.hashes[vip as usize]
    }

    /// The host it is on.
    pub(crate) fn home(&self, vip: u32) -> u32 {
        self.home[vip as usize]
    }

    /// The host the gateways map it to.
    pub(crate) fn mapped(&self, vip: u32) -> u32 {
        self.table[vip as usize]
    }

    pub(crate) fn move_to(&mut self, vip: u32, host: u32) {
        self.home[vip as usize] = host;
    }

    pub(crate) fn remap(&mut self, vip: u32) {
        self.table[vip as usize] = self.home[vip as usize];
    }
}
