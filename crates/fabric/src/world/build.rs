//! Builds a run, after checking its configuration.

use std::{
    collections::{BinaryHeap, HashMap},
    sync::Arc,
};

use policy::v2p::Role;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

use super::{
    Control, Run, Settings, World,
    flows::{CLOSED, Turns},
    follower::Follower,
    parts::{PARTS, Parted},
    switches::ControlPlane,
};
use crate::{
    Config, Error, FlowResult, Metrics, Scheme, SwitchMetrics, Transport,
    directory::Directory,
    network::{Network, Shape},
    packet::Packets,
    scheme::{
        bluebird::Bluebird,
        controller::Controller,
        direct::Direct,
        gw_cache::GwCache,
        local_learning::LocalLearning,
        no_cache::NoCache,
        on_demand::OnDemand,
        resolver::Resolver,
        switch_v2p::{SwitchV2P, caches, rules},
    },
    tcp::{NEVER, Tuning},
    topology::Topology,
    wheel::{END_NS_MAX, Wheel},
    workload::{DATAGRAM_BYTES_MAX, FLOW_BYTES_MAX, Flow},
};

/// Link and outer IP headers; the tunnel's UDP header.
const OUTER_BYTES: u16 = 2 + 20;
const TUNNEL_UDP_BYTES: u16 = 8;

pub(crate) fn build(
    config: &Config,
    topology: &Topology,
    flows: Vec<Flow>,
    scheme: Scheme,
    seed: u64,
) -> Result<Box<dyn Run>, Error> {
    check(config, topology, &flows, scheme)?;
    let roles = topology.roles();
    let entries =
        |uses: &dyn Fn(Role) -> bool| topology.entries_by_switch(config.cache_entries, uses);
    let model = &config.model;
    let is_tor = |role: Role| matches!(role, Role::Tor | Role::GatewayTor);
    let parts = Parts { config, topology, seed };
    let shape = Shape::new(topology);
    Ok(match scheme {
        Scheme::NoCache => parts.run(flows, || NoCache, true),
        Scheme::Direct => parts.run(flows, || Direct, true),
        Scheme::OnDemand => {
            let on_demand =
                || OnDemand::new(model.on_demand_pays_once, model.on_demand_learns_on_receive);
            parts.run(flows, on_demand, true)
        }
        Scheme::LocalLearning => {
            let local = || LocalLearning::new(&shape, &entries(&|_| true), seed);
            parts.run(flows, local, true)
        }
        Scheme::GwCache => {
            let gateway_tor = |role: Role| role == Role::GatewayTor;
            let cache = || {
                GwCache::new(&entries(&gateway_tor), roles.iter().map(|role| gateway_tor(*role)))
            };
            parts.run(flows, cache, true)
        }
        Scheme::Bluebird => {
            let bluebird =
                || Bluebird::new(&entries(&is_tor), roles.iter().map(|role| is_tor(*role)));
            parts.run(flows, bluebird, true)
        }
        Scheme::Controller => parts.run(flows, || Controller::new(&entries(&|_| true)), true),
        Scheme::SwitchV2P(variant) => {
            let rules = rules(model, variant, config.learn_probability);
            let entries = entries(&|role| caches(variant, role));
            let switches = || SwitchV2P::new(&shape, &entries, rules, seed);
            parts.run(flows, switches, model.follow_me_in_switchv2p)
        }
    })
}

/// Checks the configuration before anything is built.
pub(crate) fn check(
    config: &Config,
    topology: &Topology,
    flows: &[Flow],
    scheme: Scheme,
) -> Result<(), Error> {
    topology.check()?;
    check_config(config, topology)?;
    check_flows(config, topology, flows)?;
    if needs_gateways(scheme) && topology.gateway_count() == 0 {
        let (expected, got) = (format!("gateways: {scheme} sends through them"), "none".to_owned());
        return Err(Error::Topology { what: "gateways", expected, got });
    }
    Ok(())
}

struct Parts<'a> {
    config: &'a Config,
    topology: &'a Topology,
    seed: u64,
}

