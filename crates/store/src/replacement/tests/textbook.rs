//! Each policy in its textbook form, with vectors and linear searches.
//!
//! In every vector the next item to evict comes first.

use std::collections::VecDeque;

use super::super::sketch::Sketch;
use crate::config::Replacement;

pub(super) struct Textbook {
    policy: Form,
    capacity: usize,
}

enum Form {
    Fifo(Vec<u32>),
    Lru(Vec<u32>),
    /// The ring of frames, each with its reference bit, and the position of the hand.
    Clock(Vec<(u32, bool)>, usize),
    /// Items with their visited bits, and the position of the hand.
    Sieve(Vec<(u32, bool)>, Option<usize>),
    S3Fifo(S3Fifo),
    WTinyLfu(WTinyLfu),
}

impl Textbook {
    pub(super) fn new(replacement: Replacement, capacity: usize) -> Self {
        let policy = match replacement {
            Replacement::Fifo => Form::Fifo(vec![]),
            Replacement::Lru => Form::Lru(vec![]),
            Replacement::Clock => Form::Clock(vec![], 0),
            // With so few accesses Hull has no reason not to be SIEVE.
            Replacement::Sieve | Replacement::Hull => Form::Sieve(vec![], None),
            Replacement::S3Fifo => Form::S3Fifo(S3Fifo::default()),
            Replacement::WTinyLfu => Form::WTinyLfu(WTinyLfu::default()),
        };
        Self { policy, capacity }
    }

    pub(super) fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        let capacity = self.capacity;
        match &mut self.policy {
            Form::Fifo(queue) => {
                if queue.contains(&key) {
                    return (true, vec![]);
                }
                let evicted = evict_first(queue, capacity);
                queue.push(key);
                (false, evicted)
            }
            Form::Lru(queue) => {
                let hit = take(queue, key);
                let evicted = if hit { vec![] } else { evict_first(queue, capacity) };
                queue.push(key);
                (hit, evicted)
            }
            Form::Clock(frames, hand) => clock(frames, hand, capacity, key),
            Form::Sieve(queue, hand) => sieve(queue, hand, capacity, key),
            Form::S3Fifo(queues) => queues.access(capacity, key),
            Form::WTinyLfu(queues) => queues.access(capacity, key),
        }
    }

    pub(super) fn remove(&mut self, key: u32) {
        match &mut self.policy {
            Form::Fifo(queue) | Form::Lru(queue) => {
                take(queue, key);
            }
            Form::Clock(frames, hand) => {
                if let Some(at) = frames.iter().position(|frame| frame.0 == key) {
                    frames.remove(at);
                    *hand -= usize::from(at < *hand);
                }
            }
            Form::Sieve(queue, hand) => {
                if let Some(at) = queue.iter().position(|item| item.0 == key) {
                    queue.remove(at);
                    // If the hand pointed to the removed item, it moves to the neighbour.
                    *hand = hand
                        .map(|hand| hand - usize::from(at < hand))
                        .filter(|&hand| hand < queue.len());
                }
            }
            Form::S3Fifo(queues) => {
                queues.small.retain(|item| item.0 != key);
                queues.main.retain(|item| item.0 != key);
            }
            Form::WTinyLfu(queues) => {
                take(&mut queues.window, key);
                take(&mut queues.probation, key);
                take(&mut queues.protected, key);
            }
        }
    }
}

fn take(queue: &mut Vec<u32>, key: u32) -> bool {
    let at = queue.iter().position(|&other| other == key);
    at.map(|at| queue.remove(at)).is_some()
}

fn evict_first(queue: &mut Vec<u32>, capacity: usize) -> Vec<u32> {
    if queue.len() < capacity { vec![] } else { vec![queue.remove(0)] }
}

fn clock(
    frames: &mut Vec<(u32, bool)>,
    hand: &mut usize,
    capacity: usize,
    key: u32,
) -> (bool, Vec<u32>) {
    if let Some(frame) = frames.iter_mut().find(|frame| frame.0 == key) {
        frame.1 = true;
        return (true, vec![]);
    }
    if frames.len() < capacity {
        // A ring that is not full grows directly after the hand.
        frames.insert(*hand, (key, false));
        *hand += 1;
        return (false, vec![]);
    }
    loop {
        *hand %= frames.len();
        if !frames[*hand].1 {
            let victim = std::mem::replace(&mut frames[*hand], (key, false)).0;
            *hand += 1;
            return (false, vec![victim]);
        }
        frames[*hand].1 = false;
        *hand += 1;
    }
}

