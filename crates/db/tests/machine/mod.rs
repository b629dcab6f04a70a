//! A database without threads, sockets or clock: shards on simulated disks, and clients that
//! execute commands in turns. Shared by tests.

use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};

use db::{
    Host, ROWS, Server, Session, Shard, Step, batch::Batch, keyspace::Shards,
    parameters::Parameters,
};
use store::{
    Faults, SimulatedDevice,
    device::carry_out,
    elastic::{Config, Elastic, Position, Sync},
};
use wire::resp::{Limits, request};

/// Divisor of the process's memory budget for the shards.
const SHARDS_SHARE: u64 = 16;
/// Number of turns within which a disk must become idle, and a client must be answered.
const TURNS_MAX: usize = 100_000;

/// A host that has a file of users and nothing else.
#[derive(Default)]
struct Process {
    users: Mutex<Option<String>>,
}

impl Host for Process {
    fn resident_bytes(&self) -> u64 {
        0
    }
    fn read_users(&self) -> io::Result<Option<String>> {
        Ok(self.users.lock().expect("not poisoned").clone())
    }
    fn write_users(&self, text: &str) -> io::Result<bool> {
        *self.users.lock().expect("not poisoned") = Some(text.to_owned());
        Ok(true)
    }
    fn shut_down(&self) {}
    fn memory_for_shards(&self, bytes: u64) -> u64 {
        bytes / SHARDS_SHARE
    }
    fn memory_for_process(&self, bytes: u64) -> u64 {
        bytes * SHARDS_SHARE
    }
    fn has_orchestrator(&self) -> bool {
        false
    }
    fn random_bytes(&self, count: usize) -> Vec<u8> {
        vec![0xab; count]
    }
    fn process_id(&self) -> u32 {
        1
    }
    fn port(&self) -> u16 {
        6_379
    }
}

/// The shards of a single thread.
pub(crate) struct Cells(Vec<RefCell<Shard>>);

impl Shards for Cells {
    type Guard<'a> = RefMut<'a, Shard>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn lock(&self, index: usize) -> Self::Guard<'_> {
        self.0[index].borrow_mut()
    }
}

/// Parameters of a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) shards: usize,
    /// Of the whole process.
    pub(crate) memory_bytes: u64,
    pub(crate) sync: Sync,
    pub(crate) seed: u64,
}

pub(crate) struct Machine {
    setup: Setup,
    devices: Vec<SimulatedDevice>,
    pub(crate) shards: Cells,
    pub(crate) server: Server,
    pub(crate) now: Duration,
}

impl Machine {
    pub(crate) fn new(setup: Setup) -> Self {
        let now = Duration::from_secs(1_700_000_000);
        let device = |index| SimulatedDevice::new(setup.seed + index, Faults::default());
        let devices: Vec<_> = (0..setup.shards as u64).map(device).collect();
        let (shards, server) = start(&setup, &devices, now);
        Self { setup, devices, shards, server, now }
    }

    pub(crate) fn client(&self) -> Client {
        let now_ms = self.now.as_millis() as u64;
        let place = || ("127.0.0.1:1".to_owned(), "127.0.0.1:6379".to_owned());
        let (address, local) = place();
        let client = self.server.clients.enter(address, local, now_ms, |_| Box::new(|| {}));
        Client {
            session: Session::new(client, &self.server),
            given: VecDeque::new(),
            output: Vec::new(),
            holds: VecDeque::new(),
            past: 0,
        }
    }

    /// Executes one pending disk operation of shard `index`; false if there is none.
    pub(crate) fn serve_disk(&self, index: usize) -> bool {
        let mut shard = self.shards.lock(index);
        let Some(command) = shard.poll_device(self.now) else { return false };
        let completion = carry_out(&self.devices[index], &command);
        drop(command);
        shard.store.complete(completion, self.now);
        while let Some(client) = shard.poll_arrived() {
            if let Some(client) = self.server.clients.find(client) {
                client.arrived();
            }
        }
        true
    }

