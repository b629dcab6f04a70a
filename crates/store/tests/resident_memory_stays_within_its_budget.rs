//! Resident memory of this process, as the kernel reports it, compared with `bytes_max`. It is the
//! only test in its process.

use std::time::Duration;

use store::{Config, Memory, Replacement};

const NOW: Duration = Duration::ZERO;
const BUDGET: usize = 24 << 20;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second field is resident pages") * 4096
}

struct Load {
    memory: Memory,
    /// Resident memory before the memory tier was created.
    before: usize,
    value: Vec<u8>,
    number: u64,
    replacement: Replacement,
}

impl Load {
    /// Inserts `inserts` values of up to `value_bytes`; some keys repeat.
    fn insert(&mut self, inserts: usize, value_bytes: usize) {
        for _ in 0..inserts {
            self.number += 1;
            let mixed = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let key = if mixed >> 62 == 0 { self.number / 2 } else { self.number };
            let length = (mixed >> 20) as usize % (value_bytes + 1);
            self.memory
                .insert(key, &key.to_le_bytes(), &self.value[..length], None, NOW)
                .expect("there is room");
            // Huge pages make nothing resident that was not.
            if self.number.is_multiple_of(1_000) {
                self.memory.next_full().into_iter().for_each(store::Collapse::run);
            }
        }
    }

    /// Resident memory is within the budget plus a tenth and the documented base; the budget is
    /// used.
    fn check(&self, what: &str) {
        let stats = self.memory.stats();
        let budget = self.memory.config().bytes_max;
        let resident = resident_bytes().saturating_sub(self.before);
        let label =
            format!("{:?}, {what}: {resident} resident of {budget}, {stats:?}", self.replacement);
        assert!(resident <= budget / 10 * 11 + Memory::BASE_BYTES, "{label}");
        assert!(resident <= stats.accounted_bytes + Memory::BASE_BYTES + (256 << 10), "{label}");
        assert!(stats.accounted_bytes <= budget, "{label}");
        assert!(stats.accounted_bytes >= budget / 10 * 8, "the budget is not used: {label}");
        assert!(stats.live_bytes >= stats.accounted_bytes / 10 * 7, "wasted: {label}");
    }

    fn resize(&mut self, bytes_max: usize) {
        self.memory.resize(usize::MAX, bytes_max);
        while self.memory.step(256, NOW) {}
    }
}

#[test]
fn resident_memory_stays_within_its_budget() {
    for replacement in Replacement::ALL {
        let value = vec![7; 1 << 20];
        let before = resident_bytes();
        let config = Config { bytes_max: BUDGET, replacement, ..Config::default() };
        let memory = Memory::new(config, 1);
        let mut load = Load { memory, before, value, number: 0, replacement };
        load.insert(350_000, 128);
        load.check("values of up to 128 bytes");
        load.insert(10_000, 8_000);
        load.check("values up to 8,000 bytes now");
        load.insert(1_500, 100_000);
        load.check("and up to 100,000");
        load.insert(350_000, 100);
        load.check("and small again");
        load.resize(BUDGET / 4);
        load.check("a quarter of the budget");
        load.insert(50_000, 1_000);
        load.check("used for a while");
        load.resize(BUDGET);
        load.insert(50_000, 1_000);
        load.check("all of the budget again");
        load.memory.clear();
        while load.memory.step(256, NOW) {}
        let resident = resident_bytes().saturating_sub(load.before);
        assert!(resident <= Memory::BASE_BYTES, "{replacement:?}: {resident} after clearing");
    }
}
