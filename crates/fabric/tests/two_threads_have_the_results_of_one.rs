//! A run on two threads has the results of a run on one: every scheme and transport, both
//! topologies of the paper, random fabrics, quirks, traces, buffers and moves.

use std::thread;

use fabric::{
    Config, Error, Metrics, Migration, Model, Placement, Scheme, Simulation, Task, Transport,
    topology::{GatewayRack, Topology},
    workload::{Flow, Generator},
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

/// How both parts of a run are simulated.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// In turn, by the thread of the test.
    Turns,
    Threads,
}

fn run(
    config: &Config,
    topology: &Topology,
    flows: &[Flow],
    scheme: Scheme,
    by: By,
) -> Result<Metrics, Error> {
    let mut simulation = Simulation::new(config, topology, flows.to_vec(), scheme, 7)?;
    loop {
        let progress = if by == By::Threads {
            simulation.step_together(u64::MAX, 50_000, &at_once)?
        } else {
            simulation.step(50_000)?
        };
        if progress.finished {
            return Ok(simulation.metrics().clone());
        }
    }
}

fn at_once(tasks: Vec<Task<'_>>) {
    thread::scope(|scope| tasks.into_iter().for_each(|task| _ = scope.spawn(task)));
}

/// Compares a run in two parts with one that is not divided, and returns its results.
fn compare(
    config: &Config,
    topology: &Topology,
    flows: &[Flow],
    scheme: Scheme,
    by: By,
) -> Metrics {
    let whole = run(config, topology, flows, scheme, By::Turns).expect("an undivided run");
    let two = Config { threads: 2, ..config.clone() };
    let divided = run(&two, topology, flows, scheme, by).expect("a divided run");
    let what = format!("{scheme}, {config:?}");
    let brief = |metrics: &Metrics| Metrics {
        per_flow: Vec::new(),
        switches: Vec::new(),
        ..metrics.clone()
    };
    assert_eq!(brief(&whole), brief(&divided), "{what}");
    assert!(whole == divided, "switches or flows differ: {what}");
    whole
}

fn small() -> Topology {
    let gateways = vec![GatewayRack { rack: 0, gateways: 2 }, GatewayRack { rack: 5, gateways: 1 }];
    Topology::fat_tree(4, 2, 4, 2, 4, gateways).with_vms_per_server(4)
}

fn flows(random: &mut SplitMix64, vms: u32, count: u32, bytes_max: u64, span_ns: u64) -> Vec<Flow> {
    let flow = |id| Flow {
        source: random.random_range(0..vms),
        destination: random.random_range(0..vms),
        // Many begin in one nanosecond, many have the same size.
        start_ns: random.random_range(0..span_ns) / 8 * 8,
        id,
        bytes: 1 + random.random_range(0..bytes_max) / 1_000 * 1_000,
    };
    (1..=count).map(flow).collect()
}

#[test]
fn in_every_scheme_and_transport() {
    let topology = small();
    let flows = flows(&mut SplitMix64::seed_from_u64(1), 128, 300, 8_000, 100_000);
    for transport in [Transport::Cubic, Transport::Dctcp, Transport::Udp] {
        for scheme in Scheme::all() {
            let config = Config { transport, cache_entries: 96, ..Config::default() };
            let metrics = compare(&config, &topology, &flows, scheme, By::Turns);
            assert_ne!(metrics.received, 0);
        }
    }
}

#[test]
fn on_both_topologies_of_the_paper_with_threads() {
    for (topology, generator, share) in
        [(Topology::ft8_10k(), "hadoop", 0.003), (Topology::ft16_400k(), "rpc", 0.002)]
    {
        let workload = Generator::named(generator).expect("a workload");
        let flows = workload.draw(&topology, share, 1).expect("flows").flows;
        let cache_entries = u64::from(topology.vms()) / 2;
        for scheme in ["direct", "bluebird", "switchv2p"] {
            let config = Config { cache_entries, ..Config::default() };
            let scheme = scheme.parse().expect("a scheme");
            compare(&config, &topology, &flows, scheme, By::Threads);
        }
    }
}

/// Full buffers: what is lost in the middle is accounted for at the edge.
#[test]
fn with_losses_and_marks() {
    let topology = Topology { buffer_bytes: 80_000, ..small() };
    let flow = |id: u32| Flow {
        source: (id % 32) * 4,
        destination: 40 + id % 8,
        start_ns: 0,
        id,
        bytes: 400_000,
    };
    let flows: Vec<Flow> = (1..=64).map(flow).collect();
    for transport in [Transport::Cubic, Transport::Dctcp] {
        for scheme in ["direct", "nocache", "switchv2p"] {
            let config = Config { cache_entries: 96, transport, ..Config::default() };
            let scheme = scheme.parse().expect("a scheme");
            let metrics = compare(&config, &topology, &flows, scheme, By::Turns);
            assert!(metrics.dropped > 100, "{}", metrics.dropped);
        }
    }
}

/// Bluebird loses datagrams in the control planes of ToRs of both parts.
#[test]
fn with_losses_in_control_planes() {
    let flow = |id: u32| Flow {
        source: (id % 32) * 4,
        destination: 2 + (id % 31) * 4,
        start_ns: u64::from(id / 32) * 10,
        id,
        bytes: 8_000,
    };
    let flows: Vec<Flow> = (1..=8_000).map(flow).collect();
    let config = Config { transport: Transport::Udp, cache_entries: 8, ..Config::default() };
    let metrics = compare(&config, &small(), &flows, Scheme::Bluebird, By::Turns);
    assert!(metrics.dropped > 1_000, "{}", metrics.dropped);
}