    /// Runs a portion of the upkeep of shard `index`; true while there is more.
    pub(crate) fn look_after(&self, index: usize) -> bool {
        let (more, notices) = {
            let mut shard = self.shards.lock(index);
            let more = shard.expire(self.now) | shard.step(self.now);
            (more, shard.tracking.take_notices())
        };
        self.server.deliver(notices);
        more
    }

    /// Runs disks and upkeep until nothing is pending.
    pub(crate) fn rest(&self) {
        for _ in 0..TURNS_MAX {
            let busy = (0..self.setup.shards)
                .map(|index| self.serve_disk(index) | self.look_after(index))
                .fold(false, |busy, more| busy | more);
            if !busy {
                return;
            }
        }
        panic!("the device does not become idle");
    }

    /// Stops the process cleanly and starts it again.
    pub(crate) fn restart(&mut self) {
        for index in 0..self.setup.shards {
            self.shards.lock(index).store.close();
            let is_closed = || self.shards.lock(index).store.is_closed();
            while !is_closed() {
                assert!(self.serve_disk(index), "it never closes");
            }
        }
        (self.shards, self.server) = start(&self.setup, &self.devices, self.now);
    }

    /// A power failure: data that is not durable may be lost.
    pub(crate) fn crash(&mut self) {
        self.devices.iter().for_each(|device| device.restart(Faults::default()));
        (self.shards, self.server) = start(&self.setup, &self.devices, self.now);
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.setup.shards
    }

    /// Makes everything durable, whatever `sync` is.
    pub(crate) fn flush(&self) {
        for index in 0..self.setup.shards {
            let position = self.shards.lock(index).store.flush();
            while self.shards.lock(index).store.durable_up_to() < position {
                assert!(self.serve_disk(index), "it is never durable");
            }
        }
    }

    /// Asserts that each idle shard has its latest part of the budget and does not exceed it.
    pub(crate) fn check_memory(&self) {
        let process = self.server.parameters.memory_bytes.load(Relaxed);
        let part = self.server.host.memory_for_shards(process) as usize / self.setup.shards;
        for index in 0..self.setup.shards {
            let shard = self.shards.lock(index);
            assert_eq!(shard.store.memory_bytes(), part, "of shard {index}");
            let (held, budget) = (shard.store.bytes_held(), part.max(Elastic::MEMORY_BYTES_MIN));
            assert!(held <= budget, "shard {index} holds {held} bytes of {budget}");
        }
    }

    fn is_durable(&self, hold: &Hold) -> bool {
        self.shards.lock(hold.shard).store.durable_up_to() >= hold.position
    }
}

fn start(setup: &Setup, devices: &[SimulatedDevice], now: Duration) -> (Cells, Server) {
    let host = Process::default();
    let memory_bytes = host.memory_for_shards(setup.memory_bytes) as usize / setup.shards;
    let (sync, segment_bytes) = (setup.sync, 64 << 10);
    let config = || Config { memory_bytes, segment_bytes, sync, ..Config::default() };
    let open = |device| Elastic::open(config(), device, now).expect("it opens");
    let shards = devices.iter().map(|device| RefCell::new(Shard::new("shard", open(device))));
    let shards = Cells(shards.collect());
    let parameters = Parameters::new(setup.memory_bytes, 100, sync, BTreeMap::new());
    (shards, Server::new(&ROWS, Box::new(host), parameters, setup.seed, now))
}

/// A reply that must not be sent before its write is durable.
struct Hold {
    /// Offset of its first byte in the output since the start.
    start: u64,
    shard: usize,
    position: Position,
}

/// A client and its session.
pub(crate) struct Client {
    pub(crate) session: Session,
    /// Requests that were sent and are not complete.
    given: VecDeque<Vec<Vec<u8>>>,
    output: Vec<u8>,
    holds: VecDeque<Hold>,
    /// Bytes that were delivered.
    past: u64,
}

