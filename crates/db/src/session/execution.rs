//! An admitted command and the shards it needs: held, its keys loaded, done, and told of.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use store::elastic::{Position, Ticket};

use super::{Scene, Session, Step};
use crate::{
    command::{Call, Command},
    failure::{Failure, TOO_MUCH_AT_ONCE},
    keyspace::{Held, Keyspace, Shards, shard_of},
    reply::Reply,
    row::{Flags, Scope},
    server::Server,
    shard::Shard,
};

impl Session {
    /// Executes an admitted command with the shards it needs.
    pub(super) fn perform<S: Shards>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        scene: &mut Scene<'_, S>,
    ) -> Step {
        let count = scene.shards.count();
        let mut wanted = SmallVec::<[usize; 8]>::new();
        match command.row.scope {
            Scope::None => {}
            Scope::All => wanted.extend(0..count),
            Scope::Keys => {
                for at in command.row.keys.of(args.len()) {
                    let index = shard_of(self.database, args[at], count);
                    if !wanted.contains(&index) {
                        wanted.push(index);
                    }
                }
            }
        }
        if let [index] = *wanted {
            let mut shard = scene.shards.lock(index);
            let mut keys = self.keyspace(Held::One(index, &mut shard), scene);
            return self.with_keys(command, args, &mut keys, scene);
        }
        wanted.sort_unstable();
        let mut guards: SmallVec<[S::Guard<'_>; 16]> =
            wanted.iter().map(|&index| scene.shards.lock(index)).collect();
        let mut keys = self.keyspace(Held::Many(spread(&mut guards, &wanted, count)), scene);
        self.with_keys(command, args, &mut keys, scene)
    }

    pub(super) fn keyspace<'k, S: Shards>(
        &self,
        held: Held<'k>,
        scene: &Scene<'_, S>,
    ) -> Keyspace<'k> {
        Keyspace {
            held,
            count: scene.shards.count(),
            database: self.database,
            client: self.client.id,
            now: scene.now,
            missing: SmallVec::new(),
            missing_bytes: 0,
            may_wait: self.may_wait,
            crowded: false,
            busy: false,
            load_bytes_left: scene.server.parameters.command_bytes_max(),
        }
    }

    fn with_keys<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Step {
        let start = scene.out.len();
        let outcome = self.load_and_run(command, args, keys, scene);
        if outcome.is_err() {
            keys.release_missing();
        }
        if !keys.missing.is_empty() {
            return self.park(keys, scene);
        }
        if keys.crowded {
            return self.queue(scene.server);
        }
        if keys.busy {
            return Step::Busy;
        }
        if std::mem::take(&mut self.again) {
            return Step::Again;
        }
        if let Err(failure) = outcome {
            scene.out.truncate(start);
            self.refuse(&failure, scene);
        }
        self.settle(keys, scene.server);
        self.sleep.take().map_or(Step::Done, Step::Sleep)
    }

    /// Waits for what is missing. The shards are still held, so nothing can arrive unnoticed.
    pub(super) fn park<S>(&mut self, keys: &mut Keyspace<'_>, scene: &Scene<'_, S>) -> Step {
        self.client.wait_for(keys.missing.len());
        self.tickets.extend(keys.missing.drain(..));
        let bytes_max = scene.server.parameters.waiting_bytes_max();
        scene.server.turns.keep(keys.missing_bytes, bytes_max);
        self.awaited_bytes += keys.missing_bytes;
        scene.server.stats.waits.fetch_add(1, Relaxed);
        Step::Wait
    }

    /// Waits for its turn to wait for the disk.
    pub(super) fn queue(&mut self, server: &Server) -> Step {
        self.is_queued = true;
        server.turns.join(&self.client, server.parameters.waiting_bytes_max());
        Step::Wait
    }

    fn load_and_run<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Result<(), Failure> {
        if command.row.scope == Scope::None {
            return self.run(command, args, keys, scene);
        }
        let database = keys.database;
        let replaces = command.row.replaces(args.len());
        for at in command.row.keys.of(args.len()) {
            let loaded = keys.load(database, args[at], command.row.is(Flags::WRITE));
            // What is damaged can be replaced; where it cannot, the write says so.
            loaded.or_else(|why| if replaces && why.is_of_disk() { Ok(()) } else { Err(why) })?;
        }
        if keys.must_wait() {
            return Ok(());
        }
        if command.row.is(Flags::WRITE) && !keys.accept(command.row.frees)? {
            return Ok(());
        }
        self.run(command, args, keys, scene)
    }

    /// Runs a command all of whose keys are loaded.
    pub(super) fn run<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Result<(), Failure> {
        let reply = Reply::within(&mut *scene.out, self.version, self.reply_end_max);
        let mut call =
            Call { args, keys, session: self, server: scene.server, reply, now: scene.now };
        (command.handler)(&mut call)?;
        if call.reply.is_cut {
            return Err(TOO_MUCH_AT_ONCE);
        }
        if command.row.is(Flags::READONLY)
            && let Some(no_loop) = self.tracking.remembers()
        {
            let (database, client) = (keys.database, self.client.id);
            for at in command.row.keys.of(args.len()) {
                keys.remember(database, args[at], client, no_loop);
            }
        }
        Ok(())
    }

    /// Tells others what has changed, and notes what is to become durable.
    pub(super) fn settle(&mut self, keys: &mut Keyspace<'_>, server: &Server) {
        let mut notices = Vec::new();
        for (index, shard) in keys.held_with_index() {
            if shard.tracking.has_notices() {
                notices.append(&mut shard.tracking.take_notices());
            }
            let position = std::mem::take(&mut shard.written);
            if position != Position::default() {
                self.unsynced.push((index, position));
            }
        }
        if !notices.is_empty() {
            server.deliver(notices);
        }
    }
}

pub(super) fn release<S: Shards>(tickets: Vec<(usize, Ticket)>, shards: &S) {
    for (index, ticket) in tickets {
        shards.lock(index).release(ticket);
    }
}

/// The shards of `guards`, each at its index.
pub(super) fn spread<'g, G: std::ops::DerefMut<Target = Shard>>(
    guards: &'g mut [G],
    indices: &[usize],
    count: usize,
) -> SmallVec<[Option<&'g mut Shard>; 16]> {
    let mut shards: SmallVec<[Option<&'g mut Shard>; 16]> = SmallVec::new();
    if !indices.is_empty() {
        shards.resize_with(count, || None);
    }
    for (guard, &index) in guards.iter_mut().zip(indices) {
        shards[index] = Some(&mut **guard);
    }
    shards
}
