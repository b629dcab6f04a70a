//! However a disk became full: writes fail with a specific error, existing entries are served, and
//! removals free space and never fail for lack of space.

use std::collections::BTreeMap;
use std::time::Duration;

use store::device::carry_out;
use store::elastic::{Config, Elastic, Error, Load};
use store::{Faults, SimulatedDevice};

const SEGMENT_BYTES: u64 = 64 << 10;
/// Number of device operations for one command after which the store counts as stuck.
const PATIENCE: usize = 1_000;

struct Disk {
    store: Elastic,
    device: SimulatedDevice,
    now: Duration,
    random: u64,
    map: BTreeMap<u64, usize>,
    value_bytes: usize,
    segments: u64,
}

impl Disk {
    fn new(segments: u64, value_bytes: usize) -> Self {
        let room_bytes = Some(4096 + segments * SEGMENT_BYTES);
        let device = SimulatedDevice::new(1, Faults { room_bytes, ..Faults::default() });
        let config = Config { segment_bytes: SEGMENT_BYTES, ..Config::default() };
        let now = Duration::from_secs(1_700_000_000);
        let store = Elastic::open(config, &device, now).expect("opens");
        Self { store, device, now, random: 1, map: BTreeMap::new(), value_bytes, segments }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % end
    }

    fn pump(&mut self) {
        self.now += Duration::from_millis(60);
        for _ in 0..10_000 {
            let more = self.store.step(self.now);
            match self.store.poll_device(self.now) {
                Some(command) => {
                    self.store.complete(carry_out(&self.device, &command), self.now);
                }
                None if !more => return,
                None => {}
            }
        }
        panic!("the store does not become idle: {:?}", self.store.stats());
    }

    /// Applies `work` to a key, waiting while the disk lags.
    fn patiently(
        &mut self,
        number: u64,
        work: impl Fn(&mut Elastic, &[u8], Duration) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let key = number.to_be_bytes();
        for _ in 0..PATIENCE {
            let mut tickets = Vec::new();
            while let Load::Pending(ticket) = self.store.load(&key, self.now) {
                tickets.push(ticket);
                self.pump();
            }
            let done = work(&mut self.store, &key, self.now);
            tickets.into_iter().for_each(|ticket| self.store.release(ticket));
            match done {
                Err(Error::Busy { .. }) => self.pump(),
                done => return done,
            }
        }
        panic!("key {number} waits forever: {:?}", self.store.stats());
    }

    fn put(&mut self, number: u64) -> Result<(), Error> {
        let bytes = self.value_bytes;
        self.patiently(number, |store, key, now| {
            store.accepts_writes()?;
            store.write(key, &vec![number as u8; bytes], None, now).map(|_| ())
        })?;
        self.map.insert(number, bytes);
        if self.below(64) == 0 {
            self.pump();
        }
        Ok(())
    }

    /// Removes a key; returns whether it had to be retried for lack of space.
    fn remove(&mut self, number: u64) -> bool {
        let removal = |store: &mut Elastic, key: &[u8], now| {
            store.remove(key, now).map(|there| assert!(there.is_some()))
        };
        for attempt in 0..PATIENCE {
            match self.patiently(number, removal) {
                Ok(()) => {
                    self.map.remove(&number);
                    return attempt > 0;
                }
                Err(Error::Full { .. }) => self.pump(),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("{} keys left, and none can be removed: {:?}", self.map.len(), self.store.stats());
    }

    /// Stores keys from `next` on until the disk is full; returns their number.
    fn fill(&mut self, next: u64) -> u64 {
        for number in next..10_000_000 {
            match self.put(number) {
                Ok(()) => {}
                Err(Error::Full { .. }) => return number - next,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("never full");
    }

    fn check(&mut self) {
        let expected: Vec<(u64, usize)> = self.map.iter().map(|(k, v)| (*k, *v)).collect();
        for (number, bytes) in expected {
            self.patiently(number, |store, key, now| {
                let value = store.read(key, now).expect("it is there").value;
                assert!(value.len() == bytes && value.iter().all(|&byte| byte == number as u8));
                Ok(())
            })
            .expect("read");
        }
        assert_eq!(self.store.len(), self.map.len() as u64);
    }

    /// The fraction of the disk that is live data.
    fn used(&self) -> f64 {
        self.store.stats().live_bytes as f64 / (self.segments * SEGMENT_BYTES) as f64
    }
}

#[test]
fn small_entries_go_in_any_order() {
    for segments in [24, 80] {
        let mut disk = Disk::new(segments, 8);
        let count = disk.fill(0);
        disk.check();
        assert!(disk.put(count).is_err());
        let mut numbers: Vec<u64> = (0..count).collect();
        let mut again = 0;
        for left in (1..=numbers.len()).rev() {
            let at = disk.below(left as u64) as usize;
            let number = numbers.swap_remove(at);
            again += usize::from(disk.remove(number));
            if numbers.len() == count as usize / 2 {
                disk.check();
                let accepted = (0..PATIENCE).any(|_| {
                    disk.pump();
                    disk.put(count).is_ok()
                });
                assert!(
                    accepted,
                    "half is removed, and there is no room: {:?}",
                    disk.store.stats()
                );
                disk.remove(count);
            }
        }
        assert_eq!(disk.store.len(), 0);
        eprintln!("{segments} segments: {count} entries; {again} removals waited");
        assert!(disk.fill(0) > count * 9 / 10, "not all space was reclaimed");
    }
}

#[test]
fn what_compaction_can_win_is_won_before_writes_are_refused() {
    let mut disk = Disk::new(80, 1_000);
    let count = disk.fill(0);
    let full = disk.used();
    for number in (0..count).step_by(2) {
        disk.remove(number);
    }
    let more = disk.fill(count);
    eprintln!("{full:.2} of the disk live, and {:.2} after half was replaced", disk.used());
    assert!(more > count / 3, "{more} came in where {} went", count / 2);
    disk.check();
}

#[test]
fn a_disk_three_quarters_full_is_overwritten_without_end() {
    let mut disk = Disk::new(80, 1_000);
    let count = disk.fill(0) * 4 / 5;
    for number in count..disk.map.len() as u64 {
        disk.remove(number);
    }
    for _ in 0..5 * count {
        let number = disk.below(count);
        disk.put(number).expect("there is room for an entry that replaces one");
    }
    let stats = disk.store.stats();
    let amplification = stats.compacted_bytes as f64 / stats.written_bytes as f64;
    eprintln!("{:.2} of the disk live; {amplification:.2} copied for each written", disk.used());
    disk.check();
}

#[test]
fn everything_can_be_dropped_at_once() {
    let mut disk = Disk::new(24, 1_000);
    let count = disk.fill(0);
    disk.store.clear(disk.now).expect("there is room for that");
    disk.map.clear();
    disk.pump();
    assert!(disk.fill(0) > count * 9 / 10, "not all space was reclaimed");
    disk.check();
}
