//! The paper's Table 5 as the paper measured it, for `make bench-db`: one thread calls the store
//! and copies each value out, 50,000 of 4 KiB, one after the other.
//! `cargo run --release -p store --example elastic_table_5 -- DIR [bytes of memory ...]`.
//!
//! Prints a line for each memory: `bytes lookups-a-second Tmax Tmin Tavg read p95 ...`: times in
//! nanoseconds, how many of the 50,000 were read from the disk, and the 95th percentile of each
//! 1,000 in turn, as the paper's Figures 6 to 8 show it.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use store::FileDevice;
use store::device::carry_out;
use store::elastic::{Config, Elastic, Fetch, Load, Sync};

const ENTRIES: u64 = 50_000;
const VALUE_BYTES: usize = 4096;
/// Lookups of one percentile.
const TOGETHER: usize = 1_000;

fn main() {
    let mut words = std::env::args().skip(1);
    let directory = words.next().expect("a directory to work in");
    let device = FileDevice::open(Path::new(&directory)).unwrap();
    let config = Config { sync: Sync::Never, ..Config::default() };
    let mut store = Elastic::open(config, &device, now()).unwrap();
    fill(&mut store, &device);
    let mut times = vec![Duration::ZERO; ENTRIES as usize];
    for word in words {
        let memory_bytes: usize = word.parse().expect("bytes of memory");
        store.rescale(memory_bytes);
        while store.step(now()) {
            drain(&mut store, &device);
        }
        // The first pass fills memory, the second is measured.
        let mut read = 0;
        for _ in 0..2 {
            read = 0;
            for (number, time) in times.iter_mut().enumerate() {
                let key = (number as u64).to_be_bytes();
                let began = Instant::now();
                read += u64::from(lookup(&mut store, &device, &key));
                *time = began.elapsed();
            }
        }
        let sum: Duration = times.iter().sum();
        let nanos = |time: Option<&Duration>| time.map_or(0, Duration::as_nanos);
        println!(
            "{memory_bytes} {:.0} {} {} {} {read}{}",
            ENTRIES as f64 / sum.as_secs_f64(),
            nanos(times.iter().max()),
            nanos(times.iter().min()),
            sum.as_nanos() / u128::from(ENTRIES),
            percentiles(&mut times),
        );
    }
}

/// The 95th percentile of each [`TOGETHER`] lookups.
fn percentiles(times: &mut [Duration]) -> String {
    let of = |lookups: &mut [Duration]| {
        lookups.sort_unstable();
        format!(" {}", lookups[lookups.len() * 95 / 100 - 1].as_nanos())
    };
    times.chunks_mut(TOGETHER).map(of).collect()
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// Does what the store asks of its device until it asks nothing more.
fn drain(store: &mut Elastic, device: &FileDevice) {
    while let Some(command) = store.poll_device(now()) {
        store.complete(carry_out(device, &command), now());
    }
}

fn fill(store: &mut Elastic, device: &FileDevice) {
    for number in 0..ENTRIES {
        while store.accepts_writes().is_err() {
            drain(store, device);
        }
        let key = number.to_be_bytes();
        while let Load::Pending(_) = store.load(&key, now()) {
            drain(store, device);
        }
        store.write(&key, &[7; VALUE_BYTES], None, now()).unwrap();
    }
    store.flush();
    drain(store, device);
}

/// "Until a copy in memory of the content is made" (section 7.3); true if it was read from the
/// disk.
fn lookup(store: &mut Elastic, device: &FileDevice, key: &[u8]) -> bool {
    let mut copy = [0; VALUE_BYTES];
    let mut asked = None;
    loop {
        match store.fetch(key, now()) {
            Fetch::Present(record) => {
                copy.copy_from_slice(record.value);
                black_box(&copy);
                break;
            }
            Fetch::Pending(ticket) => asked = Some(ticket),
            other => panic!("{other:?}"),
        }
        drain(store, device);
    }
    let read = asked.is_some();
    asked.into_iter().for_each(|ticket| store.release(ticket));
    read
}
