//! The threads that execute the device commands of shards.
//!
//! Workers read through their own io_uring ([`Ring`]) where the system allows it. Other reads have
//! separate threads, so that no lookup waits for a sync. The thread that holds the lock of a shard
//! takes its commands ([`pump`]); the thread that executes one returns the result under the lock,
//! wakes the workers concerned, and takes the next commands of the shard.

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
    FileDevice, Ring,
    device::{Completion, DeviceCommand, FileName, Operation, carry_out},
    elastic::Error,
};

use super::{Shared, durable::Durable, queue::Queue};

/// Threads that write and sync: one for each of the usual number of shards.
pub(super) const WRITERS: usize = 4;

/// Commands for one kind of thread, each with its shard.
pub(super) type Commands = Queue<(usize, DeviceCommand)>;

/// Origin of a shard's commands.
pub(super) enum By<'a> {
    /// A worker, which has its own ring for reads, or upkeep for its read-ahead.
    Ring(&'a mut Ring<Begun>),
    /// A thread that takes its next command from this queue.
    Serving(&'a Commands),
    /// Any other thread.
    Others,
}

/// The devices of all shards, and their commands.
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

    /// Takes the device commands of a shard that the caller has locked.
    pub(super) fn pump(&self, index: usize, shard: &mut Shard, now: Duration) {
        self.pump_by(By::Others, index, shard, now);
    }

    /// The same for a caller that executes some of them.
    pub(super) fn pump_by(&self, mut by: By<'_>, index: usize, shard: &mut Shard, now: Duration) {
        while let Some(command) = shard.poll_device(now) {
            let left = match &mut by {
                By::Ring(ring) => {
                    let (file, is_read) = (command.file, is_read(&command));
                    let begun = || Begun { shard: index, file, at: is_read.then(Instant::now) };
                    ring.push(begun, &self.devices[index], command)
                }
                By::Serving(_) | By::Others => Err(command),
            };
            if let Err(command) = left {
                let queue = if is_read(&command) { &self.reads } else { &self.writes };
                let serves = matches!(by, By::Serving(own) if ptr::eq(own, queue));
                queue.push((index, command), serves);
            }
        }
        let failed = matches!(shard.store.accepts_writes(), Err(Error::WriteFailed { .. }));
        self.durable.publish(index, shard.store.durable_up_to(), failed);
    }

    /// The device of a shard.
    pub(super) fn device(&self, index: usize) -> &FileDevice {
        &self.devices[index]
    }

    /// Whether the threads must end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Tells the threads to end once the queue is empty.
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
        let at = is_read(&command).then(Instant::now);
        let begun = Begun { shard: index, file: command.file, at };
        let completion = carry_out(&*disk.devices[index], &command);
        // The store uses the buffer again.
        drop(command);
        complete(shared, By::Serving(queue), begun, completion);
        disk.durable.holders().for_each(|worker| shared.post.inbox(worker).wake());
    }
}

fn is_read(command: &DeviceCommand) -> bool {
    matches!(command.operation, Operation::Read { .. })
}

/// A command that is carried out, or was.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    shard: usize,
    file: FileName,
    /// Start time, if it is a read.
    at: Option<Instant>,
}

/// A transfer that a ring has carried out.
pub(super) type Ended = (Begun, Completion);

/// Returns a result to its shard, wakes the workers concerned, and takes the next commands of the
/// shard.
fn complete(shared: &Shared, by: By<'_>, begun: Begun, completion: Completion) {
    let Begun { shard: index, file, at } = begun;
    if let Some(began) = at {
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
    // It continues at once, as writes may wait for compaction.
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

/// Passes completed reads of a ring to the shards; `ended` is empty before and after.
pub(super) fn take_reads(shared: &Shared, ring: &mut Ring<Begun>, ended: &mut Vec<Ended>) {
    ring.take(ended);
    for (begun, completion) in ended.drain(..) {
        complete(shared, By::Ring(ring), begun, completion);
    }
}

/// Hands the commands in a ring over to the kernel.
pub(super) fn submit(ring: &mut Ring<Begun>) {
    if let Err(error) = ring.submit() {
        tracing::debug!("io_uring accepts no request, retrying: {error}");
    }
}

/// Syncs all writes to disk and marks every shard as cleanly closed; false if that failed or took
/// longer than `limit`.
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

/// Interval of checks whether everything is on disk.
const CLOSE_LOOK: Duration = Duration::from_millis(1);
