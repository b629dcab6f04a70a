//! Replays a trace under the authors' model and prints what they print, and what it cost:
//! `cargo run --release -p fabric --example replay -- TRACE.csv.gz [SCHEME…]`.

use std::{fs::File, io::Read, time::Instant};

use fabric::{Config, Model, Scheme, Simulation, topology::Topology, workload::Flow};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let trace = arguments.next().ok_or("expected a trace")?;
    let names: Vec<String> = arguments.collect();
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(trace)?).read_to_string(&mut text)?;
    let flows = text.lines().map(flow).collect::<Result<Vec<_>, _>>()?;
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let paper = std::env::var("MODEL").is_ok_and(|model| model == "paper");
    let model = if paper { Model::paper() } else { Model::published() };
    let config = Config { model, ..Config::default() };
    let topology = Topology::ft8_10k();
    for name in names {
        let scheme: Scheme = name.parse()?;
        let start = Instant::now();
        let mut simulation = Simulation::new(&config, &topology, flows.clone(), scheme, seed)?;
        while !simulation.step(10_000_000)?.finished {}
        let seconds = start.elapsed().as_secs_f64();
        let m = simulation.metrics();
        if std::env::var("HISTOGRAM").is_ok() {
            let mut counts = std::collections::BTreeMap::new();
            for flow in &m.per_flow {
                let c: &mut (u64, u64) = counts
                    .entry((flow.last_received_ns - flow.first_sent_ns) / 5_000_000)
                    .or_default();
                c.0 += 1;
                c.1 += flow.last_received_ns - flow.first_sent_ns;
            }
            for (ms, c) in counts {
                println!("{:>5} ms: {:>6} flows {:.3} s", ms * 5, c.0, c.1 as f64 / 1e9);
            }
        }
        let hits = |from: u32, to: u32, first: bool| {
            let some = &m.switches[from as usize..to as usize];
            some.iter().map(|s| if first { s.first_hits } else { s.hits }).sum::<u64>()
        };
        let (cores, tors, all) =
            (topology.cores, topology.cores + topology.spines(), topology.switches());
        let bytes: u64 = m.switches.iter().map(|s| s.bytes).sum();
        println!(
            "{name}: tx {} gw {} hit {:.2}% fct {:.3} fpl {:.3} lat {:.3} hops {:.3} learn {} inval {} mis {} drop {} lost {} done {} | hits {}/{}/{} first {}/{}/{} | bytes {bytes} end {} | {} events {seconds:.2} s, {:.0} packets/s, {:.1} ns/hop",
            m.sent,
            m.gateway_packets,
            100.0 * m.hit_rate(),
            m.flow_completion_ns_mean() / 1e3,
            m.first_packet_latency_ns_mean() / 1e3,
            m.packet_latency_ns_mean() / 1e3,
            m.packet_hops_mean(),
            m.learning_packets,
            m.invalidation_packets,
            m.misdelivered,
            m.dropped,
            m.sent - m.received,
            m.flows_completed,
            hits(0, cores, false),
            hits(cores, tors, false),
            hits(tors, all, false),
            hits(0, cores, true),
            hits(cores, tors, true),
            hits(tors, all, true),
            m.end_ns,
            m.events,
            m.sent as f64 / seconds,
            seconds * 1e9 / m.packet_hops_simulated as f64,
        );
    }
    Ok(())
}

fn flow(line: &str) -> Result<Flow, Box<dyn std::error::Error>> {
    let mut fields = line.split(',');
    let mut field = || fields.next().ok_or("expected five fields");
    Ok(Flow {
        source: field()?.parse()?,
        destination: field()?.parse()?,
        start_ns: field()?.parse::<f64>()? as u64,
        id: field()?.parse()?,
        bytes: field()?.parse()?,
    })
}