impl Parts<'_> {
    fn run<R: Resolver + Send + 'static>(
        &self,
        mut flows: Vec<Flow>,
        resolver: impl Fn() -> R,
        follow_me: bool,
    ) -> Box<dyn Run> {
        flows.sort_by_key(|flow| (flow.start_ns, flow.source));
        let flows: Arc<[Flow]> = flows.into();
        let world = || self.world(Arc::clone(&flows), resolver(), follow_me);
        if self.config.threads == 1 {
            return Box::new(world());
        }
        Box::new(Parted::new(world(), world()))
    }

    fn world<R: Resolver>(&self, flows: Arc<[Flow]>, mut resolver: R, follow_me: bool) -> World<R> {
        let Self { config, topology, seed } = *self;
        let model = &config.model;
        let seeds = if model.unseeded_ecmp {
            Vec::new()
        } else {
            let mut random = SplitMix64::seed_from_u64(seed);
            (0..topology.switches()).map(|_| random.next_u64() as u32).collect()
        };
        let network = Network::new(
            topology,
            seeds,
            config.transport == Transport::Dctcp,
            model.one_event_queue,
        );
        let directory = Directory::new(topology, &network.shape);
        let udp = config.transport == Transport::Udp;
        let (result_of, per_flow) = results(&flows, udp);
        let mut migrations = config.migrations.clone();
        migrations.sort_by_key(|migration| std::cmp::Reverse(migration.at_ns));
        for migration in &migrations {
            resolver.announce_move(directory.vip(migration.vm));
        }
        let settings = self.settings(&flows, &resolver, follow_me);
        let metrics = Metrics {
            switches: vec![SwitchMetrics::default(); topology.switches() as usize],
            per_flow,
            ..Metrics::default()
        };
        World {
            now_ns: 0,
            seed,
            wheel: Wheel::new(),
            packets: Packets::new(),
            network,
            directory,
            resolver,
            metrics,
            next_sample_ns: if config.sample_interval_ns == 0 { NEVER } else { 0 },
            settings,
            turns: Turns::new(topology, model.unseeded_ecmp),
            next_flow: 0,
            is_edge: true,
            result_of,
            connection_of: if udp { Vec::new() } else { vec![CLOSED; flows.len()] },
            flows,
            connections: Vec::new(),
            free_connections: Vec::new(),
            timers: BinaryHeap::new(),
            migrations,
            remaps: Vec::new(),
            due: Vec::new(),
            segments: Vec::new(),
            control: Control::default(),
            control_planes: vec![ControlPlane::default(); topology.switches() as usize],
            follower: Follower::new(config.follow_every),
        }
    }

    fn settings<R: Resolver>(&self, flows: &[Flow], resolver: &R, follow_me: bool) -> Settings {
        let Self { config, topology, .. } = *self;
        let model = &config.model;
        let tunnel_udp = if model.udp_tunnel { TUNNEL_UDP_BYTES } else { 0 };
        let uncounted =
            |switch| OUTER_BYTES + if resolver.reads_tunnel(switch) { tunnel_udp } else { 0 };
        let last_start_ns = flows.last().map_or(0, |flow| flow.start_ns);
        Settings {
            udp: config.transport == Transport::Udp,
            tuning: Tuning {
                duplicates_max: if model.patient_tcp { 2_048 } else { 300 },
                clock_ns: if model.millisecond_timestamps { 1_000_000 } else { 1 },
                dctcp: config.transport == Transport::Dctcp,
            },
            tunnel_bytes: OUTER_BYTES + tunnel_udp,
            fixed_datagrams: model.fixed_datagrams,
            follow_me,
            count_control_plane_losses: !model.uncounted_bluebird_drops,
            gateway_delay_ns: topology.gateway_delay_ns,
            sample_interval_ns: config.sample_interval_ns,
            end_ns: last_start_ns + config.drain_ns,
            window_ns: topology.host_link.delay_ns.min(topology.fabric_link.delay_ns),
            uncounted_bytes: (0..topology.switches()).map(uncounted).collect(),
        }
    }
}

/// Index of each flow's result, and the results; datagrams of one id share one.
fn results(flows: &[Flow], udp: bool) -> (Vec<u32>, Vec<FlowResult>) {
    let mut per_flow = Vec::new();
    let mut by_id = HashMap::new();
    let mut add = |flow: &Flow| {
        per_flow.push(FlowResult {
            id: flow.id,
            missing: 0,
            first_sent_ns: NEVER,
            first_received_ns: NEVER,
            last_received_ns: 0,
        });
        per_flow.len() as u32 - 1
    };
    let result_of = flows
        .iter()
        .map(
            |flow| if udp { *by_id.entry(flow.id).or_insert_with(|| add(flow)) } else { add(flow) },
        )
        .collect();
    (result_of, per_flow)
}

