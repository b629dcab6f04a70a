//! Follows some packets from host to host, if the run asks for it.

use std::collections::HashMap;

use super::World;
use crate::{
    FOLLOWED_MAX, Followed, Place, Step,
    packet::{Packet, PacketId, flag},
    scheme::resolver::Resolver,
};

#[derive(Debug)]
pub(super) struct Follower {
    /// Every n-th packet is followed.
    every: u64,
    /// Index of the recorded path of each packet. A packet may be lost and its slot reused: then
    /// the flow or the sending time differs.
    ways: HashMap<PacketId, (usize, u32, u64)>,
}

impl Follower {
    pub(super) fn new(every: u64) -> Option<Self> {
        (every > 0).then(|| Self { every, ways: HashMap::new() })
    }
}

impl<R: Resolver> World<R> {
    /// A host sends a packet for the first time.
    pub(super) fn follow(&mut self, id: PacketId) {
        let Some(follower) = &mut self.follower else { return };
        let followed = &mut self.metrics.followed;
        if !self.metrics.sent.is_multiple_of(follower.every) || followed.len() == FOLLOWED_MAX {
            return;
        }
        let cold = &self.packets[id].cold;
        let flow = self.flows[cold.flow as usize];
        let reverse = cold.segment.flags & flag::REVERSE != 0;
        let (source, destination) =
            if reverse { (flow.destination, flow.source) } else { (flow.source, flow.destination) };
        follower.ways.insert(id, (followed.len(), cold.flow, cold.sent_ns));
        followed.push(Followed { flow: flow.id, source, destination, steps: Vec::new() });
        self.note(id);
    }

    /// A packet is where it is now.
    #[inline]
    pub(super) fn note(&mut self, id: PacketId) {
        if self.follower.is_some() {
            self.write_down(id);
        }
    }

    fn write_down(&mut self, id: PacketId) {
        let Some(follower) = &mut self.follower else { return };
        let Some(&(index, flow, sent_ns)) = follower.ways.get(&id) else { return };
        let packet: &Packet = &self.packets[id];
        if (packet.cold.flow, packet.cold.sent_ns) != (flow, sent_ns) {
            follower.ways.remove(&id);
            return;
        }
        let shape = &self.network.shape;
        let place = if packet.at < shape.switches {
            Place::Switch(packet.at)
        } else if shape.is_gateway(packet.at) {
            Place::Gateway(shape.gateways().partition_point(|gateway| *gateway < packet.at) as u32)
        } else {
            Place::Server(shape.server_of(packet.at))
        };
        let step = Step { at_ns: self.now_ns, place, resolved: packet.header.resolved };
        self.metrics.followed[index].steps.push(step);
    }
}
