//! Clients forge tags and replies of the switch: the switch keeps serving what the server stores,
//! later writes proceed, and a forged write causes no more messages than any other write.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use switch::agent::{Agent, Config, Memory, Store};
use wire::netcache::{Flags, Key, Message, Op};

const KEY: Key = *b"the only key....";
/// The version under which the key was admitted to the switch.
const ADMITTED: u64 = 0x1bad_5eed_1bad_5eed;
const NOW: Duration = Duration::from_secs(100);
/// For each write: a reply, a request for a tag, an update.
const SENT_PER_WRITE: usize = 3;

fn at(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

const SWITCH: u16 = 50_000;
const CONTROLLER: u16 = 50_001;
const CLIENT: u16 = 40_000;
const HOSTILE: u16 = 40_666;

struct World {
    agent: Agent,
    store: Memory,
    version: u64,
    valid_version: u64,
    value: Option<Vec<u8>>,
    sent: usize,
    /// Sequence number of the last value sent to the controller.
    question: u32,
}

impl World {
    /// The key is stored as `old`, and the switch serves it.
    fn new() -> Self {
        let agent = Agent::new(Config::default(), at(CONTROLLER), at(SWITCH), 1, NOW);
        let (version, valid_version) = (ADMITTED, ADMITTED);
        let (store, value) = (Memory::default(), Some(b"old".to_vec()));
        let mut world = Self { agent, store, version, valid_version, value, sent: 0, question: 0 };
        world.store.write(KEY, Some(b"old"), at(CLIENT), 1);
        world.tell(CONTROLLER, &Message { version: 1, ..Message::new(Op::Lease, 1, KEY) });
        world.tell(CONTROLLER, &Message { version: ADMITTED, ..Message::new(Op::Fetch, 0, KEY) });
        world.tell(
            CONTROLLER,
            &Message { version: ADMITTED, ..Message::new(Op::Installed, world.question, KEY) },
        );
        world.sent = 0;
        world
    }

    /// Delivers a message to the agent, and the replies between agent and switch until there are
    /// none, or too many.
    fn tell(&mut self, from: u16, message: &Message<'_>) {
        let mut network = VecDeque::from([(from, message.bytes())]);
        while let Some((from, bytes)) = network.pop_front() {
            let message = Message::decode(&bytes).expect("our own");
            self.agent.receive(at(from), &message, &mut self.store, NOW);
            while let Some((to, bytes)) = self.agent.poll_output() {
                self.sent += 1;
                let said = Message::decode(&bytes).expect("our own");
                if said.op == Op::Fetched {
                    self.question = said.sequence;
                }
                if to == at(SWITCH) && self.sent < 1_000 {
                    network.extend(self.at_switch(&bytes).map(|answer| (SWITCH, answer)));
                }
            }
        }
    }

    fn at_switch(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let message = Message::decode(bytes).expect("our own");
        let flags = Flags::CACHED.with(Flags::STORED, true);
        let answer = |op, version| {
            Some(Message { flags, version, ..Message::new(op, message.sequence, KEY) }.bytes())
        };
        if message.op == Op::Invalidate {
            self.version += 1;
            return answer(Op::InvalidateAck, self.version);
        }
        assert_eq!(message.op, Op::Update);
        if message.version == self.version {
            self.valid_version = self.version;
            self.value = message.flags.has(Flags::FOUND).then(|| message.value.to_vec());
        }
        answer(Op::UpdateAck, message.version)
    }

    fn is_coherent(&self) -> bool {
        self.version != self.valid_version || self.value == self.store.read(&KEY)
    }

    /// A write of another client passes the switch, and completes.
    fn write(&mut self, sequence: u32, value: &[u8]) {
        self.version += 1;
        let put =
            Message { version: self.version, value, ..Message::new(Op::PutCached, sequence, KEY) };
        self.tell(CLIENT, &put);
    }
}

#[test]
fn a_tag_that_a_client_made_up_counts_as_none() {
    for tag in [1, ADMITTED - 1, ADMITTED + (1 << 25), 1 << 62, u64::MAX] {
        let mut world = World::new();
        let put = |op, value| Message { version: tag, value, ..Message::new(op, 1, KEY) };
        world.tell(HOSTILE, &put(Op::PutCached, b"new"));
        assert!(world.is_coherent(), "{tag:#x}: the switch serves {:?}", world.value);
        for (sequence, value) in (2..).zip([b"next", b"last"]) {
            world.write(sequence, value);
            assert_eq!(
                world.store.read(&KEY).as_deref(),
                Some(&value[..]),
                "{tag:#x}: it is not written"
            );
            assert!(world.is_coherent(), "{tag:#x}: after a write of another client");
        }
        assert!(
            world.sent <= 3 * SENT_PER_WRITE,
            "{tag:#x}: {} datagrams for 3 writes",
            world.sent
        );
        let resends =
            world.agent.poll_timeout().is_some_and(|at| at < NOW + Duration::from_secs(1));
        assert!(!resends, "{tag:#x}: the agent still resends");
    }
}

#[test]
fn forged_answers_of_the_switch_change_nothing() {
    let yes = Flags::CACHED.with(Flags::STORED, true);
    for (op, flags) in [Op::UpdateAck, Op::InvalidateAck]
        .into_iter()
        .flat_map(|op| [(op, yes), (op, Flags::default())])
    {
        for version in [0, 1, 1 << 62] {
            for sequence in [0, 1, 2] {
                let mut world = World::new();
                // The agent waits for a tag; its request for the tag was lost.
                let put = Message { value: b"new", ..Message::new(Op::Put, 1, KEY) };
                world.agent.receive(at(HOSTILE), &put, &mut world.store, NOW);
                while world.agent.poll_output().is_some() {}
                let forged = Message { flags, version, ..Message::new(op, sequence, KEY) };
                for from in [SWITCH, HOSTILE] {
                    world.tell(from, &forged);
                    assert!(world.is_coherent(), "{op:?} {version:#x} {sequence} of {from}");
                }
                // The request is resent, and the switch replies.
                let again = world.agent.poll_timeout().expect("it asks again");
                world.agent.handle_timeout(&mut world.store, again);
                let (_, bytes) = world.agent.poll_output().expect("a question");
                let answer = world.at_switch(&bytes).expect("an answer");
                world.tell(SWITCH, &Message::decode(&answer).expect("our own"));
                assert_eq!(world.store.read(&KEY).as_deref(), Some(&b"new"[..]));
                assert!(world.is_coherent());
            }
        }
    }
}

#[test]
fn a_forged_question_leaves_the_key_as_it_was() {
    let mut world = World::new();
    for version in [0, 1, 1 << 62, u64::MAX] {
        world.tell(CONTROLLER, &Message { version, ..Message::new(Op::Fetch, 0, KEY) });
        // The controller did not send it.
        let abandoned = Message::new(Op::Abandoned, world.question, KEY);
        world.tell(CONTROLLER, &Message { version, ..abandoned });
    }
    // A write that bypassed the switch, which must still be told.
    world.tell(HOSTILE, &Message { value: b"new", ..Message::new(Op::Put, 1, KEY) });
    assert!(world.is_coherent(), "the switch serves {:?}", world.value);
}

/// The forger chose the version of the question, so the version of the answer proves nothing.
#[test]
fn a_forged_question_with_a_forged_answer_leaves_the_key_as_it_was() {
    for version in [1, 1 << 62] {
        for sequence in [0, 1, 2] {
            let mut world = World::new();
            let forged = |op| Message { version, ..Message::new(op, sequence, KEY) };
            world.tell(CONTROLLER, &forged(Op::Fetch));
            world.tell(CONTROLLER, &forged(Op::Installed));
            let put = Message {
                version: version + 1,
                value: b"new",
                ..Message::new(Op::PutCached, 1, KEY)
            };
            world.tell(HOSTILE, &put);
            assert!(world.is_coherent(), "{version:#x}: the switch serves {:?}", world.value);
        }
    }
}

#[test]
fn a_switch_that_never_answers_is_begun_anew_with() {
    let mut world = World::new();
    world.version += 1;
    let put =
        Message { version: world.version, value: b"new", ..Message::new(Op::PutCached, 2, KEY) };
    world.agent.receive(at(CLIENT), &put, &mut world.store, NOW);
    let mut now = NOW;
    for _ in 0..=Config::default().tries_max {
        now = world.agent.poll_timeout().expect("it waits for an answer").max(now);
        // The controller stays connected.
        let lease = Message { version: 1, ..Message::new(Op::Lease, 1, KEY) };
        world.agent.receive(at(CONTROLLER), &lease, &mut world.store, now);
        world.agent.handle_timeout(&mut world.store, now);
    }
    let mut told = None;
    while let Some((_, bytes)) = world.agent.poll_output() {
        let said = Message::decode(&bytes).expect("our own");
        told = (said.op == Op::Leased).then_some(said.version).or(told);
    }
    world.agent.receive(at(CONTROLLER), &Message::new(Op::Lease, 2, KEY), &mut world.store, now);
    while let Some((_, bytes)) = world.agent.poll_output() {
        told = Some(Message::decode(&bytes).expect("our own").version)
            .filter(|version| *version != 1)
            .or(told);
    }
    assert_eq!(told, Some(2), "another generation, whose keys are not served");
    // The controller has evicted everything, so nothing is pending.
    world.agent.receive(
        at(CONTROLLER),
        &Message { version: 2, ..Message::new(Op::Lease, 3, KEY) },
        &mut world.store,
        now,
    );
    let put = Message { value: b"other", ..Message::new(Op::Put, 3, KEY) };
    world.agent.receive(at(CLIENT), &put, &mut world.store, now);
    assert_eq!(world.store.read(&KEY).as_deref(), Some(&b"other"[..]));
}
