//! Results of a run.

use crate::Followed;

/// Maximum number of samples of one run.
pub const SAMPLES_MAX: usize = 1 << 16;

/// The layer of the fabric that a switch belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Top of rack, with or without gateways.
    Tor,
    /// Spine, in a pod with or without gateways.
    Spine,
    /// Core.
    Core,
}

/// Results of one run. Latencies are nanoseconds; packets of both directions count, TCP control
/// packets included.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Events processed.
    pub events: u64,
    /// Simulated time of the last event, nanoseconds.
    pub end_ns: u64,
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that hosts received.
    pub received: u64,
    /// Lost packets: full queues, Bluebird's control plane, unknown destinations.
    pub dropped: u64,
    /// Packets that arrived with duplicate data only: the reference does not count them as
    /// received.
    pub repeated: u64,
    /// Packets in flight at the end.
    pub in_flight: u64,
    /// Packets that gateways forwarded.
    pub gateway_packets: u64,
    /// Learning packets generated.
    pub learning_packets: u64,
    /// Invalidation packets generated.
    pub invalidation_packets: u64,
    /// Packets that reached a server which their virtual machine had left.
    pub misdelivered: u64,
    /// Arrival time of the last misdelivered packet, in nanoseconds.
    pub last_misdelivered_ns: u64,
    /// Sum over received packets.
    pub packet_latency_ns: u64,
    /// Sum over received packets: switches passed.
    pub packet_hops: u64,
    /// Packet-hops simulated: every packet, control packets too, at every switch.
    pub packet_hops_simulated: u64,
    /// Flows that sent anything.
    pub flows: u64,
    /// Flows of which anything arrived: means over flows are over these.
    pub flows_received: u64,
    /// Flows whose every byte was acknowledged, or (UDP) whose every datagram arrived.
    pub flows_completed: u64,
    /// Sum over flows: last arrival at either end less first send.
    pub flow_completion_ns: u64,
    /// Sum over flows: first arrival less first send.
    pub first_packet_latency_ns: u64,
    /// Per switch: cores, then spines, then ToRs.
    pub switches: Vec<SwitchMetrics>,
    /// Per flow, in the order of the workload (UDP: of the flows' first datagrams).
    pub per_flow: Vec<FlowResult>,
    /// The time series, if samples were asked for.
    pub samples: Vec<Sample>,
    /// Followed packets, in the order in which they were sent.
    pub followed: Vec<Followed>,
}

/// Results of one switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwitchMetrics {
    /// Packets processed, control packets not counted.
    pub packets: u64,
    /// Their bytes without the outer headers.
    pub bytes: u64,
    /// Lookups that resolved a packet.
    pub hits: u64,
    /// Hits by the first packet of a flow.
    pub first_hits: u64,
}

/// One flow's times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowResult {
    /// The flow's id in the workload.
    pub id: u32,
    /// Datagrams that were sent and have not arrived; 0 for TCP.
    pub missing: u32,
    /// First send, nanoseconds; `u64::MAX` if nothing was sent.
    pub first_sent_ns: u64,
    /// First arrival, nanoseconds; `u64::MAX` if nothing arrived.
    pub first_received_ns: u64,
    /// Last arrival at either end, nanoseconds; 0 if nothing arrived.
    pub last_received_ns: u64,
}

impl FlowResult {
    /// Time from the first send to the last arrival, in nanoseconds; `None` if nothing arrived.
    #[must_use]
    pub fn completion_ns(&self) -> Option<u64> {
        (self.first_received_ns != u64::MAX).then(|| self.last_received_ns - self.first_sent_ns)
    }
}

/// One point of the time series: totals up to then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time, in nanoseconds.
    pub at_ns: u64,
    /// As in [`Metrics`].
    pub sent: u64,
    /// As in [`Metrics`].
    pub received: u64,
    /// As in [`Metrics`].
    pub gateway_packets: u64,
    /// As in [`Metrics`].
    pub misdelivered: u64,
    /// As in [`Metrics`].
    pub dropped: u64,
    /// Packets in flight.
    pub in_flight: u64,
    /// Per switch: packets processed and hits.
    pub switches: Vec<(u64, u64)>,
}

impl Metrics {
    /// 1 minus the ratio of gateway packets to sent packets.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        1.0 - ratio(self.gateway_packets, self.sent)
    }

    /// Mean over flows, nanoseconds.
    #[must_use]
    pub fn flow_completion_ns_mean(&self) -> f64 {
        ratio(self.flow_completion_ns, self.flows_received)
    }

    /// Mean over flows, nanoseconds.
    #[must_use]
    pub fn first_packet_latency_ns_mean(&self) -> f64 {
        ratio(self.first_packet_latency_ns, self.flows_received)
    }

    /// Mean over received packets, nanoseconds.
    #[must_use]
    pub fn packet_latency_ns_mean(&self) -> f64 {
        ratio(self.packet_latency_ns, self.received)
    }

    /// Mean over received packets: the packet stretch, in switches.
    #[must_use]
    pub fn packet_hops_mean(&self) -> f64 {
        ratio(self.packet_hops, self.received)
    }
}

impl Metrics {
    /// Adds the results of the other part of the same run, in which no flow starts or ends.
    pub(crate) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.dropped += other.dropped;
        self.in_flight += other.in_flight;
        self.learning_packets += other.learning_packets;
        self.invalidation_packets += other.invalidation_packets;
        self.end_ns = self.end_ns.max(other.end_ns);
        for (sum, part) in self.switches.iter_mut().zip(&other.switches) {
            sum.packets += part.packets;
            sum.bytes += part.bytes;
            sum.hits += part.hits;
            sum.first_hits += part.first_hits;
        }
    }

    /// Sums over flows and switches, after the run.
    pub(crate) fn finish(&mut self, udp: bool) {
        let sent = self.per_flow.iter().filter(|flow| flow.first_sent_ns != u64::MAX);
        let received = || sent.clone().filter_map(|flow| Some((flow, flow.completion_ns()?)));
        self.flows = sent.clone().count() as u64;
        self.flows_received = received().count() as u64;
        self.flow_completion_ns = received().map(|(_, completion_ns)| completion_ns).sum();
        self.first_packet_latency_ns =
            received().map(|(flow, _)| flow.first_received_ns - flow.first_sent_ns).sum();
        if udp {
            self.flows_completed = sent.clone().filter(|flow| flow.missing == 0).count() as u64;
        }
        self.packet_hops_simulated = self.switches.iter().map(|switch| switch.packets).sum();
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
