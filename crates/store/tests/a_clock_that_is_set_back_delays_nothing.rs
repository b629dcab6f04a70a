//! The store uses the wall clock. If it is set back by an hour, this delays neither writes nor
//! their sync nor the retry after the disk was full.

use std::time::Duration;

use store::device::{Operation, carry_out};
use store::elastic::{Config, Elastic, Error, Position, Sync};
use store::{Faults, SimulatedDevice};

const BEGAN: Duration = Duration::from_secs(1_700_000_000);
const BACK: Duration = Duration::from_secs(3_600);
/// Longer than any interval of the store.
const PAUSE: Duration = Duration::from_secs(2);

struct Machine {
    device: SimulatedDevice,
    store: Elastic,
    now: Duration,
}

impl Machine {
    fn new(sync: Sync, room_bytes: Option<u64>) -> Self {
        let faults = Faults { room_bytes, ..Faults::default() };
        let device = SimulatedDevice::new(1, faults);
        let config = Config {
            memory_bytes: Elastic::MEMORY_BYTES_MIN,
            segment_bytes: 64 << 10,
            sync,
            ..Config::default()
        };
        let store = Elastic::open(config, &device, BEGAN).expect("it opens");
        Self { device, store, now: BEGAN }
    }

    /// Executes the pending commands of the store; returns whether one of them was a sync.
    fn work(&mut self) -> bool {
        let mut synced = false;
        self.store.step(self.now);
        while let Some(command) = self.store.poll_device(self.now) {
            synced |= matches!(command.operation, Operation::Sync);
            let completion = carry_out(&self.device, &command);
            self.store.complete(completion, self.now);
            self.store.step(self.now);
        }
        synced
    }

    fn put(&mut self, number: u64) -> Result<Position, Error> {
        let key = number.to_le_bytes();
        self.store.accepts_writes()?;
        self.store.load(&key, self.now);
        self.store.write(&key, &[7; 1_000], None, self.now).map(|written| written.position)
    }
}

#[test]
fn neither_a_write_nor_its_sync() {
    let mut machine = Machine::new(Sync::EverySecond, None);
    machine.put(1).expect("there is room");
    machine.now += PAUSE;
    assert!(machine.work(), "a sync is due after a second");
    let position = machine.put(2).expect("there is room");
    machine.now -= BACK;
    machine.work();
    machine.now += PAUSE;
    machine.work();
    assert!(machine.store.durable_up_to() >= position, "no sync before the clock has caught up");
}

#[test]
fn no_other_try_of_a_full_disk() {
    let mut machine = Machine::new(Sync::Always, Some(1 << 20));
    let mut number = 0;
    let refusal = loop {
        match machine.put(number) {
            Ok(_) => number += 1,
            Err(Error::Busy { .. }) => machine.now += PAUSE,
            Err(refusal) => break refusal,
        }
        machine.work();
        assert!(number < 10_000, "the disk is never full");
    };
    assert!(matches!(refusal, Error::Full { .. }), "{refusal}");
    machine.device.set_faults(Faults::default());
    machine.now -= BACK;
    machine.work();
    machine.now += PAUSE;
    machine.work();
    machine.put(number).expect("there is room again");
}
