//! An exhaustive model: every interleaving of the steps of two writers and one reader, or of one
//! writer and two readers. After each step, storage serves only the value that the origin then
//! holds.
//!
//! A writer writes a key, its collection or its origin. The write is applied or refused, or its
//! reply is lost: before or after the origin executes it, or without the origin ever executing it.
//! A reader takes a lease, receives the origin's reply, and fills. The steps act on the real
//! [`MemoryStorage`].

use std::time::Duration;

use crate::{
    key::{Key, Namespace, Sent},
    lease::Outcome,
    principal::{Finding, Principal, Proof, Standing},
    storage::{self, Answer, Given, Grant, MemoryStorage, Question, Storage, Write},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Send,
    /// The origin executes the write.
    Execute,
    Settle(Outcome),
    Lose,
    /// The quarantine of the writes lost so far elapses.
    End,
    Take,
    /// The origin answers the read.
    Reply,
    Fill,
}

use Step::{End, Execute, Fill, Lose, Reply, Send, Settle, Take};

const READER: &[Step] = &[Take, Reply, Fill];
const WRITERS: [&[Step]; 5] = [
    &[Send, Execute, Settle(Outcome::Applied)],
    &[Send, Settle(Outcome::Refused)],
    &[Send, Execute, Lose, End],
    &[Send, Lose, Execute, End],
    &[Send, Lose, End],
];
const SCOPES: [fn(Key<'_>) -> Sent; 3] = [
    |key| Sent::Key { namespace: key.namespace, hash: key.hash },
    |key| Sent::Collection(key.namespace),
    |key| Sent::Origin(key.namespace.origin),
];
const QUARANTINE: Duration = Duration::from_secs(1);

/// One client: its operation, its progress, and its lease or write.
#[derive(Default)]
struct Client {
    steps: &'static [Step],
    scope: usize,
    done: usize,
    write: Option<Write>,
    grant: Option<Grant>,
    reply: u32,
}

struct World {
    storage: MemoryStorage,
    principal: Principal,
    now: Duration,
    /// Value at the origin; each write increments it.
    value: u32,
    key: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let config = storage::Config { quarantine: QUARANTINE, ..storage::Config::default() };
        let storage = MemoryStorage::new(config, 1);
        let mut standing = Standing::new(QUARANTINE);
        standing.settle(Finding::Proven(Proof::Unrestricted), Duration::ZERO);
        let principal = standing.receiver().expect("proven").clone();
        Self { storage, principal, now: Duration::ZERO, value: 0, key: Vec::new() }
    }

    fn key(key: &[u8]) -> Key<'_> {
        Key::new(Namespace::new(0, "origin", b"shop", b"users"), key)
    }

    /// Runs one interleaving of the clients' steps, with or without a previously stored answer.
    ///
    /// # Errors
    /// A served value that the origin does not hold, and the steps that led to it.
    fn run(&mut self, stored: bool, order: &[usize], clients: &mut [Client]) -> Result<(), String> {
        // A new key each time, so that nothing of an earlier run affects this one.
        self.value += 1;
        self.key = self.value.to_le_bytes().to_vec();
        if stored {
            let mut first = Client { steps: READER, ..Client::default() };
            READER.iter().for_each(|step| self.step(*step, &mut first));
        }
        assert_eq!(self.served().is_some(), stored);
        for (place, &client) in order.iter().enumerate() {
            let client = &mut clients[client];
            let step = client.steps[client.done];
            client.done += 1;
            self.step(step, client);
            if let Some(served) = self.served().filter(|served| *served != self.value) {
                let programs: Vec<_> =
                    clients.iter().map(|client| (client.scope, client.steps)).collect();
                let (order, value) = (&order[..=place], self.value);
                return Err(format!("{served}, not {value}, after {order:?} of {programs:?}"));
            }
        }
        Ok(())
    }

    fn step(&mut self, step: Step, client: &mut Client) {
        let bytes = self.key.clone();
        let (key, now) = (Self::key(&bytes), self.now);
        let storage = &mut self.storage;
        match step {
            Send => client.write = Some(storage.write_sent(SCOPES[client.scope](key))),
            Execute => self.value += 1,
            Settle(outcome) => {
                client
                    .write
                    .take()
                    .into_iter()
                    .for_each(|write| storage.write_settled(write, outcome));
            }
            Lose => {
                client.write.take().into_iter().for_each(|write| storage.write_lost(write, now));
            }
            End => {
                self.now += QUARANTINE;
                storage.advance(self.now);
            }
            Take => {
                let question = Question { key, variant: b"", principal: Some(&self.principal) };
                if let Answer::Miss(grant) = storage.read(question, None, now, |_| {}) {
                    client.grant = grant.ok();
                }
            }
            Reply => client.reply = self.value,
            Fill => {
                if let Some(grant) = client.grant.take() {
                    let given = Given {
                        key,
                        variant: b"",
                        principal: &self.principal,
                        answer: &client.reply.to_le_bytes(),
                        asked_at: now,
                        expires_at: None,
                    };
                    let _either = storage.fill(grant.lease, given, now);
                }
            }
        }
    }

    /// The value that storage serves now.
    fn served(&mut self) -> Option<u32> {
        let mut served = None;
        let hit =
            |answer: &[u8]| served = Some(u32::from_le_bytes(answer.try_into().expect("a number")));
        let key = Self::key(&self.key);
        let question = Question { key, variant: b"", principal: Some(&self.principal) };
        let answer = self.storage.read(question, None, self.now, hit);
        if let Answer::Miss(Ok(grant)) = answer {
            self.storage.release(grant.lease);
        }
        served
    }
}

