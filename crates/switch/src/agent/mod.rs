//! The server's side of coherence: a pure state machine beside a key-value store.
//!
//! NetCache (SOSP 2017, section 4.3) in five steps. A write of a cached key makes the switch's
//! entry invalid and arrives tagged (1); the agent applies it and answers at once (2), sends the
//! new value to the switch and holds later writes *to that key* until the switch acknowledges (3),
//! sends again until it does (4), and lets writes to other keys proceed (5). A key enters the cache
//! under the same rule: from sending its value until it is installed, its writes are held.
//!
//! Beyond the paper: the tag is a version, and only the value of the write that carries the entry's
//! newest version makes it valid, so late messages cannot. A write without a tag, or with one older
//! than what was sent to the switch, first asks the switch for one. The switch may serve keys only
//! under a lease, so that an unreachable switch blocks writes no longer than that.
//!
//! A host that can send datagrams here, from any address, cannot break this unless it can read the
//! messages between agent, switch and controller: versions and the numbers of questions are
//! random, so that a matching tag or answer comes from the switch or the controller (decision 130).
//!
//! `tests/every_interleaving_is_coherent.rs` explores this code itself.

mod cached;
mod config;
mod store;

pub use config::{Config, Stats};
pub use store::{Memory, Store, WRITERS_MAX};

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use wire::netcache::{Flags, Key, Message, Op, Party};

use cached::{Cached, Waiting, Write};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    config: Config,
    /// Address of the controller; messages of others are ignored.
    controller: SocketAddr,
    /// Address at which packets reach the switch's data plane.
    data_plane: SocketAddr,
    /// Identifies this agent to the controller, as opposed to an earlier one.
    generation: u64,
    /// Questions are numbered by it, so that only the receiver of a question can answer it.
    secret: u64,
    /// End of the lease: the switch serves none of the keys after it.
    served_until: Duration,
    /// The controller knows this generation: it serves nothing older.
    known: bool,
    cached: BTreeMap<Key, Cached>,
    /// Keys that wait for an answer, and when they ask again.
    due: BTreeSet<(Duration, Key)>,
    output: VecDeque<(SocketAddr, Vec<u8>)>,
    stats: Stats,
}