/// Random fabrics, quirks, traces, buffers and moves.
#[test]
fn in_random_fabrics() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let rounds = seed.map_or(0..150, |seed: u64| seed..seed + 1);
    let schemes: Vec<Scheme> = Scheme::all().collect();
    for seed in rounds {
        eprintln!("SEED={seed}");
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut up_to = |most: u32| random.random_range(1..=most);
        let (pods, racks, spines) = (up_to(4), up_to(3), up_to(3));
        let (servers, vms) = (up_to(4), up_to(3));
        let cores = spines * up_to(3);
        let rack = up_to(pods * racks) - 1;
        let gateways = vec![GatewayRack { rack, gateways: up_to(3) }];
        let mut topology = Topology::fat_tree(pods, racks, servers, spines, cores, gateways)
            .with_vms_per_server(vms);
        topology.fabric_link.delay_ns = [1_000, 300, 5_000, 1][random.random_range(0..4)];
        topology.host_link.delay_ns = [1_000, 90_000, 250][random.random_range(0..3)];
        topology.buffer_bytes = [32 << 20, 20_000, 4_000][random.random_range(0..3)];
        let transport =
            [Transport::Cubic, Transport::Dctcp, Transport::Udp][random.random_range(0..3)];
        let mut model = Model::paper();
        for quirk in Model::quirk_names().into_iter().filter(|name| *name != "one-event-queue") {
            if random.random_range(0..4) == 0 {
                *model.quirk_mut(quirk).expect("a quirk") = true;
            }
        }
        let mut config = Config {
            model,
            transport,
            cache_entries: random.random_range(0..200),
            learn_probability: 0.2,
            ..Config::default()
        };
        let span_ns = [1, 2_000, 200_000][random.random_range(0..3)];
        let bytes = if transport == Transport::Udp { 8_000 } else { 60_000 };
        let all = flows(&mut random, topology.vms(), 120, bytes, span_ns);
        for _ in 0..random.random_range(0..4) {
            config.migrations.push(Migration {
                vm: random.random_range(0..topology.vms()),
                server: random.random_range(0..topology.servers()),
                at_ns: random.random_range(0..300_000),
            });
        }
        let scheme = schemes[random.random_range(0..schemes.len())];
        let by = if seed % 4 == 0 { By::Threads } else { By::Turns };
        compare(&config, &topology, &all, scheme, by);
    }
}

/// A controller reads both parts and fills the caches of both, between two steps.
#[test]
fn with_a_controller() {
    let topology = small();
    let flows = flows(&mut SplitMix64::seed_from_u64(5), 128, 200, 20_000, 100_000);
    let run = |threads| {
        let config = Config { threads, cache_entries: 400, ..Config::default() };
        let mut simulation =
            Simulation::new(&config, &topology, flows.clone(), Scheme::Controller, 7)
                .expect("a simulation");
        let mut read = Vec::new();
        for step in 1..=20 {
            simulation.step_until(step * 10_000, u64::MAX).expect("laws hold");
            let traffic = simulation.take_traffic();
            // At each switch on the way to its gateway, up to its room, the first machine.
            let mut placements: Vec<Placement> = Vec::new();
            for (source, destination, gateway, _) in &traffic {
                for switch in simulation.gateway_path(*source, *gateway) {
                    if placements.iter().all(|placement| placement.switch != switch) {
                        placements.push(Placement { switch, vms: vec![*destination] });
                    }
                }
            }
            simulation.place(&placements).expect("room");
            read.push(traffic);
        }
        while !simulation.step(50_000).expect("laws hold").finished {}
        (read, simulation.metrics().clone())
    };
    let (read, whole) = run(1);
    assert!(read.iter().any(|traffic| traffic.len() > 10));
    assert!(whole.switches.iter().any(|switch| switch.hits > 0));
    assert!((read, whole) == run(2));
}

#[test]
fn what_needs_one_thread_is_refused_by_name() {
    let refuse = |config: Config, topology: &Topology| {
        let flow = Flow { source: 0, destination: 1, start_ns: 0, id: 1, bytes: 1 };
        let error = Simulation::new(&config, topology, vec![flow], Scheme::Direct, 1);
        error.expect_err("refused").to_string()
    };
    let config = |threads| Config { threads, ..Config::default() };
    let mut immediate = small();
    immediate.host_link.delay_ns = 0;
    let model = Model { one_event_queue: true, ..Model::paper() };
    for (error, words) in [
        (refuse(config(0), &small()), "threads: expected 1 to 2, got 0"),
        (refuse(config(3), &small()), "threads: expected 1 to 2, got 3"),
        (refuse(config(2), &immediate), "1, because links have no delay, got 2"),
        (
            refuse(Config { model, ..config(2) }, &small()),
            "1, because the quirk one-event-queue is on, got 2",
        ),
        (
            refuse(Config { sample_interval_ns: 1, ..config(2) }, &small()),
            "1, because the run is sampled over time, got 2",
        ),
        (
            refuse(Config { follow_every: 1, ..config(2) }, &small()),
            "1, because packets are followed, got 2",
        ),
    ] {
        assert!(error.contains(words), "{error}");
    }
}