/// Calls `visit` with every interleaving of the remaining steps (`left`) of each client.
fn orders(left: &mut [usize], order: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
    if left.iter().all(|left| *left == 0) {
        return visit(order);
    }
    for client in 0..left.len() {
        if left[client] > 0 {
            left[client] -= 1;
            order.push(client);
            orders(left, order, visit);
            order.pop();
            left[client] += 1;
        }
    }
}

/// Excludes the orders in which a quarantine elapses before the origin has executed a lost write:
/// the quarantine is longer than that.
fn is_possible(order: &[usize], programs: &[(&'static [Step], usize)]) -> bool {
    let mut done = vec![0; programs.len()];
    order.iter().all(|&client| {
        let step = programs[client].0[done[client]];
        done[client] += 1;
        step != End
            || programs.iter().zip(&done).all(|((steps, _), &done)| {
                let lost = steps[..done].contains(&Lose);
                !(lost && steps[done..].contains(&Execute))
            })
    })
}

/// Returns the number of interleavings, or the description of the first violation.
fn explore(
    stored: bool,
    programs: &[(&'static [Step], usize)],
    possible: impl Fn(&[usize]) -> bool,
) -> Result<usize, String> {
    let mut world = World::new();
    let mut left: Vec<_> = programs.iter().map(|(steps, _)| steps.len()).collect();
    let (mut count, mut fault) = (0, None);
    orders(&mut left, &mut Vec::new(), &mut |order| {
        if fault.is_none() && possible(order) {
            let client = |&(steps, scope)| Client { steps, scope, ..Client::default() };
            let mut clients: Vec<_> = programs.iter().map(client).collect();
            fault = world.run(stored, order, &mut clients).err();
            count += 1;
        }
    });
    assert!(fault.is_some() || world.storage.is_idle(), "storage is not idle after {programs:?}");
    fault.map_or(Ok(count), Err)
}

fn holds(stored: bool, programs: &[(&'static [Step], usize)]) -> usize {
    let count = explore(stored, programs, |order| is_possible(order, programs));
    count.unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn of_two_writers_and_a_reader() {
    let mut count = 0;
    for (place, first) in WRITERS.into_iter().enumerate() {
        for second in &WRITERS[place..] {
            // Two writes that are lost in different ways add interleavings but no new case.
            if first.contains(&Lose) && second.contains(&Lose) && first != *second {
                continue;
            }
            for scopes in 0..9 {
                count += holds(true, &[(first, scopes / 3), (second, scopes % 3), (READER, 0)]);
            }
        }
    }
    assert!(count > 100_000, "{count} orders");
}

#[test]
fn of_a_writer_and_two_readers() {
    for writer in WRITERS {
        for scope in 0..3 {
            for stored in [true, false] {
                holds(stored, &[(writer, scope), (READER, 0), (READER, 0)]);
            }
        }
    }
}

/// Clients that break one rule each: the model finds a violation for each rule.
#[test]
fn each_rule_is_needed() {
    let broken: [(&str, &'static [Step], &'static [Step]); 5] = [
        ("a lease is taken after the reply", WRITERS[0], &[Reply, Take, Fill]),
        ("a scope is closed after the write was sent", &[Execute, Send, Lose], READER),
        ("a quarantine ends before the write is executed", &[Send, Lose, End, Execute], READER),
        ("a scope is opened before the reply", &[Send, Settle(Outcome::Applied), Execute], READER),
        (
            "a write that was applied counts as refused",
            &[Send, Execute, Settle(Outcome::Refused)],
            READER,
        ),
    ];
    for (rule, writer, reader) in broken {
        for scope in 0..3 {
            let fault = explore(true, &[(writer, scope), (reader, 0)], |_| true);
            eprintln!("{rule}: {}", fault.expect_err(rule));
        }
    }
}
