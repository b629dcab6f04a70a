//! Cost of the elastic store, in process: `cargo run --release -p store --example elastic_cost --
//! DIR [entries [threads [all|restart|overwrite [value bytes [times overwritten]]]]]`.
//!
//! Loads entries (of 4 KiB), restarts, warms, overwrites and shrinks; `restart` ends after the
//! restart, `overwrite` omits restarting and warming. `elastic_lookups` measures lookups.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use store::FileDevice;
use store::device::{Completion, DeviceCommand, carry_out};
use store::elastic::{Config, Elastic, Load, Sync, Ticket};

/// Threads that carry out commands.
struct Threads {
    queue: Arc<(Mutex<VecDeque<DeviceCommand>>, Condvar)>,
    done: mpsc::Receiver<Completion>,
    under_way: usize,
}

impl Threads {
    fn new(device: &Arc<FileDevice>, count: usize) -> Self {
        let queue = Arc::new((Mutex::new(VecDeque::<DeviceCommand>::new()), Condvar::new()));
        let (sender, done) = mpsc::channel();
        for _ in 0..count {
            let (queue, device, sender) = (queue.clone(), device.clone(), sender.clone());
            std::thread::spawn(move || {
                loop {
                    let command = {
                        let (commands, changed) = &*queue;
                        let mut commands = commands.lock().unwrap();
                        loop {
                            match commands.pop_front() {
                                Some(command) => break command,
                                None => commands = changed.wait(commands).unwrap(),
                            }
                        }
                    };
                    if sender.send(carry_out(&*device, &command)).is_err() {
                        return;
                    }
                }
            });
        }
        Self { queue, done, under_way: 0 }
    }

    fn pump(&mut self, store: &mut Elastic, wait: bool) {
        let mut wait = wait;
        loop {
            while let Some(command) = store.poll_device(now()) {
                self.queue.0.lock().unwrap().push_back(command);
                self.queue.1.notify_one();
                self.under_way += 1;
            }
            let completion = if wait && self.under_way > 0 {
                self.done.recv_timeout(Duration::from_millis(20)).ok()
            } else {
                self.done.try_recv().ok()
            };
            let Some(completion) = completion else { return };
            self.under_way -= 1;
            wait = false;
            store.complete(completion, now());
        }
    }
}

/// Processor time of this thread: what a shared machine cannot spoil.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn main() {
    let directory = std::env::args().nth(1).expect("a directory to work in");
    let entries: u64 = std::env::args().nth(2).map_or(100_000, |n| n.parse().unwrap());
    let directory = Path::new(&directory);
    let threads: usize = std::env::args().nth(3).map_or(8, |n| n.parse().unwrap());
    let value_bytes: usize = std::env::args().nth(5).map_or(4096, |n| n.parse().unwrap());
    let all = entries as usize * (value_bytes + 304) + (64 << 20);
    let config = Config { memory_bytes: all, sync: Sync::EverySecond, ..Config::default() };
    let device = Arc::new(FileDevice::open(directory).unwrap());
    println!("direct: {}", device.is_direct());
    let (mut store, mut pool) = fill(&config, &device, entries, threads, &vec![7; value_bytes]);

    let until = std::env::args().nth(4).unwrap_or_default();
    if until != "overwrite" {
        drop((store, pool));
        let start = Instant::now();
        store = Elastic::open(config.clone(), &*device, now()).unwrap();
        assert_eq!(store.len(), entries);
        println!("restart: {:?}, {:?}", start.elapsed(), store.recovery());
        let stats = store.stats();
        println!("index: {:.1} bytes an entry", stats.table_bytes as f64 / entries as f64);
        println!("files: {:.3} of live", stats.file_bytes as f64 / stats.live_bytes as f64);

        pool = Threads::new(&device, threads);
        let start = Instant::now();
        read_cold(&mut store, &mut pool, 1, 1, |at| at);
        println!("first lookup: {:?}", start.elapsed());
        if until == "restart" {
            return;
        }
        let start = Instant::now();
        read_cold(&mut store, &mut pool, entries, threads, |at| at);
        println!("warmed in order: {:?}", start.elapsed());
    }
    println!("in memory: {}", store.stats().entries_in_memory);
    let times: u64 = std::env::args().nth(6).map_or(1, |n| n.parse().unwrap());
    overwrites(&mut store, &mut pool, entries, times, &vec![9; value_bytes]);

    store.rescale(Elastic::MEMORY_BYTES_MIN);
    let (mut longest, start) = (Duration::ZERO, Instant::now());
    loop {
        let step = processor_time();
        let more = store.step(now());
        longest = longest.max(processor_time() - step);
        pool.pump(&mut store, false);
        if !more && pool.under_way == 0 {
            break;
        }
    }
    println!("shrunk in {:?}, longest step {longest:?}", start.elapsed());
}

