//! Lookups of the elastic store, in process, for `make bench-db`:
//! `cargo run --release -p store --example elastic_lookups -- DIR [entries] [rounds]`.
//!
//! Four stores, as a database has. Prints, as `name value` in lookups a second, medians of rounds:
//! - `in-memory`, by one thread's processor time, sixteen keys known together; `copied`, with every
//!   value copied out; `one-by-one`, no key known before its turn;
//! - `cold`, by eight threads that carry out what their own lookups ask for, with next to nothing
//!   in memory but the index; `cold-bare`, as many threads reading 4 KiB at random places of the
//!   same files, in turn with those; `cold-bare-two` twice that, as a record of such a value lies
//!   across two pages; `cold-in-memory`, the part of the cold lookups that read nothing;
//! - the same four as `cold-without-index…`, with no room for the index either.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use store::FileDevice;
use store::device::carry_out;
use store::elastic::{Config, Elastic, Fetch, Load, Sync};

const VALUE_BYTES: usize = 4096;
const STORES: u64 = 4;
const THREADS: u64 = 8;
/// Lookups that are known at once, as of a client's pipeline.
const TOGETHER: usize = 16;
/// Of an entry, at most.
const INDEX_BYTES: usize = 24;
/// Of one thread in one round.
const COLD_LOOKUPS: u64 = 4_000;

struct Shard {
    store: Mutex<Elastic>,
    device: FileDevice,
}

fn main() {
    let mut words = std::env::args().skip(1);
    let directory = words.next().expect("a directory to work in");
    let mut number = |default| words.next().map_or(default, |word| word.parse().expect("a number"));
    let (entries, rounds) = (number(100_000), number(3));
    let directory = Path::new(&directory);
    let shards: Vec<Shard> =
        (0..STORES).map(|index| fill(&directory.join(index.to_string()), index, entries)).collect();
    for (name, together, copies) in
        [("in-memory", TOGETHER, false), ("copied", TOGETHER, true), ("one-by-one", 1, false)]
    {
        let rates = (0..rounds).map(|round| in_memory(&shards, entries, together, copies, round));
        println!("{name} {:.0}", median(rates.collect()));
    }
    for (name, index_bytes) in [("cold", INDEX_BYTES), ("cold-without-index", 0)] {
        shards.iter().for_each(|shard| shrink(shard, (entries / STORES) as usize * index_bytes));
        let files = files(directory);
        let (mut cold, mut bare, mut bare_two) = (Vec::new(), Vec::new(), Vec::new());
        let in_memory = AtomicU64::new(0);
        for round in 0..rounds {
            let lookup = |random: &mut SplitMix64| {
                in_memory.fetch_add(u64::from(cold_lookup(&shards, entries, random)), Relaxed);
            };
            cold.push(by_threads(lookup, round));
            bare.push(by_threads(|random| bare_read(&files, 1, random), round));
            bare_two.push(by_threads(|random| bare_read(&files, 2, random), round));
        }
        println!("{name} {:.0}\n{name}-bare {:.0}", median(cold), median(bare));
        println!("{name}-bare-two {:.0}", median(bare_two));
        let lookups = rounds * THREADS * COLD_LOOKUPS;
        println!("{name}-in-memory {:.4}", in_memory.into_inner() as f64 / lookups as f64);
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// Processor time of this thread: what a shared machine cannot spoil.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Does what the store asks of its device until it asks nothing more.
fn drain(store: &mut Elastic, device: &FileDevice) {
    while let Some(command) = store.poll_device(now()) {
        store.complete(carry_out(device, &command), now());
    }
}

/// A store with every fourth entry, all of them in memory.
fn fill(directory: &Path, index: u64, entries: u64) -> Shard {
    let memory_bytes = (entries / STORES + 1) as usize * 4500 + (64 << 20);
    let config = Config { memory_bytes, sync: Sync::Never, ..Config::default() };
    let device = FileDevice::open(directory).unwrap();
    let mut store = Elastic::open(config, &device, now()).unwrap();
    for number in (index..entries).step_by(STORES as usize) {
        while store.accepts_writes().is_err() {
            drain(&mut store, &device);
        }
        while let Load::Pending(_) = store.load(&key(number), now()) {
            drain(&mut store, &device);
        }
        store.write(&key(number), &[7; VALUE_BYTES], None, now()).unwrap();
    }
    store.flush();
    drain(&mut store, &device);
    Shard { store: Mutex::new(store), device }
}

/// Data of `together` lookups are fetched from memory for all of them first, as a database does.
fn in_memory(shards: &[Shard], entries: u64, together: usize, copies: bool, round: u64) -> f64 {
    let count = 1_000_000;
    let mut random = SplitMix64::seed_from_u64(88_172_645_463_325_252 + round);
    let numbers: Vec<u64> = (0..count).map(|_| random.next_u64() % entries).collect();
    let mut stores: Vec<_> = shards.iter().map(|shard| shard.store.lock().unwrap()).collect();
    let (mut sum, mut copy) = (0, vec![0; VALUE_BYTES]);
    let (at, start) = (now(), processor_time());
    let mut hashes = Vec::with_capacity(together);
    for numbers in numbers.chunks(together) {
        let of = |number: u64| (number % STORES) as usize;
        if together > 1 {
            let prefetch = |&number| stores[of(number)].prefetch(&key(number), false);
            hashes.clear();
            hashes.extend(numbers.iter().map(prefetch));
            for (&number, &hash) in numbers.iter().zip(&hashes) {
                stores[of(number)].prefetch_item(hash);
            }
        }
        for &number in numbers {
            let found = stores[of(number)].fetch(&key(number), at);
            let Fetch::Present(record) = found else { panic!("not in memory: {found:?}") };
            sum += usize::from(record.value[number as usize % VALUE_BYTES]);
            if copies {
                copy.copy_from_slice(record.value);
            }
        }
    }
    let rate = f64::from(count) / (processor_time() - start).as_secs_f64();
    assert_eq!((sum, copy[0]), (7 * count as usize, if copies { 7 } else { 0 }));
    rate
}

/// Leaves next to nothing in memory but `index_bytes` more.
fn shrink(shard: &Shard, index_bytes: usize) {
    let mut store = shard.store.lock().unwrap();
    store.rescale(Elastic::MEMORY_BYTES_MIN + index_bytes);
    while store.step(now()) {
        drain(&mut store, &shard.device);
    }
}

fn by_threads(work: impl Fn(&mut SplitMix64) + std::marker::Sync, round: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || {
                let mut random = SplitMix64::seed_from_u64((thread + 1) * 7919 + round * 104_729);
                (0..COLD_LOOKUPS).for_each(|_| work(&mut random));
            });
        }
    });
    (THREADS * COLD_LOOKUPS) as f64 / start.elapsed().as_secs_f64()
}

