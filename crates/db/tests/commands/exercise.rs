//! Any bytes as the input of a client: nothing panics, and the output consists of whole replies.
//! Shared by tests and the fuzz target.

use std::{cell::RefCell, collections::BTreeMap, io, ops::DerefMut, time::Duration};

use db::{Host, Server, Session, Shard, batch::Batch, keyspace::Shards, parameters::Parameters};
use store::{
    Faults, SimulatedDevice,
    device::carry_out,
    elastic::{Config, Elastic, Sync},
};
use wire::resp::{Limits, frame, request};

/// A host without files, clocks or threads.
pub(crate) struct NoHost;

impl Host for NoHost {
    fn resident_bytes(&self) -> u64 {
        0
    }
    fn read_users(&self) -> io::Result<Option<String>> {
        Ok(None)
    }
    fn write_users(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }
    fn shut_down(&self) {}
    fn memory_for_shards(&self, bytes: u64) -> u64 {
        bytes
    }
    fn memory_for_process(&self, bytes: u64) -> u64 {
        bytes
    }
    fn has_orchestrator(&self) -> bool {
        false
    }

    fn random_bytes(&self, count: usize) -> Vec<u8> {
        vec![0; count]
    }
    fn process_id(&self) -> u32 {
        0
    }
    fn port(&self) -> u16 {
        0
    }
}

pub(crate) struct Cells(pub(crate) Vec<RefCell<Shard>>);

impl Shards for Cells {
    type Guard<'a> = std::cell::RefMut<'a, Shard>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn lock(&self, index: usize) -> Self::Guard<'_> {
        self.0[index].borrow_mut()
    }
}

/// Number of requests that are executed as one batch.
const BATCH: usize = 4;
pub(crate) const NOW: Duration = Duration::from_secs(1_700_000_000);

/// Executes `bytes` as the input of a client; returns the number of commands.
pub(crate) fn exercise(bytes: &[u8]) -> usize {
    let mut commands = 0;
    let devices: Vec<SimulatedDevice> =
        (0..2).map(|_| SimulatedDevice::new(1, Faults::default())).collect();
    let config = || Config { memory_bytes: 4 << 20, segment_bytes: 64 << 10, ..Config::default() };
    let open = |device| Elastic::open(config(), device, NOW).expect("an empty store");
    let open = |device| Shard::new("shard", open(device));
    let shards = Cells(devices.iter().map(|device| RefCell::new(open(device))).collect());
    let parameters = Parameters::new(8 << 20, 10, Sync::EverySecond, BTreeMap::new());
    let server = Server::new(&db::ROWS, Box::new(NoHost), parameters, 1, NOW);
    let client = server.clients.enter(String::new(), String::new(), 0, |_| Box::new(|| {}));
    let mut session = Session::new(client, &server);
    let limits =
        Limits { bulk_bytes_max: 1 << 16, request_bytes_max: 1 << 18, ..Limits::default() };
    let serve_disk = || {
        for (cell, device) in shards.0.iter().zip(&devices) {
            let mut shard = cell.borrow_mut();
            let shard = shard.deref_mut();
            while let Some(command) = shard.store.poll_device(NOW) {
                shard.store.complete(carry_out(device, &command), NOW);
            }
            while let Some(client) = shard.poll_arrived() {
                if let Some(client) = server.clients.find(client) {
                    client.arrived();
                }
            }
        }
    };
    let (mut at, mut out) = (0, Vec::new());
    loop {
        let mut requests = Vec::new();
        while requests.len() < BATCH
            && let Ok(Some((request, taken))) = request::decode(&bytes[at..], &limits)
        {
            requests.push(request);
            at += taken;
        }
        if requests.is_empty() {
            break;
        }
        commands += requests.len();
        let (mut left, mut tries) = (&requests[..], 0);
        while !left.is_empty() {
            let batch = Batch::of(left, session.database(), &shards, true);
            while let [request, behind @ ..] = left {
                let args: Vec<&[u8]> = request.arguments().collect();
                let step = session.execute(&args, &server, &batch, &mut out, NOW);
                tries += 1;
                if !matches!(step, db::Step::Done | db::Step::Sleep(_)) && tries < 64 {
                    break;
                }
                session.hear(&mut out);
                (left, tries) = (behind, 0);
            }
            drop(batch);
            serve_disk();
        }
    }
    // The output consists of complete replies.
    let mut rest = &out[..];
    while !rest.is_empty() {
        let decoded = frame::decode(rest, &Limits::default()).expect("a reply");
        rest = &rest[decoded.expect("a whole reply").1..];
    }
    commands
}