impl Agent {
    /// A new agent: an earlier one may have left keys in the switch, so writes wait until the
    /// controller knows this one's generation or until the lease of the earlier one has ended.
    /// `secret` is an unpredictable number that no earlier agent used.
    pub fn new(
        config: Config,
        controller: SocketAddr,
        data_plane: SocketAddr,
        secret: u64,
        now: Duration,
    ) -> Self {
        Self {
            config,
            controller,
            data_plane,
            generation: secret,
            secret,
            served_until: now + config.lease + config.margin,
            known: false,
            cached: BTreeMap::new(),
            due: BTreeSet::new(),
            output: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Resets the counters.
    pub fn forget_statistics(&mut self) {
        self.stats = Stats::default();
    }

    /// Handles one message from any sender.
    pub fn receive(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        store: &mut impl Store,
        now: Duration,
    ) {
        self.lapse(store, now);
        let key = message.key;
        if !self.may_send(from, message.op) {
            self.stats.forged += 1;
            return;
        }
        match message.op {
            Op::Get => self.answer(from, message, store),
            Op::Put | Op::PutCached | Op::Delete | Op::DeleteCached => {
                let deletes = matches!(message.op, Op::Delete | Op::DeleteCached);
                let write = Write {
                    client: from,
                    sequence: message.sequence,
                    flags: Flags(message.flags.0 & Flags::LONG_KEY.0),
                    tag: if matches!(message.op, Op::PutCached | Op::DeleteCached) {
                        message.version
                    } else {
                        0
                    },
                    value: (!deletes).then(|| message.value.to_vec()),
                };
                self.take(key, write, store, now);
            }
            Op::UpdateAck => self.acknowledged(key, message, store, now),
            Op::InvalidateAck => self.tagged(key, message, store, now),
            Op::Fetch => self.fetch(key, message, store, now),
            Op::Installed | Op::Abandoned => self.settled(key, message, store, now),
            Op::Lease => self.grant(message, store, now),
            _ => {}
        }
    }

    /// Whether this address may send the operation. A tagged write comes from the client's address,
    /// so its version is checked instead.
    fn may_send(&self, from: SocketAddr, op: Op) -> bool {
        match op.sender() {
            Party::Client => true,
            Party::DataPlane => {
                matches!(op, Op::PutCached | Op::DeleteCached) || from == self.data_plane
            }
            Party::Controller => from == self.controller,
            Party::Agent => false,
        }
    }

    /// The next datagram to send, and its destination.
    pub fn poll_output(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.output.pop_front()
    }

    /// Latest time for the next call of [`Agent::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Duration> {
        let resend = self.due.first().map(|(again, _)| *again);
        let lapse = (!self.cached.is_empty()).then_some(self.served_until);
        resend.into_iter().chain(lapse).min()
    }

    /// Sends again what was not answered (step 4).
    pub fn handle_timeout(&mut self, store: &mut impl Store, now: Duration) {
        self.lapse(store, now);
        let is_late = |(again, _): &&(Duration, Key)| *again <= now;
        let late: Vec<Key> = self.due.iter().take_while(is_late).map(|(_, key)| *key).collect();
        for key in late {
            let tries = self.cached.get(&key).map_or(0, |cached| cached.tries);
            if self.known && tries >= self.config.tries_max {
                // The controller gets it with its next request, and then serves no older keys.
                self.begin_anew();
            }
            self.send(key, store, now);
        }
    }

    /// The value of the key was changed without the agent. The switch serves the old one until it
    /// is informed: now, or after it has answered the previous message.
    pub fn changed(&mut self, key: Key, store: &mut impl Store, now: Duration) {
        self.lapse(store, now);
        let Some(cached) = self.cached.get_mut(&key) else { return };
        cached.changed = true;
        if cached.waiting == Waiting::Nothing {
            self.resume(key, store, now);
        }
    }

    fn answer(&mut self, from: SocketAddr, message: &Message<'_>, store: &impl Store) {
        self.stats.reads += 1;
        let value = store.read(&message.key);
        let flags = Flags(message.flags.0 & Flags::LONG_KEY.0).with(Flags::FOUND, value.is_some());
        let value = value.unwrap_or_default();
        let reply = Message {
            flags,
            value: &value,
            ..Message::new(Op::GetReply, message.sequence, message.key)
        };
        self.output.push_back((from, reply.bytes()));
    }

    fn take(&mut self, key: Key, write: Write, store: &mut impl Store, now: Duration) {
        if store.last_write(&key, write.client).is_some_and(|last| write.sequence <= last) {
            self.stats.repeated += 1;
            self.reply(key, &write);
            return;
        }
        if !self.known && now < self.served_until {
            self.stats.dropped += 1;
            return;
        }
        let Some(cached) = self.cached.get_mut(&key) else {
            self.apply(key, &write, store);
            return;
        };
        if cached.waiting != Waiting::Nothing {
            let known =
                |held: &Write| held.client == write.client && held.sequence == write.sequence;
            if let Some(held) = cached.held.iter_mut().find(|held| known(held)) {
                // The write passed the switch again.
                held.tag = write.tag;
            } else if cached.held.len() < self.config.held_max {
                self.stats.held += 1;
                cached.held.push_back(write);
            } else {
                self.stats.dropped += 1;
            }
        } else if cached.precedes(write.tag, self.config.tags_ahead_max) {
            // The entry is invalid until the value of this write arrives.
            cached.version = write.tag;
            cached.flags = write.flags;
            self.apply(key, &write, store);
            self.wait(key, Waiting::Ack, store, now);
        } else {
            // The entry may be valid again, with a value that was sent since.
            self.stats.held += 1;
            cached.held.push_front(write);
            self.ask_for_tag(key, store, now);
        }
    }

    fn apply(&mut self, key: Key, write: &Write, store: &mut impl Store) {
        store.write(key, write.value.as_deref(), write.client, write.sequence);
        self.stats.writes += 1;
        self.reply(key, write);
    }

    fn reply(&mut self, key: Key, write: &Write) {
        let op = if write.value.is_some() { Op::PutReply } else { Op::DeleteReply };
        let reply = Message { flags: write.flags, ..Message::new(op, write.sequence, key) };
        self.output.push_back((write.client, reply.bytes()));
    }

    fn wait(&mut self, key: Key, waiting: Waiting, store: &impl Store, now: Duration) {
        let Some(cached) = self.cached.get_mut(&key) else { return };
        cached.waiting = waiting;
        cached.pause = Duration::ZERO;
        cached.tries = 0;
        self.send(key, store, now);
    }

    fn ask_for_tag(&mut self, key: Key, store: &impl Store, now: Duration) {
        let sequence = self.draw();
        self.wait(key, Waiting::Tag(sequence), store, now);
    }

    /// The sequence number of the next question.
    fn draw(&mut self) -> u32 {
        let mut random = SplitMix64::seed_from_u64(self.secret);
        let sequence = (random.next_u64() >> 32) as u32;
        self.secret = u64::from_le_bytes(random.state());
        sequence
    }

    fn waits_no_more(&mut self, key: Key) {
        let Some(cached) = self.cached.get_mut(&key) else { return };
        cached.waiting = Waiting::Nothing;
        self.due.remove(&(cached.again, key));
    }

    /// Sends the message that the key is waiting for, again.
    fn send(&mut self, key: Key, store: &impl Store, now: Duration) {
        let Some(cached) = self.cached.get_mut(&key) else { return };
        let (flags, version) = (cached.flags, cached.version);
        let (op, to, sequence) = match cached.waiting {
            Waiting::Nothing => return,
            Waiting::Installed { sequence, .. } => (Op::Fetched, self.controller, sequence),
            Waiting::Ack => (Op::Update, self.data_plane, 0),
            Waiting::Tag(sequence) => (Op::Invalidate, self.data_plane, sequence),
        };
        self.due.remove(&(cached.again, key));
        cached.pause = (cached.pause * 2).clamp(self.config.resend, self.config.resend_max);
        cached.again = now + cached.pause;
        cached.tries += 1;
        self.due.insert((cached.again, key));
        if op == Op::Invalidate {
            let ask = Message { flags, version, ..Message::new(op, sequence, key) };
            self.output.push_back((to, ask.bytes()));
            return;
        }
        self.stats.updates += u64::from(op == Op::Update);
        let value = store.read(&key);
        let flags = flags.with(Flags::FOUND, value.is_some());
        let value = value.unwrap_or_default();
        let message = Message { flags, version, value: &value, ..Message::new(op, sequence, key) };
        self.output.push_back((to, message.bytes()));
    }

    fn acknowledged(&mut self, key: Key, ack: &Message<'_>, store: &mut impl Store, now: Duration) {
        let Some(cached) = self.cached.get(&key) else { return };
        let is_mine = cached.waiting == Waiting::Ack && ack.version == cached.version;
        if is_mine && ack.flags.has(Flags::CACHED) {
            self.resume(key, store, now);
        } else if is_mine {
            self.forget(key, store);
        }
    }

    fn tagged(&mut self, key: Key, ack: &Message<'_>, store: &mut impl Store, now: Duration) {
        let Some(cached) = self.cached.get_mut(&key) else { return };
        if cached.waiting != Waiting::Tag(ack.sequence) {
            return;
        }
        if !ack.flags.has(Flags::CACHED) {
            if ack.version == cached.version {
                self.forget(key, store);
            }
            return;
        }
        if !cached.precedes(ack.version, self.config.tags_ahead_max) {
            return;
        }
        if let Some(write) = cached.held.front_mut() {
            write.tag = ack.version;
            self.resume(key, store, now);
        } else {
            // Not for a write of the agent: the store has its value already.
            cached.version = ack.version;
            self.wait(key, Waiting::Ack, store, now);
        }
    }

    fn fetch(&mut self, key: Key, ask: &Message<'_>, store: &impl Store, now: Duration) {
        if !self.known || now >= self.served_until {
            return;
        }
        let before = self.cached.get(&key).map_or(0, |cached| cached.version);
        let is_full = before == 0 && self.cached.len() >= self.config.cached_max;
        // The version of a late question equals the present one, or is a little older.
        let is_late = before.wrapping_sub(ask.version) <= self.config.tags_ahead_max;
        if is_full || is_late {
            return;
        }
        let cached = self.cached.entry(key).or_default();
        if cached.waiting == Waiting::Nothing {
            cached.version = ask.version;
            cached.flags = Flags(ask.flags.0 & Flags::LONG_KEY.0);
            let sequence = self.draw();
            self.wait(key, Waiting::Installed { before, sequence }, store, now);
        }
    }

    fn settled(&mut self, key: Key, told: &Message<'_>, store: &mut impl Store, now: Duration) {
        let Some(cached) = self.cached.get_mut(&key) else { return };
        let Waiting::Installed { before, sequence } = cached.waiting else { return };
        // Who forges the request chooses its version, but does not know the question that followed.
        if (cached.version, sequence) != (told.version, told.sequence) {
            return;
        }
        if told.op == Op::Installed {
            self.resume(key, store, now);
        } else if before == 0 {
            self.forget(key, store);
        } else {
            // The request may have been forged, and the key still be served.
            cached.version = before;
            self.resume(key, store, now);
        }
    }

    /// Resumes the key's held writes, until one has to wait again.
    fn resume(&mut self, key: Key, store: &mut impl Store, now: Duration) {
        self.waits_no_more(key);
        while let Some(cached) = self.cached.get_mut(&key)
            && cached.waiting == Waiting::Nothing
        {
            if std::mem::take(&mut cached.changed) {
                self.ask_for_tag(key, store, now);
            } else if let Some(write) = cached.held.pop_front() {
                self.take(key, write, store, now);
            } else {
                return;
            }
        }
    }

    /// The switch has no entry for the key: its writes need not wait.
    fn forget(&mut self, key: Key, store: &mut impl Store) {
        self.waits_no_more(key);
        let Some(cached) = self.cached.remove(&key) else { return };
        for write in cached.held {
            if store.last_write(&key, write.client).is_none_or(|last| write.sequence > last) {
                self.apply(key, &write, store);
            }
        }
    }

    fn grant(&mut self, ask: &Message<'_>, store: &mut impl Store, now: Duration) {
        if !self.known && ask.version == self.generation {
            self.known = true;
            // No value of an earlier generation is served.
            self.forget_all(store);
        }
        if self.known {
            self.served_until = now + self.config.lease + self.config.margin;
        }
        let grant =
            Message { version: self.generation, ..Message::new(Op::Leased, ask.sequence, ask.key) };
        self.output.push_back((self.controller, grant.bytes()));
    }

    /// After the lease nothing is served: every key is dropped, and a peer that still knows this
    /// generation has to begin anew.
    fn lapse(&mut self, store: &mut impl Store, now: Duration) {
        if now < self.served_until || (!self.known && self.cached.is_empty()) {
            return;
        }
        self.begin_anew();
        self.forget_all(store);
    }

    fn begin_anew(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.known = false;
        self.stats.lapses += 1;
    }

    fn forget_all(&mut self, store: &mut impl Store) {
        for key in self.cached.keys().copied().collect::<Vec<_>>() {
            self.forget(key, store);
        }
    }
}