fn needs_gateways(scheme: Scheme) -> bool {
    !matches!(scheme, Scheme::Direct)
}

fn check_config(config: &Config, topology: &Topology) -> Result<(), Error> {
    let refuse = |what, expected: String, got: String| Err(Error::Config { what, expected, got });
    if !(0.0..=1.0).contains(&config.learn_probability) {
        return refuse(
            "learn_probability",
            "0 to 1".to_owned(),
            config.learn_probability.to_string(),
        );
    }
    check_threads(config, topology)?;
    for migration in &config.migrations {
        if migration.vm >= topology.vms() {
            return refuse(
                "migrations",
                format!("a server number below {}", topology.vms()),
                migration.vm.to_string(),
            );
        }
        if migration.server >= topology.servers() {
            let expected = format!("a server below {}", topology.servers());
            return refuse("migrations", expected, migration.server.to_string());
        }
    }
    Ok(())
}

/// What keeps a run on one thread.
fn check_threads(config: &Config, topology: &Topology) -> Result<(), Error> {
    let delay_ns = topology.host_link.delay_ns.min(topology.fabric_link.delay_ns);
    let expected = if !(1..=PARTS).contains(&config.threads) {
        format!("1 to {PARTS}")
    } else if config.threads == 1 {
        return Ok(());
    } else if config.model.one_event_queue {
        "1, because the quirk one-event-queue is on".to_owned()
    } else if config.sample_interval_ns > 0 {
        "1, because the run is sampled over time".to_owned()
    } else if config.follow_every > 0 {
        "1, because packets are followed".to_owned()
    } else if delay_ns == 0 {
        "1, because links have no delay".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Config { what: "threads", expected, got: config.threads.to_string() })
}

fn check_flows(config: &Config, topology: &Topology, flows: &[Flow]) -> Result<(), Error> {
    let udp = config.transport == Transport::Udp;
    let free_size = udp && config.model.fixed_datagrams;
    let bytes_max = if udp { DATAGRAM_BYTES_MAX } else { FLOW_BYTES_MAX };
    for (index, flow) in flows.iter().enumerate() {
        let refuse = |what, expected: String, got: u64| {
            Err(Error::Flow { index, what, expected, got: got.to_string() })
        };
        for (what, vm) in [("source", flow.source), ("destination", flow.destination)] {
            if vm >= topology.vms() {
                return refuse(
                    what,
                    format!("a VM number below {}", topology.vms()),
                    u64::from(vm),
                );
            }
        }
        if flow.start_ns > END_NS_MAX.saturating_sub(config.drain_ns) {
            let expected = format!("at most {END_NS_MAX} less drain_ns");
            return refuse("start_ns", expected, flow.start_ns);
        }
        if !free_size && !(1..=bytes_max).contains(&flow.bytes) {
            return refuse("bytes", format!("1 to {bytes_max}"), flow.bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulation of one flow that has begun.
    fn begun() -> World<NoCache> {
        let config = Config::default();
        let topology = Topology::ft8_10k();
        let flow = Flow { source: 0, destination: 5_000, start_ns: 7, id: 1, bytes: 50_000 };
        let parts = Parts { config: &config, topology: &topology, seed: 42 };
        let mut world = parts.world(vec![flow].into(), NoCache, true);
        world.step(u64::MAX, 50, None).expect("laws hold");
        world
    }

    #[test]
    fn a_packet_that_vanishes_ends_the_run_with_event_and_seed() {
        let mut world = begun();
        world.metrics.sent += 1;
        let said = world.step(u64::MAX, 10, None).expect_err("a law broke").to_string();
        for part in ["conservation", "at event", "seed 42"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn time_that_goes_back_ends_the_run() {
        let mut world = begun();
        world.now_ns += 1_000_000_000;
        world.wheel.insert(0, world.now_ns - 999_999_999);
        let said = world.step(u64::MAX, 10, None).expect_err("a law broke").to_string();
        assert!(said.contains("causality") && said.contains("seed 42"), "{said}");
    }
}