fn sieve(
    queue: &mut Vec<(u32, bool)>,
    hand: &mut Option<usize>,
    capacity: usize,
    key: u32,
) -> (bool, Vec<u32>) {
    if let Some(item) = queue.iter_mut().find(|item| item.0 == key) {
        item.1 = true;
        return (true, vec![]);
    }
    let mut evicted = vec![];
    if queue.len() == capacity {
        let mut at = hand.unwrap_or(0);
        while queue[at].1 {
            queue[at].1 = false;
            at = (at + 1) % queue.len();
        }
        evicted.push(queue.remove(at).0);
        // Continues with the item before it, towards the head; after the head, with the tail.
        *hand = (at < queue.len()).then_some(at);
    }
    queue.push((key, false));
    (false, evicted)
}

#[derive(Default)]
struct S3Fifo {
    small: VecDeque<(u32, u8)>,
    main: VecDeque<(u32, u8)>,
    /// The latest evictions from the small queue; `None` for those that were inserted again.
    ghost: VecDeque<Option<u32>>,
}

impl S3Fifo {
    fn access(&mut self, capacity: usize, key: u32) -> (bool, Vec<u32>) {
        let mut items = self.small.iter_mut().chain(&mut self.main);
        if let Some(item) = items.find(|item| item.0 == key) {
            item.1 = (item.1 + 1).min(3);
            return (true, vec![]);
        }
        let mut evicted = vec![];
        while self.small.len() + self.main.len() >= capacity {
            evicted.extend(self.evict(capacity));
        }
        match self.ghost.iter_mut().find(|ghost| **ghost == Some(key)) {
            Some(ghost) => {
                *ghost = None;
                self.main.push_back((key, 0));
            }
            None => self.small.push_back((key, 0)),
        }
        (false, evicted)
    }

    fn evict(&mut self, capacity: usize) -> Option<u32> {
        let from_small = self.small.len() as f64 >= 0.1 * capacity as f64 || self.main.is_empty();
        if !from_small {
            return self.evict_main();
        }
        let main_max = capacity - capacity / 10;
        while let Some((key, frequency)) = self.small.pop_front() {
            if frequency <= 1 {
                self.ghost.push_back(Some(key));
                if self.ghost.len() > main_max {
                    self.ghost.pop_front();
                }
                return Some(key);
            }
            self.main.push_back((key, 0));
            if self.main.len() > main_max {
                return self.evict_main();
            }
        }
        self.evict_main()
    }

    fn evict_main(&mut self) -> Option<u32> {
        loop {
            let (key, frequency) = self.main.pop_front()?;
            if frequency == 0 {
                return Some(key);
            }
            self.main.push_back((key, frequency - 1));
        }
    }
}

/// Uses the sketch of the policy under test: only the queues are compared, and with separate
/// sketches every collision would be a difference.
#[derive(Default)]
struct WTinyLfu {
    window: Vec<u32>,
    probation: Vec<u32>,
    protected: Vec<u32>,
    sketch: Sketch,
}

impl WTinyLfu {
    fn access(&mut self, capacity: usize, key: u32) -> (bool, Vec<u32>) {
        let held = self.window.len() + self.probation.len() + self.protected.len();
        self.sketch.add(key, held);
        let window_max = (capacity / 100).max(1);
        if self.hit(key, (capacity - window_max) / 5 * 4) {
            return (true, vec![]);
        }
        self.window.push(key);
        if self.window.len() > window_max {
            self.probation.push(self.window.remove(0));
        }
        if held < capacity {
            return (false, vec![]);
        }
        (false, vec![self.evict()])
    }

    fn hit(&mut self, key: u32, protected_max: usize) -> bool {
        if take(&mut self.window, key) {
            self.window.push(key);
        } else if take(&mut self.protected, key) {
            self.protected.push(key);
        } else if take(&mut self.probation, key) {
            self.protected.push(key);
            if self.protected.len() > protected_max {
                self.probation.push(self.protected.remove(0));
            }
        } else {
            return false;
        }
        true
    }

    /// Called with one item too many; the candidate has just moved from the window to probation.
    fn evict(&mut self) -> u32 {
        let candidate = self.probation.pop().expect("the window passed one on");
        let victims =
            if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
        match victims.first() {
            Some(&victim) if self.sketch.estimate(candidate) > self.sketch.estimate(victim) => {
                victims.remove(0);
                self.probation.push(candidate);
                victim
            }
            _ => candidate,
        }
    }
}
