//! Requests of a test to the store, one at a time.

use store::Faults;
use store::elastic::{Config, Elastic, Error, Load, RandomKey, Scan, Ticket};

use super::{Done, Entry, Map, Run, Waiting, config, key};

impl Run {
    /// All entries, read by key and by a scan, which must agree.
    pub fn contents(&mut self) -> Map {
        let mut map = Map::new();
        self.frozen = true;
        for key in (0..self.keys).map(key) {
            if let Some(entry) = self.fetch(&key) {
                map.insert(key, entry);
            }
        }
        let mut scanned = self.scan_all();
        scanned.sort();
        self.frozen = false;
        let keys: Vec<&[u8]> = map.keys().map(Vec::as_slice).collect();
        let scanned: Vec<&[u8]> = scanned.iter().map(|key| &**key).collect();
        if scanned != keys {
            let text = |keys: Vec<&[u8]>| {
                keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
            };
            panic!("scanned {:?}, but there are {:?}", text(scanned), text(keys));
        }
        assert!(self.store.len() >= keys.len() as u64);
        map
    }

    pub fn fetch(&mut self, key: &[u8]) -> Option<Entry> {
        self.try_fetch(key).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_fetch(&mut self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let mut tickets = Vec::new();
        let entry = loop {
            match self.store.load(key, self.now) {
                Load::Present => {
                    let read = self.store.read(key, self.now).expect("present");
                    break Ok(Some((read.value.to_vec(), read.expires_at)));
                }
                Load::Absent => break Ok(None),
                Load::Pending(ticket) => {
                    tickets.push(ticket);
                    self.wait_for(ticket);
                }
                Load::Failed(error) => break Err(error),
            }
        };
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
        entry
    }

    /// Stores a new value under the key of this number.
    pub fn put(&mut self, number: u64) {
        self.waiting.push(Waiting {
            key: key(number),
            writes: true,
            tickets: Vec::new(),
            ready: 0,
        });
        self.attempt(self.waiting.len() - 1);
        self.resume();
    }

    /// Stores `value` under the key of this number.
    pub fn put_value(&mut self, number: u64, value: &[u8]) {
        let key = key(number);
        for _ in 0..1000 {
            if self.store.accepts_writes().is_ok() {
                break;
            }
            self.settle();
        }
        let mut tickets = Vec::new();
        while let Load::Pending(ticket) = self.store.load(&key, self.now) {
            tickets.push(ticket);
            self.wait_for(ticket);
        }
        let written = self.store.write(&key, value, None, self.now).expect("written");
        self.record(written.position, Done::Put(key, (value.to_vec(), None)));
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
    }

    /// Looks up the key of this number.
    pub fn fetch_number(&mut self, number: u64) -> Option<Entry> {
        self.fetch(&key(number))
    }

    /// Removes the key of this number, now or when it is loaded.
    pub fn remove(&mut self, number: u64) -> Result<(), Error> {
        let key = key(number);
        let mut tickets = Vec::new();
        while let Load::Pending(ticket) = self.store.load(&key, self.now) {
            tickets.push(ticket);
            self.wait_for(ticket);
        }
        let removed = self.store.remove(&key, self.now);
        if let Ok(Some(position)) = removed {
            self.record(position, Done::Remove(key));
        }
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
        removed.map(|_| ())
    }

    /// A configuration like that of the store.
    pub fn config(&mut self) -> Config {
        config(&mut self.random)
    }

    /// Makes everything that was appended durable.
    pub fn make_durable(&mut self) {
        self.settle();
        let position = self.store.flush();
        for _ in 0..1000 {
            self.settle();
            if self.store.durable_up_to() >= position {
                break;
            }
        }
    }

    /// Closes the store; false if the device stops first.
    pub fn close(&mut self) -> bool {
        self.store.close();
        while !self.store.is_closed() {
            if self.device.has_crashed() {
                return false;
            }
            self.device_once();
            self.note_durable();
        }
        true
    }

    /// Opens the store again from its files.
    pub fn reopen(&mut self) {
        self.device.restart(Faults::default());
        let config = self.config();
        self.adopt(Elastic::open(config, &self.device, self.now).expect("opens"));
    }

    /// Continues with `store`.
    pub fn adopt(&mut self, store: Elastic) {
        self.store = store;
        self.in_flight.clear();
        self.waiting.clear();
    }

    /// True if this entry was once stored under the key.
    pub fn was_written(&self, key: &[u8], entry: &Entry) -> bool {
        self.written.get(key).is_some_and(|written| written.contains(entry))
    }

    pub fn wait_for(&mut self, ticket: Ticket) {
        for _ in 0..100_000 {
            while let Some(loaded) = self.store.poll_loaded() {
                if loaded == ticket {
                    return;
                }
            }
            self.device_once();
        }
        panic!("{ticket:?} is never loaded");
    }

    pub fn scan_all(&mut self) -> Vec<Box<[u8]>> {
        let (mut cursor, mut all, mut held) = (0, Vec::new(), Vec::new());
        let count = 1 + self.random.below(20) as usize;
        loop {
            match self.store.scan(cursor, count, self.now) {
                Scan::Ready { cursor: next, keys, passed_over } => {
                    self.passed_over += passed_over;
                    held.drain(..).for_each(|ticket| self.store.release(ticket));
                    all.extend(keys);
                    cursor = next;
                    if cursor == 0 {
                        return all;
                    }
                }
                Scan::Pending(tickets) => {
                    for ticket in tickets {
                        self.settle_ticket(ticket);
                        held.push(ticket);
                    }
                }
            }
        }
    }

    fn settle_ticket(&mut self, _ticket: Ticket) {
        for _ in 0..64 {
            self.device_once();
            while self.store.poll_loaded().is_some() {}
        }
    }

    pub fn random_key(&mut self) -> Option<Box<[u8]>> {
        let random = self.random.draw();
        loop {
            match self.store.random_key(random, self.now) {
                RandomKey::Ready(key) => return key,
                RandomKey::Pending(ticket) => {
                    self.wait_for(ticket);
                }
            }
        }
    }
}
