//! Compares each policy with its textbook form, without a memory tier.
//!
//! [`Cache`] is a minimal owner of a policy; [`textbook`] implements each policy with plain
//! vectors, as its paper describes it. Both run the same random accesses and removals (the first
//! also moves items), and must have the same hits and evictions.

mod textbook;

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use textbook::Textbook;

#[derive(Clone, Copy, Default)]
struct Slot {
    prev: Id,
    next: Id,
    marks: u8,
    key: u32,
}

#[derive(Default)]
struct Slots(Vec<Slot>);

impl Arena for Slots {
    fn prev(&self, id: Id) -> Id {
        self.0[id as usize].prev
    }
    fn set_prev(&mut self, id: Id, prev: Id) {
        self.0[id as usize].prev = prev;
    }
    fn next(&self, id: Id) -> Id {
        self.0[id as usize].next
    }
    fn set_next(&mut self, id: Id, next: Id) {
        self.0[id as usize].next = next;
    }
    fn marks(&self, id: Id) -> u8 {
        self.0[id as usize].marks
    }
    fn set_marks(&mut self, id: Id, marks: u8) {
        assert!(marks < 16, "four bits");
        self.0[id as usize].marks = marks;
    }
    fn hash(&self, id: Id) -> u32 {
        self.0[id as usize].key
    }
}

struct Cache {
    slots: Slots,
    held: HashMap<u32, Id>,
    policy: Box<dyn Policy<Slots>>,
    capacity: usize,
}

impl Cache {
    fn new(replacement: Replacement, capacity: usize) -> Self {
        Self {
            slots: Slots::default(),
            held: HashMap::new(),
            policy: policy(replacement),
            capacity,
        }
    }

    /// Returns whether it was a hit, and the evicted item.
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if let Some(&id) = self.held.get(&key) {
            self.policy.on_hit(&mut self.slots, id);
            return (true, vec![]);
        }
        self.policy.set_capacity(self.capacity, usize::MAX);
        self.policy.on_incoming(key);
        let mut evicted = vec![];
        if self.held.len() >= self.capacity && !self.policy.admits(key) {
            return (false, evicted);
        }
        while self.held.len() >= self.capacity {
            let id = self.policy.victim(&mut self.slots).expect("there are items");
            let victim = self.slots.hash(id);
            assert_eq!(self.held.remove(&victim), Some(id));
            evicted.push(victim);
        }
        let id = self.slots.0.len() as Id;
        self.slots.0.push(Slot { key, ..Slot::default() });
        self.held.insert(key, id);
        self.policy.on_insert(&mut self.slots, id);
        (false, evicted)
    }

    fn remove(&mut self, key: u32) {
        if let Some(id) = self.held.remove(&key) {
            self.policy.on_remove(&mut self.slots, id);
        }
    }

    fn relocate(&mut self, key: u32) {
        if let Some(id) = self.held.get_mut(&key) {
            let to = self.slots.0.len() as Id;
            let slot = self.slots.0[*id as usize];
            self.slots.0.push(slot);
            // A stale reference to the old location fails.
            self.slots.0[*id as usize] = Slot { prev: 1 << 30, next: 1 << 30, marks: 15, key: 0 };
            self.policy.on_move(&mut self.slots, *id, to);
            *id = to;
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Access(u32),
    Remove(u32),
    Relocate(u32),
}

/// Small keys are frequent, large ones rare.
fn steps(keys: u32) -> impl Strategy<Value = Vec<Step>> {
    let key = (0..keys, 0..keys).prop_map(move |(one, two)| one * two / keys.max(1));
    let step = (0..20u8, key).prop_map(|(what, key)| match what {
        0 => Step::Remove(key),
        1 => Step::Relocate(key),
        _ => Step::Access(key),
    });
    prop::collection::vec(step, 1..1500)
}

fn compare(replacement: Replacement, capacity: usize, steps: &[Step]) {
    let mut cache = Cache::new(replacement, capacity);
    let mut textbook = Textbook::new(replacement, capacity);
    for (at, &step) in steps.iter().enumerate() {
        match step {
            Step::Access(key) => {
                assert_eq!(
                    cache.access(key),
                    textbook.access(key),
                    "{replacement:?}, step {at}: {step:?}"
                );
            }
            Step::Remove(key) => {
                cache.remove(key);
                textbook.remove(key);
            }
            Step::Relocate(key) => cache.relocate(key),
        }
        assert!(cache.held.len() <= capacity);
    }
    // Every item is in exactly one queue: evicting all of them finds each once.
    for left in (0..cache.held.len()).rev() {
        let id = cache.policy.victim(&mut cache.slots).expect("one is left");
        assert!(cache.held.remove(&cache.slots.hash(id)).is_some());
        assert_eq!(cache.held.len(), left);
    }
    assert_eq!(cache.policy.victim(&mut cache.slots), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn every_policy_is_its_textbook(
        (steps, capacity) in (2u32..600).prop_flat_map(|keys| (steps(keys), 1usize..220)),
    ) {
        for replacement in Replacement::ALL {
            compare(replacement, capacity, &steps);
        }
    }
}
