//! What the load generator itself costs: operations that do nothing, and how late the open loop
//! starts them. `cargo run --release -p enroute --example load_cost`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use enroute::workload::{KeyDistribution, Load, Outcome, Pace, Recorder, drive, drive_threads};
use parking_lot::Mutex;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let zipf = KeyDistribution::Zipf { theta: 0.99 };
    for (distribution, operations) in [(KeyDistribution::Uniform, 5_000_000), (zipf, 5_000_000)] {
        let operations_max = Some(operations);
        let load = Load { distribution, keys: 1_000_000, operations_max, ..Load::default() };
        let each = |started: Instant| started.elapsed() / operations as u32;
        let started = Instant::now();
        drive_threads(&load, vec![|_| Outcome::Hit], &Mutex::default());
        let thread = each(started);
        let started = Instant::now();
        runtime.block_on(drive(&load, vec![async |_: u64| Outcome::Hit], &Mutex::default()))?;
        println!("{distribution}: {thread:?} on a thread, {:?} asynchronously", each(started));
    }
    for per_second in [500.0, 5_000.0] {
        let operations_max = Some((per_second * 2.0) as u64);
        let pace = Pace::Open { per_second };
        let load = Load { pace, operations_max, ..Load::default() };
        let (threads, tasks) = (Mutex::new(Recorder::default()), Mutex::new(Recorder::default()));
        drive_threads(&load, vec![|_| Outcome::Hit; 2], &threads);
        runtime.block_on(drive(&load, vec![async |_: u64| Outcome::Hit; 2], &tasks))?;
        for (name, recorder) in [("threads", threads), ("asynchronous", tasks)] {
            let late = recorder.lock().summary();
            println!(
                "{per_second}/s, {name}: late by {} us p50, {} us p99",
                late.latency_ns_p50 / 1000,
                late.latency_ns_p99 / 1000
            );
        }
    }
    Ok(())
}