/// True if the entry was in memory.
fn cold_lookup(shards: &[Shard], entries: u64, random: &mut SplitMix64) -> bool {
    let number = random.next_u64() % entries;
    let Shard { store, device } = &shards[(number % STORES) as usize];
    let (key, mut tickets) = (key(number), Vec::new());
    let mut held = store.lock().unwrap();
    loop {
        match held.fetch(&key, now()) {
            Fetch::Present(record) => {
                assert_eq!(record.value.len(), VALUE_BYTES);
                break;
            }
            Fetch::Pending(ticket) => tickets.push(ticket),
            other => panic!("{other:?}"),
        }
        let mut nothing = true;
        while let Some(command) = held.poll_device(now()) {
            drop(held);
            let completion = carry_out(device, &command);
            held = store.lock().unwrap();
            held.complete(completion, now());
            nothing = false;
        }
        if nothing {
            // Another thread reads it.
            drop(held);
            std::thread::yield_now();
            held = store.lock().unwrap();
        }
    }
    let in_memory = tickets.is_empty();
    tickets.into_iter().for_each(|ticket| held.release(ticket));
    in_memory
}

/// Segments written to the end. Of those made ahead the file system knows that they are zeroes, and
/// does not ask the disk.
fn files(directory: &Path) -> Vec<(File, u64)> {
    let directories = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let paths = directories.flat_map(|path| std::fs::read_dir(path).unwrap());
    let logs = paths.map(|entry| entry.unwrap().path());
    logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| {
            let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
            let mut options = std::fs::OpenOptions::new();
            let file = options.read(true).custom_flags(direct).open(path).unwrap();
            let pages = file.metadata().unwrap().len() / VALUE_BYTES as u64;
            (file, pages)
        })
        .filter(|(file, pages)| {
            with_pages(1, |page| {
                file.read_exact_at(page, (pages - 1) * VALUE_BYTES as u64).unwrap();
                page.iter().any(|byte| *byte != 0)
            })
        })
        .collect()
}

/// Reads `pages_read` pages of one file at a random offset.
fn bare_read(files: &[(File, u64)], pages_read: usize, random: &mut SplitMix64) {
    let (file, pages) = &files[random.next_u64() as usize % files.len()];
    let page = random.next_u64() % (pages - pages_read as u64 + 1);
    with_pages(pages_read, |target| {
        file.read_exact_at(target, page * VALUE_BYTES as u64).unwrap();
    });
}

/// Lends memory as the disk wants it.
fn with_pages<R>(count: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize((count + 1) * VALUE_BYTES, 0);
        let start = buffer.as_ptr().align_offset(VALUE_BYTES);
        work(&mut buffer[start..start + count * VALUE_BYTES])
    })
}
