//! Restarts of a test's store, and what it holds after them.

use store::elastic::Elastic;
use store::{Faults, SimulatedDevice};

use super::{Entry, Map, Run, apply, config, key, visible};

impl Run {
    /// Restarts the machine and the store, with further crashes during recovery, and checks that
    /// the content is that of some moment at or after the last durable position.
    pub fn restart(&mut self, faults: Faults, crash_in_recovery: bool) {
        let mut crash_at = crash_in_recovery.then(|| 1 + self.random.below(12));
        let config = config(&mut self.random);
        loop {
            self.device.restart(Faults { crash_at: crash_at.take(), ..Faults::default() });
            match Elastic::open(config.clone(), &self.device, self.now) {
                Ok(store) if !self.device.has_crashed() => break self.store = store,
                Err(error) if !self.device.has_crashed() => panic!("{error}"),
                _ => {}
            }
        }
        self.in_flight.clear();
        self.waiting.clear();
        let held = self.contents();
        let mut expected = self.safe.clone();
        let mut found = visible(&expected, self.now) == held;
        let mut kept = if found { Some(expected.clone()) } else { None };
        for (_, done) in &self.since {
            apply(&mut expected, done);
            if visible(&expected, self.now) == held {
                found = true;
                kept = Some(expected.clone());
            }
        }
        assert!(found, "{}", self.difference(&held));
        self.map = kept.expect("found");
        self.safe = self.map.clone();
        self.since.clear();
        self.device.set_faults(faults);
    }

    /// Goes on with the store on another device, which contains `map`.
    pub fn continue_on(&mut self, device: &SimulatedDevice, store: Elastic, map: &Map) {
        (self.device, self.store) = (device.clone(), store);
        (self.map, self.safe) = (map.clone(), map.clone());
        self.in_flight.clear();
        self.waiting.clear();
        self.since.clear();
    }

    fn difference(&self, held: &Map) -> String {
        let mut text = String::from("the store holds no state it was ever promised to be in:\n");
        for key in (0..self.keys).map(key) {
            let name = String::from_utf8_lossy(&key);
            let short = |entry: Option<&Entry>| {
                entry.map(|(v, at)| (u64::from_le_bytes(v[..8].try_into().unwrap()), v.len(), *at))
            };
            let (a, b, c) = (held.get(&key), self.safe.get(&key), self.map.get(&key));
            if a != b || a != c {
                text += &format!(
                    "{name}: held {:?} safe {:?} last {:?}\n",
                    short(a),
                    short(b),
                    short(c)
                );
            }
        }
        text
    }
}