/// The result of a client's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// No request is left.
    Idle,
    /// One command was answered; the reply is due after this time.
    Answered(Duration),
    /// Its command waits for the disk, or for other clients.
    Waits,
    /// Its command was executed in part.
    Again,
}

impl Client {
    /// Sends `bytes`, which are whole requests.
    pub(crate) fn say(&mut self, mut bytes: &[u8]) {
        while let Some((request, taken)) =
            request::decode(bytes, &Limits::default()).expect("well-formed")
        {
            self.given.push_back(request.arguments().map(<[u8]>::to_vec).collect());
            bytes = &bytes[taken..];
        }
        assert!(bytes.is_empty(), "a part of a request");
    }

    /// The next command.
    pub(crate) fn next(&self) -> Option<&[Vec<u8>]> {
        self.given.front().map(Vec::as_slice)
    }

    /// Bytes written for it so far, delivered or not.
    pub(crate) fn written(&self) -> u64 {
        self.past + self.output.len() as u64
    }

    /// Output written for it after the given number of bytes, delivered or not; none of it was
    /// taken.
    pub(crate) fn since(&self, written: u64) -> &[u8] {
        &self.output[usize::try_from(written - self.past).expect("not taken yet")..]
    }

    /// Bytes that were delivered and taken.
    pub(crate) fn past(&self) -> u64 {
        self.past
    }

    /// Returns whether it has sent a request that is not completed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.given.is_empty()
    }

    /// Executes its next command, or a portion of it; with `ahead`, with the rest of the input
    /// after it.
    pub(crate) fn turn(&mut self, machine: &Machine, ahead: bool) -> Turn {
        if !self.session.client().is_ready() {
            return Turn::Waits;
        }
        let Some(first) = self.given.front() else {
            self.session.hear(&mut self.output);
            return Turn::Idle;
        };
        let args: Vec<&[u8]> = first.iter().map(Vec::as_slice).collect();
        self.session.hear(&mut self.output);
        let start = self.past + self.output.len() as u64;
        let Machine { server, shards, now, .. } = machine;
        let step = if ahead {
            let mut bytes = Vec::new();
            self.given.iter().for_each(|args| request::write_command(&mut bytes, args));
            let (mut requests, mut at) = (Vec::new(), 0);
            while let Ok(Some((request, taken))) = request::decode(&bytes[at..], &Limits::default())
            {
                requests.push(request);
                at += taken;
            }
            let batch = Batch::of(&requests, self.session.database(), shards, true);
            self.session.execute(&args, server, &batch, &mut self.output, *now)
        } else {
            self.session.execute(&args, server, shards, &mut self.output, *now)
        };
        let unsynced: Vec<_> = self.session.take_unsynced().collect();
        if server.parameters.sync() == Sync::Always {
            let hold = |(shard, position)| Hold { start, shard, position };
            self.holds.extend(unsynced.into_iter().map(hold));
        }
        let pause = match step {
            Step::Done => Duration::ZERO,
            Step::Sleep(pause) => pause,
            Step::Wait => return Turn::Waits,
            Step::Again => return Turn::Again,
            Step::Busy => return Turn::Waits,
        };
        self.given.pop_front();
        self.session.hear(&mut self.output);
        Turn::Answered(pause)
    }

    /// The output that may have been sent and was not taken yet.
    pub(crate) fn heard(&mut self, machine: &Machine) -> &[u8] {
        while self.holds.front().is_some_and(|hold| machine.is_durable(hold)) {
            self.holds.pop_front();
        }
        let end = self.holds.front().map_or(self.output.len(), |hold| {
            usize::try_from(hold.start - self.past).unwrap_or(self.output.len())
        });
        &self.output[..end]
    }

    /// Takes `count` of the delivered bytes.
    pub(crate) fn take(&mut self, count: usize) {
        self.output.drain(..count);
        self.past += count as u64;
    }

    /// Disconnects.
    pub(crate) fn leave(mut self, machine: &Machine) {
        self.session.close(&machine.server, &machine.shards);
    }
}
