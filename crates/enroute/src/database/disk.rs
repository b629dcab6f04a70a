//! The threads that carry out what shards ask of their devices.
//!
//! Workers read by rings of their own ([`Ring`]) where the system allows it. The other reads have
//! threads of their own, so that no lookup waits behind a sync. Whoever holds a shard
//! takes its commands ([`pump`]); whoever carries one out gives the result back under the lock,
//! wakes whom it concerns, and takes what the shard wants next.

use std::{
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use db::Shard;
use smallvec::SmallVec;
use store::{
    FileDevice,
    device::{Completion, DeviceCommand, FileName, Operation, carry_out},
    elastic::Error,
};

use super::{Shared, durable::Durable, queue::Queue, ring::Ring};

/// Threads that write and sync: one for each of the usual number of shards.
pub(super) const WRITERS: usize = 4;

/// Commands for one kind of threads, each with its shard.
pub(super) type Commands = Queue<(usize, DeviceCommand)>;

/// Who hands a shard's commands over.
pub(super) enum By<'a> {
    /// A worker, which has a ring for its reads, or upkeep for what it reads ahead.
    Ring(&'a mut Ring),
    /// A thread that takes its next command from this queue.
    Serving(&'a Commands),
    /// Anybody else.
    Others,
}

/// The devices of all shards, and what is asked of them.
pub(super) struct Disk {
    devices: Vec<Arc<FileDevice>>,
    reads: Commands,
    writes: Commands,
    pub(super) durable: Durable,
    ended: AtomicBool,
}

impl Disk {
    pub(super) fn new(devices: Vec<Arc<FileDevice>>, workers: usize) -> Self {
        let durable = Durable::new(devices.len(), workers);
        let (reads, writes) = (Queue::new(), Queue::new());
        Self { devices, reads, writes, durable, ended: AtomicBool::new(false) }
    }

    /// Takes what a shard, which the caller holds, asks of its device.
    pub(super) fn pump(&self, index: usize, shard: &mut Shard, now: Duration) {
        self.pump_by(By::Others, index, shard, now);
    }

    /// The same by somebody who carries out some of it.
    pub(super) fn pump_by(&self, mut by: By<'_>, index: usize, shard: &mut Shard, now: Duration) {
        while let Some(command) = shard.poll_device(now) {
            let left = match &mut by {
                By::Ring(ring) => ring.push(index, &self.devices[index], command),
                By::Serving(_) | By::Others => Err(command),
            };
            if let Err(command) = left {
                let is_read = matches!(command.operation, Operation::Read { .. });
                let queue = if is_read { &self.reads } else { &self.writes };
                let serves = matches!(by, By::Serving(own) if ptr::eq(own, queue));
                queue.push((index, command), serves);
            }
        }
        let failed = matches!(shard.store.accepts_writes(), Err(Error::WriteFailed { .. }));
        self.durable.publish(index, shard.store.durable_up_to(), failed);
    }

    /// Are the threads to end?
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Lets the threads end once nothing is queued.
    pub(super) fn end(&self) {
        self.ended.store(true, SeqCst);
        self.reads.end();
        self.writes.end();
    }
}

/// Carries out reads until the end.
pub(super) fn read(shared: &Shared) {
    serve(shared, &shared.disk.reads);
}

/// Carries out everything else until the end.
pub(super) fn write(shared: &Shared) {
    serve(shared, &shared.disk.writes);
}

fn serve(shared: &Shared, queue: &Commands) {
    let disk = &shared.disk;
    while let Some((index, command)) = queue.pop() {
        let began = Instant::now();
        let completion = carry_out(&*disk.devices[index], &command);
        let is_read = matches!(command.operation, Operation::Read { .. });
        let (file, began) = (command.file, is_read.then_some(began));
        // The store uses the buffer again.
        drop(command);
        complete(shared, By::Serving(queue), Ended { shard: index, file, completion, began });
        disk.durable.holders().for_each(|worker| shared.post.inbox(worker).wake());
    }
}

/// A command that was carried out.
pub(super) struct Ended {
    pub(super) shard: usize,
    pub(super) file: FileName,
    pub(super) completion: Completion,
    /// When it was begun, if it was a read.
    pub(super) began: Option<Instant>,
}

/// Gives a result back to its shard, wakes whom it concerns, and takes what the shard wants next.
pub(super) fn complete(shared: &Shared, by: By<'_>, ended: Ended) {
    let Ended { shard: index, file, completion, began } = ended;
    if let Some(began) = began {
        let stats = &shared.server.stats;
        stats.disk_reads.fetch_add(1, SeqCst);
        stats.disk_read_ns.fetch_add(began.elapsed().as_nanos() as u64, SeqCst);
    }
    if let Err(error) = &completion.result {
        tracing::error!(shard = index, %file, "disk I/O failed: {error}");
    }
    let now = shared.now();
    let mut arrived = SmallVec::<[u64; 4]>::new();
    let (is_for_upkeep, notices) = {
        let mut shard = shared.locks.hold(index);
        let is_for_upkeep = shard.store.complete(completion, now);
        while let Some(client) = shard.poll_arrived() {
            arrived.push(client);
        }
        shared.disk.pump_by(by, index, &mut shard, now);
        (is_for_upkeep, shard.tracking.take_notices())
    };
    // It goes on at once, as writes may wait for compaction.
    if is_for_upkeep && let Some(keeper) = shared.keeper.get() {
        keeper.unpark();
    }
    for id in arrived {
        if let Some(client) = shared.server.clients.find(id) {
            client.arrived();
        }
    }
    shared.server.deliver(notices);
}

/// Gives the shards what the reads of a ring have brought; `ended` is empty before and after.
pub(super) fn take_reads(shared: &Shared, ring: &mut Ring, ended: &mut Vec<Ended>) {
    ring.take(ended);
    for ended in ended.drain(..) {
        complete(shared, By::Ring(ring), ended);
    }
}

/// Brings everything written to the disk, and has every shard note that it was ended in order; false if that
/// took longer than `limit` or failed.
pub(super) fn close(shared: &Shared, limit: Duration) -> bool {
    let began = Instant::now();
    let shards = 0..shared.locks.len();
    for index in shards.clone() {
        let mut shard = shared.locks.hold(index);
        shard.store.close();
        shared.disk.pump(index, &mut shard, shared.now());
    }
    shards.into_iter().all(|index| {
        while !shared.locks.hold(index).store.is_closed() {
            if began.elapsed() > limit || shared.disk.durable.has_failed(index) {
                return false;
            }
            std::thread::sleep(CLOSE_LOOK);
        }
        true
    })
}

/// Between two looks whether everything is on disk.
const CLOSE_LOOK: Duration = Duration::from_millis(1);
