//! Hit ratios of all policies, beside what their papers claim.
//!
//! `cargo run --release -p store --example replacement_table [trace.csv]`: the optional file is a
//! trace of flows, `source,destination,...` a line; the key is the destination.
#![allow(clippy::print_stdout)]

#[path = "../tests/traces/mod.rs"]
mod traces;

use store::Replacement;

fn destinations(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.split(',').nth(1)?.parse().ok()).collect()
}

fn print(name: &str, trace: &[u64], items: usize, claim: &str) {
    let ratios =
        Replacement::ALL.map(|policy| format!("{:.3}", traces::hit_ratio(policy, trace, items)));
    println!("| {name}, {items} items | {} | {claim} |", ratios.join(" | "));
}

fn main() -> Result<(), std::io::Error> {
    let names = Replacement::ALL.map(|policy| format!("{policy:?}"));
    println!("| trace | {} | claimed |", names.join(" | "));
    println!("|---|{}---|", "---|".repeat(names.len()));
    let items = traces::ITEMS;
    print(
        "Zipf 0.99",
        &traces::zipf(),
        items,
        "SIEVE, S3-FIFO, W-TinyLFU above LRU (all three papers)",
    );
    let claim = "SIEVE and S3-FIFO most above LRU here (NSDI 2024, SOSP 2023)";
    print("a third one-hit wonders", &traces::one_hit_wonders(), items, claim);
    let claim = "W-TinyLFU and S3-FIFO lose little to scans (TinyLFU, SOSP 2023)";
    print("with scans", &traces::scans(), items, claim);
    print(
        "loop, 1.1 x the cache",
        &traces::ring(),
        items,
        "LRU 0, W-TinyLFU near its best, 0.91 (TinyLFU)",
    );
    if let Some(path) = std::env::args().nth(1) {
        let trace = destinations(&std::fs::read_to_string(path)?);
        for items in [100, 1000] {
            print("flows", &trace, items, "no claim");
        }
    }
    Ok(())
}
