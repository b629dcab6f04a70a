//! Cost of the memory tier: nanoseconds per lookup, resident bytes per item, longest insert; and
//! the cost of compaction when it is full.
//!
//! `cargo run --release -p store --example memory_cost [items ...]`, 10k and 1M without arguments.
//! Keys of 16 bytes, values of 64. The table goes into docs/measurements.md.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use store::{Config, Memory, Replacement};

const NOW: Duration = Duration::ZERO;
const LOOKUPS: u64 = 2_000_000;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:............";
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Any mixing will do; this stands in for the caller's hash.
fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second field is resident pages") * 4096
}

/// Fills an empty memory; returns nanoseconds an insert.
fn fill(memory: &mut Memory, items: u64) -> f64 {
    let start = Instant::now();
    for number in 0..items {
        memory.insert(hash(number), &key(number), &[7; 64], None, NOW).expect("there is room");
    }
    start.elapsed().as_nanos() as f64 / items as f64
}

/// Processor time of this thread, so that waiting for a processor is not counted.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Microseconds of the two longest inserts while growing.
fn longest_inserts(config: Config, items: u64) -> [f64; 2] {
    let mut memory = Memory::new(config, 1);
    let mut longest = [0.0; 2];
    let mut last = worked();
    for number in 0..items {
        memory.insert(hash(number), &key(number), &[7; 64], None, NOW).expect("there is room");
        let now = worked();
        let took = (now - last).as_secs_f64() * 1e6;
        longest =
            if took > longest[0] { [took, longest[0]] } else { [longest[0], longest[1].max(took)] };
        last = now;
    }
    longest
}

/// Nanoseconds a lookup of a random key held, reading the value's first byte.
fn look_up(memory: &mut Memory, items: u64) -> f64 {
    let start = Instant::now();
    let mut number = 1u64;
    for _ in 0..LOOKUPS {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let wanted = ((number >> 32) * items) >> 32;
        let value = memory.lookup(hash(wanted), &key(wanted), NOW).expect("it was stored");
        black_box(value[0]);
    }
    start.elapsed().as_nanos() as f64 / LOOKUPS as f64
}

/// The worst case for a log: values of changing length under keys chosen evenly, so that items die
/// everywhere alike, while the budget is full.
fn churn(replacement: Replacement) {
    let mut memory =
        Memory::new(Config { bytes_max: 128 << 20, replacement, ..Config::default() }, 1);
    let mut inserted_bytes = 0;
    let mut before = memory.stats();
    let mut start = Instant::now();
    for number in 0..12_000_000u64 {
        if number == 6_000_000 {
            (before, start, inserted_bytes) = (memory.stats(), Instant::now(), 0);
        }
        let drawn = hash(number ^ 0x5bd1_e995);
        let length = (drawn >> 32) as usize % 200;
        let wanted = drawn % 1_500_000;
        memory
            .insert(hash(wanted), &key(wanted), &[7; 200][..length], None, NOW)
            .expect("there is room");
        inserted_bytes += (length + 32).next_multiple_of(8) as u64;
    }
    let after = memory.stats();
    println!(
        "| {replacement:?} | {:.0} | {:.2} | {:.1} % | {} |",
        start.elapsed().as_nanos() as f64 / 6e6,
        (after.compacted_bytes - before.compacted_bytes) as f64 / inserted_bytes as f64,
        after.live_bytes as f64
            / (after.accounted_bytes - after.index_bytes - after.policy_bytes) as f64
            * 100.0,
        after.evictions - before.evictions,
    );
}

fn main() {
    let asked: Vec<u64> = std::env::args().skip(1).filter_map(|items| items.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![10_000, 1_000_000] } else { asked };
    println!(
        "| items | policy | ns a lookup | ns an insert | longest inserts, µs of CPU | bytes an item, resident | accounted |"
    );
    println!("|---|---|---|---|---|---|---|");
    for items in sizes {
        for replacement in
            [Replacement::Sieve, Replacement::Lru, Replacement::S3Fifo, Replacement::WTinyLfu]
        {
            let before = resident_bytes();
            let config = Config { bytes_max: 8 << 30, replacement, ..Config::default() };
            let mut memory = Memory::new(config, 1);
            let insert_ns = fill(&mut memory, items);
            let resident = resident_bytes().saturating_sub(before) as f64 / items as f64;
            let accounted = memory.stats().accounted_bytes as f64 / items as f64;
            let lookup_ns = look_up(&mut memory, items);
            drop(memory);
            let [longest, second] = longest_inserts(config, items);
            println!(
                "| {items} | {replacement:?} | {lookup_ns:.0} | {insert_ns:.0} | {longest:.0}, {second:.0} | {resident:.1} | {accounted:.1} |"
            );
        }
    }
    println!(
        "\n| policy, 128 MiB full, values of 0 to 199 bytes replaced | ns an insert | bytes copied a byte inserted | live bytes | evictions |"
    );
    println!("|---|---|---|---|---|");
    Replacement::ALL.into_iter().for_each(churn);
}
