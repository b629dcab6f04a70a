//! Resident memory of the process, as the kernel reports it, while a store on real files holds
//! three times its budget, is read and overwritten, grows and shrinks.

use std::path::Path;
use std::time::Duration;

use store::FileDevice;
use store::device::carry_out;
use store::elastic::{Config, Elastic, Load};

const ENTRIES: u64 = 20_000;
const MIB: usize = 1 << 20;
/// The process without the store, and the threads' buffers.
const BESIDE: usize = 2 * MIB;
const NOW: Duration = Duration::from_secs(1_700_000_000);

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("readable");
    let pages: usize = statm.split(' ').nth(1).expect("two fields").parse().expect("a number");
    pages * 4096
}

struct Driven {
    store: Elastic,
    device: FileDevice,
    base: usize,
    most_over: usize,
}

impl Driven {
    fn pump(&mut self) {
        loop {
            let more = self.store.step(NOW);
            let Some(command) = self.store.poll_device(NOW) else {
                if more {
                    continue;
                }
                break;
            };
            self.store.complete(carry_out(&self.device, &command), NOW);
        }
        while self.store.poll_loaded().is_some() {}
    }

    fn check(&mut self) {
        // Free heap memory does not belong to the store. Its size varies by a few MiB between the
        // parts of long writes; `enroute db` trims it in the same way.
        #[cfg(target_env = "gnu")]
        // SAFETY: takes a number; the allocator's own locks keep other threads out.
        unsafe {
            libc::malloc_trim(0);
        }
        let resident = resident_bytes().saturating_sub(self.base);
        let budget = self.store.memory_bytes();
        self.most_over = self.most_over.max(resident.saturating_sub(budget));
        assert!(resident <= budget + BESIDE, "{resident} resident, {budget} allowed");
    }

    fn with_key(&mut self, number: u64, work: impl Fn(&mut Elastic, &[u8])) {
        let key = format!("key {number}").into_bytes();
        let mut tickets = Vec::new();
        while let Load::Pending(ticket) = self.store.load(&key, NOW) {
            tickets.push(ticket);
            self.pump();
        }
        work(&mut self.store, &key);
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
    }

    fn put(&mut self, number: u64) {
        while self.store.accepts_writes().is_err() {
            self.store.flush();
            self.pump();
        }
        self.with_key(number, |store, key| {
            store.write(key, &[number as u8; 4096], None, NOW).expect("written");
        });
        if number.is_multiple_of(64) {
            self.pump();
        }
        if number.is_multiple_of(1000) {
            self.check();
        }
    }

    fn read(&mut self, number: u64) {
        self.with_key(number, |store, key| {
            let value = store.read(key, NOW).expect("it is there").value;
            assert!(value.len() == 4096 && value[17] == number as u8);
        });
        if number.is_multiple_of(1000) {
            self.check();
        }
    }
}

#[test]
fn whatever_is_done() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elastic-budget");
    let _ = std::fs::remove_dir_all(&directory);
    let device = FileDevice::open(&directory).expect("opens");
    let base = resident_bytes();
    let config = Config { memory_bytes: 24 * MIB, ..Config::default() };
    let store = Elastic::open(config, &device, NOW).expect("opens");
    let mut driven = Driven { store, device, base, most_over: 0 };
    for number in 0..ENTRIES {
        driven.put(number);
    }
    for memory_bytes in [24 * MIB, 96 * MIB, 16 * MIB] {
        driven.store.rescale(memory_bytes);
        driven.pump();
        driven.check();
        for step in 0..ENTRIES / 2 {
            driven.read(step * 7919 % ENTRIES);
        }
        driven.pump();
        driven.check();
    }
    for step in 0..ENTRIES / 4 {
        driven.put(step * 7919 % ENTRIES);
    }
    let stats = driven.store.stats();
    eprintln!("at most {} bytes above the budget; {stats:?}", driven.most_over);
    assert_eq!(stats.entries, ENTRIES);
    std::fs::remove_dir_all(&directory).expect("removed");
}
