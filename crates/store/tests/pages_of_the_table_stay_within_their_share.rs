//! Commands that request pages of the storage table faster than upkeep evicts them have to wait, so
//! that pages in memory do not exceed their share.

use std::path::Path;
use std::time::Duration;

use store::FileDevice;
use store::device::carry_out;
use store::elastic::{Config, Elastic, Load, Sync, Ticket};

const ENTRIES: u64 = 100_000;
/// Keys of one command.
const BATCH: u64 = 50;
/// Number of commands between two runs of upkeep.
const UPKEEP: u64 = 20;
const MEMORY_BYTES: usize = Elastic::MEMORY_BYTES_MIN;
/// Half of the mebibyte that remains for pages and entries.
const SHARE_BYTES: usize = 512 << 10;
const PAGE_BYTES: usize = 4096;
/// Pages in flight, and those that one command creates.
const BESIDE: usize = 64;
const NOW: Duration = Duration::from_secs(1_700_000_000);

struct Driven {
    store: Elastic,
    device: FileDevice,
    pages_most: usize,
}

impl Driven {
    fn pump(&mut self) {
        while let Some(command) = self.store.poll_device(NOW) {
            self.store.complete(carry_out(&self.device, &command), NOW);
            self.pages_most = self.pages_most.max(self.store.stats().table_pages.1);
        }
        while self.store.poll_loaded().is_some() {}
    }

    /// Runs a command that needs all these keys at once.
    fn command(&mut self, numbers: &[u64], writes: bool) {
        let keys: Vec<_> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let mut tickets: Vec<Ticket> = Vec::new();
        loop {
            let before = tickets.len();
            for key in &keys {
                if let Load::Pending(ticket) = self.store.load(key, NOW) {
                    tickets.push(ticket);
                }
            }
            if tickets.len() == before && (!writes || self.store.accepts_writes().is_ok()) {
                break;
            }
            self.pump();
        }
        for key in &keys {
            if writes {
                self.store.write(key, key, None, NOW).expect("written");
            } else {
                assert_eq!(self.store.read(key, NOW).expect("it is there").value, key);
            }
        }
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
        self.pump();
    }
}

#[test]
fn however_fast_commands_ask() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("table-pages");
    let _ = std::fs::remove_dir_all(&directory);
    let device = FileDevice::open(&directory).expect("opens");
    let config = Config { memory_bytes: MEMORY_BYTES, sync: Sync::Never, ..Config::default() };
    let store = Elastic::open(config, &device, NOW).expect("opens");
    let mut driven = Driven { store, device, pages_most: 0 };
    for batch in 0..ENTRIES / BATCH {
        let numbers: Vec<u64> = (batch * BATCH..(batch + 1) * BATCH).collect();
        driven.command(&numbers, true);
        if batch.is_multiple_of(UPKEEP) {
            driven.store.step(NOW);
        }
    }
    for batch in 0..200 {
        let scattered = (0..BATCH).map(|at| (batch * BATCH + at) * 7919 % ENTRIES);
        driven.command(&scattered.collect::<Vec<u64>>(), batch % 2 == 0);
    }
    let stats = driven.store.stats();
    let (pages, most) = (stats.table_pages.0, driven.pages_most);
    eprintln!("{most} of {pages} pages at most; {stats:?}");
    assert_eq!(stats.entries, ENTRIES);
    // Plus the pages that one command holds.
    let share = SHARE_BYTES / PAGE_BYTES + BATCH as usize + BESIDE;
    assert!(share < pages && most <= share, "{most} of {pages} pages were in memory, not {share}");
    std::fs::remove_dir_all(&directory).expect("removed");
}
