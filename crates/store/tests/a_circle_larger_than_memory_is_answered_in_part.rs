//! Entries asked for in a circle that is larger than memory: as many are answered from memory as
//! fit, not none.

use std::time::Duration;

use store::device::carry_out;
use store::elastic::{Config, Elastic, Fetch, Load};
use store::{Faults, SimulatedDevice};

const VALUE_BYTES: usize = 4096;
const NOW: Duration = Duration::from_secs(1_700_000_000);

struct Run {
    store: Elastic,
    device: SimulatedDevice,
    keys: u64,
}

impl Run {
    /// A store of `keys` entries with the least memory.
    fn new(keys: u64) -> Self {
        let device = SimulatedDevice::new(1, Faults::default());
        let memory_bytes = Elastic::MEMORY_BYTES_MIN;
        let config = Config { memory_bytes, ..Config::default() };
        let store = Elastic::open(config, &device, NOW).expect("opens");
        let mut run = Self { store, device, keys };
        for key in 0..keys {
            while run.store.accepts_writes().is_err() {
                run.drain();
            }
            let name = key.to_be_bytes();
            while let Load::Pending(_) = run.store.load(&name, NOW) {
                run.drain();
            }
            run.store.write(&name, &[key as u8; VALUE_BYTES], None, NOW).expect("written");
        }
        run.drain();
        run
    }

    fn drain(&mut self) {
        while let Some(command) = self.store.poll_device(NOW) {
            self.store.complete(carry_out(&self.device, &command), NOW);
        }
    }

    fn rescale(&mut self, memory_bytes: usize) {
        self.store.rescale(memory_bytes);
        while self.store.step(NOW) {
            self.drain();
        }
    }

    fn look_up(&mut self, key: u64) {
        let mut tickets = Vec::new();
        loop {
            match self.store.fetch(&key.to_be_bytes(), NOW) {
                Fetch::Present(record) => {
                    assert_eq!(record.value, [key as u8; VALUE_BYTES]);
                    break;
                }
                Fetch::Pending(ticket) => {
                    tickets.push(ticket);
                    self.drain();
                }
                other => panic!("{key}: {other:?}"),
            }
        }
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
    }

    /// The share of one circle of lookups that memory answers.
    fn circle(&mut self) -> f64 {
        let before = self.store.stats().hits;
        for key in 0..self.keys {
            self.look_up(key);
            self.store.step(NOW);
        }
        (self.store.stats().hits - before) as f64 / self.keys as f64
    }

    /// The part of the data for whose values there is memory.
    fn share(&self) -> f64 {
        let stats = self.store.stats();
        let fixed = self.store.advice().fixed_bytes;
        (stats.memory_bytes_max - fixed) as f64 / (self.keys as usize * VALUE_BYTES) as f64
    }
}

#[test]
fn as_in_table_5_of_the_paper() {
    let mut run = Run::new(50_000);
    run.rescale(32 << 20);
    (0..3).for_each(|_| assert!(run.circle() < 0.2));
    for memory_bytes in [100_000_000, 200_000_000] {
        run.rescale(memory_bytes);
        run.circle();
        let (hits, share) = (run.circle(), run.share());
        assert!(hits >= 0.9 * share, "{memory_bytes}: {hits}, there is memory for {share}");
        // Lookups that were the first of their keys count as well in what is advised.
        let advised = run.store.advice().hit_ratio(memory_bytes);
        assert!((0.6..1.1).contains(&(advised / hits)), "{memory_bytes}: {hits}, not {advised}");
    }
}

#[test]
fn from_the_beginning_and_in_the_long_run() {
    let mut run = Run::new(5_000);
    run.rescale(Elastic::MEMORY_BYTES_MIN + (4 << 20));
    let hits: Vec<f64> = (0..40).map(|_| run.circle()).collect();
    let share = run.share();
    assert!(hits[6..].iter().all(|&hits| hits >= 0.9 * share), "{hits:?} {share}");
}