fn fill(
    config: &Config,
    device: &Arc<FileDevice>,
    entries: u64,
    threads: usize,
    value: &[u8],
) -> (Elastic, Threads) {
    let mut store = Elastic::open(config.clone(), &**device, now()).unwrap();
    let mut pool = Threads::new(device, threads);
    let start = Instant::now();
    for number in 0..entries {
        while store.accepts_writes().is_err() {
            pool.pump(&mut store, true);
        }
        write(&mut store, &mut pool, &key(number), value);
        if number % 16 == 0 {
            pool.pump(&mut store, false);
        }
    }
    let position = store.flush();
    while store.durable_up_to() < position {
        pool.pump(&mut store, true);
    }
    println!("filled: {:.0} writes/s", entries as f64 / start.elapsed().as_secs_f64());
    (store, pool)
}

/// Waits for records first where it has to: at a million keys two of one hash are likely, and full
/// memory keeps out what was just written.
fn write(store: &mut Elastic, pool: &mut Threads, key: &[u8], value: &[u8]) {
    let mut tickets = Vec::new();
    while let Load::Pending(ticket) = store.load(key, now()) {
        tickets.push(ticket);
        pool.pump(store, true);
    }
    store.write(key, value, None, now()).unwrap();
    tickets.into_iter().for_each(|ticket| store.release(ticket));
}

fn overwrites(store: &mut Elastic, pool: &mut Threads, entries: u64, times: u64, value: &[u8]) {
    let mut random = SplitMix64::seed_from_u64(99);
    let (start, used) = (Instant::now(), processor_time());
    let (mut most, mut longest) = (0.0f64, Duration::ZERO);
    let writes = entries * times;
    for number in 0..writes {
        while store.accepts_writes().is_err() {
            pool.pump(store, true);
        }
        let key = key(random.next_u64() % entries);
        let began = processor_time();
        write(store, pool, &key, value);
        if number % 16 == 0 {
            pool.pump(store, false);
            store.step(now());
        }
        longest = longest.max(processor_time() - began);
        if number % 1000 == 0 {
            let stats = store.stats();
            most = most.max(stats.file_bytes as f64 / stats.live_bytes as f64);
        }
    }
    let (stats, used) = (store.stats(), processor_time() - used);
    println!(
        "overwritten: {:.0} writes/s, {:?} of processor time each, files at most {most:.3} of live, copied {:.2} for each written, longest turn {longest:?} of processor time",
        writes as f64 / start.elapsed().as_secs_f64(),
        used / writes as u32,
        stats.compacted_bytes as f64 / stats.written_bytes as f64,
    );
}

/// Looks up `count` keys, as many under way as there are threads.
fn read_cold(
    store: &mut Elastic,
    pool: &mut Threads,
    count: u64,
    threads: usize,
    mut pick: impl FnMut(u64) -> u64,
) {
    let mut waiting: Vec<(Ticket, [u8; 16])> = Vec::new();
    let mut begun = 0;
    while begun < count || !waiting.is_empty() {
        while begun < count && waiting.len() < threads * 2 {
            let key = key(pick(begun));
            begun += 1;
            match store.load_to_read(&key, now()) {
                Load::Present => {}
                Load::Pending(ticket) => waiting.push((ticket, key)),
                other => panic!("{other:?}"),
            }
        }
        pool.pump(store, waiting.len() >= threads * 2 || begun == count);
        while let Some(ticket) = store.poll_loaded() {
            let at = waiting.iter().position(|(other, _)| *other == ticket).unwrap();
            let (_, key) = waiting.swap_remove(at);
            assert!(store.read(&key, now()).is_some());
            store.release(ticket);
        }
    }
}
