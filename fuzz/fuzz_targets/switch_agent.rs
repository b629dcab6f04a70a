//! Arbitrary datagrams to an agent that serves a key through a switch: the switch serves only what
//! the server stores, and no datagram causes many replies.
//!
//! Each record of the input is a sender, a length, and a datagram of this length.
#![no_main]

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use libfuzzer_sys::fuzz_target;
use switch::agent::{Agent, Config, Memory, Store};
use wire::netcache::{Flags, Key, Message, Op};

const KEY: Key = [0; 16];
/// Version with which the key was admitted to the switch.
const ADMITTED: u64 = 0x2c1f_93aa_77e0_5d41;
const SECRET: u64 = 0x51d0_9f3b_22c6_8e17;
/// The switch's lease starts at 1 s and is not renewed.
const SERVED_UNTIL: Duration = Duration::from_secs(6);
/// Maximum number of datagrams for one request: the reply, and those to the switch.
const ANSWERS_MAX: usize = 3;
/// The same, for all writes that were held for the key.
const ANSWERS_OF_A_KEY_MAX: usize = ANSWERS_MAX * (CONFIG.held_max + 1);
const CONFIG: Config = Config {
    lease: Duration::from_secs(5),
    margin: Duration::from_millis(500),
    resend: Duration::from_millis(5),
    resend_max: Duration::from_millis(160),
    cached_max: 64,
    held_max: 8,
    tries_max: 64,
    tags_ahead_max: wire::netcache::TAGS_AHEAD_MAX,
};

fn at(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

struct World {
    agent: Agent,
    store: Memory,
    now: Duration,
    version: u64,
    valid_version: u64,
    value: Option<Vec<u8>>,
    /// Sequence numbers of the agent's questions to the controller.
    questions: BTreeSet<u32>,
}

impl World {
    fn new() -> Self {
        let now = Duration::from_secs(1);
        let agent = Agent::new(CONFIG, at(1), at(0), SECRET, now);
        let (version, valid_version) = (ADMITTED, ADMITTED);
        let (store, value, questions) = (Memory::default(), None, BTreeSet::new());
        let mut world = Self { agent, store, now, version, valid_version, value, questions };
        for (op, version) in [(Op::Lease, SECRET), (Op::Fetch, ADMITTED), (Op::Installed, ADMITTED)]
        {
            let sequence = world.questions.first().copied().unwrap_or_default();
            world.tell(1, &Message { version, ..Message::new(op, sequence, KEY) });
        }
        world
    }

    fn tell(&mut self, from: u16, message: &Message<'_>) {
        self.agent.receive(at(from), message, &mut self.store, self.now);
        self.hear(ANSWERS_OF_A_KEY_MAX);
    }

    /// Whether the version is far from the agent's versions, and the sequence number not that of a
    /// question, both of which are secret. The fuzzer observes comparisons and can therefore find
    /// them.
    fn is_not_ours(&self, message: &Message<'_>) -> bool {
        let Message { version, sequence, .. } = *message;
        let answers = matches!(message.op, Op::Installed | Op::Abandoned);
        let near = |ours: u64| {
            version.wrapping_sub(ours).min(ours.wrapping_sub(version)) <= 2 * CONFIG.tags_ahead_max
        };
        !near(self.version)
            && !near(SECRET)
            && !(answers && self.questions.contains(&sequence))
    }

    /// Delivers the output of the agent, at most this number of datagrams. The switch replies
    /// immediately.
    fn hear(&mut self, most: usize) {
        let mut sent = 0;
        while let Some((to, bytes)) = self.agent.poll_output() {
            sent += 1;
            let said = Message::decode(&bytes).expect("our own");
            if said.op == Op::Fetched {
                self.questions.insert(said.sequence);
            }
            if to != at(0) || said.key != KEY {
                continue;
            }
            let mut ack =
                Message { flags: Flags::CACHED, ..Message::new(Op::UpdateAck, said.sequence, KEY) };
            ack.version = said.version;
            match said.op {
                Op::Update if said.version == self.version => {
                    self.valid_version = self.version;
                    self.value = said.flags.has(Flags::FOUND).then(|| said.value.to_vec());
                }
                Op::Invalidate => {
                    self.version += 1;
                    (ack.op, ack.version) = (Op::InvalidateAck, self.version);
                }
                _ => {}
            }
            self.agent.receive(at(0), &ack, &mut self.store, self.now);
        }
        assert!(sent <= most, "{sent} datagrams at once");
        let is_served = self.version == self.valid_version && self.now < SERVED_UNTIL;
        assert!(
            !is_served || self.value == self.store.read(&KEY),
            "the switch serves {:?}",
            self.value
        );
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (mut world, mut rest) = (World::new(), bytes);
    while let [from, length, more @ ..] = rest {
        let (datagram, behind) = more.split_at(more.len().min(usize::from(*length)));
        rest = behind;
        let message = Message::decode(datagram).ok();
        if let Some(message) = message.filter(|message| world.is_not_ours(message)) {
            world.tell(u16::from(from % 4), &message);
        }
        if *from & 0x80 != 0 {
            world.now += CONFIG.resend_max;
            world.agent.handle_timeout(&mut world.store, world.now);
            // Each key may ask again.
            world.hear(ANSWERS_OF_A_KEY_MAX + CONFIG.cached_max);
        }
    }
});
