//! An admitted command and the shards it needs: locking, loading of keys, execution, notifications.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use store::elastic::Position;

use super::{Scene, Session, Step};
use crate::{
    call::Call,
    command::table,
    failure::{Failure, TOO_MUCH_AT_ONCE},
    keyspace::{Held, Keyspace, Loads, Shards, shard_of},
    outcome::Outcome,
    reply::Reply,
    row::{Flags, Row, Scope},
    server::Server,
    shard::Shard,
};

impl Session {
    /// Executes an admitted command with the shards it needs.
    pub(super) fn perform<S: Shards>(
        &mut self,
        row: &'static Row,
        args: &[&[u8]],
        scene: &mut Scene<'_, S>,
    ) -> Step {
        let count = scene.shards.count();
        let mut wanted = SmallVec::<[usize; 8]>::new();
        match row.scope {
            Scope::None => {}
            Scope::All => wanted.extend(0..count),
            Scope::Keys => {
                for at in row.keys.of(args.len()) {
                    let index = shard_of(self.connection.database, args[at], count);
                    if !wanted.contains(&index) {
                        wanted.push(index);
                    }
                }
            }
        }
        if let [index] = *wanted {
            let mut shard = scene.shards.lock(index);
            let mut keys = self.keyspace(Held::One(index, &mut shard), scene);
            return self.with_keys(row, args, &mut keys, scene);
        }
        wanted.sort_unstable();
        let mut guards: SmallVec<[S::Guard<'_>; 16]> =
            wanted.iter().map(|&index| scene.shards.lock(index)).collect();
        let mut keys = self.keyspace(Held::Many(spread(&mut guards, &wanted, count)), scene);
        self.with_keys(row, args, &mut keys, scene)
    }

    pub(super) fn keyspace<'k, S: Shards>(
        &self,
        held: Held<'k>,
        scene: &Scene<'_, S>,
    ) -> Keyspace<'k> {
        Keyspace {
            held,
            count: scene.shards.count(),
            database: self.connection.database,
            client: self.connection.client.id,
            now: scene.now,
            loads: Loads::new(scene.may_wait, scene.server.parameters.command_bytes_max()),
        }
    }

    fn with_keys<S>(
        &mut self,
        row: &'static Row,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Step {
        let start = scene.out.len();
        let outcome = self.load_and_run(row, args, keys, scene);
        let outcome = outcome.unwrap_or_else(|failure| {
            keys.release_missing();
            scene.out.truncate(start);
            self.refuse(&failure, scene);
            Outcome::Done
        });
        self.end(outcome, keys, scene.server)
    }

    /// Ends an execution as `outcome` says. The shards are still held: nothing can arrive unnoticed
    /// that it waits for, and its effects are not visible before other clients are notified.
    pub(super) fn end(
        &mut self,
        outcome: Outcome,
        keys: &mut Keyspace<'_>,
        server: &Server,
    ) -> Step {
        let step = match outcome {
            Outcome::Done | Outcome::Flushed => Step::Done,
            Outcome::Sleep(pause) => Step::Sleep(pause),
            Outcome::Wait => {
                let (missing, bytes) = keys.loads.take();
                let client = &self.connection.client;
                self.waiting.add(missing.into_iter(), bytes, client, server);
                server.stats.waits.fetch_add(1, Relaxed);
                return Step::Wait;
            }
            Outcome::Queue => {
                self.waiting.queue(&self.connection.client, server);
                return Step::Wait;
            }
            Outcome::Again => return Step::Again,
            Outcome::Busy => return Step::Busy,
        };
        debug_assert!(keys.pending().is_none(), "what is answered waits for nothing");
        self.settle(keys, server);
        if outcome == Outcome::Flushed {
            server.clients.invalidate_all();
        }
        step
    }

    fn load_and_run<S>(
        &mut self,
        row: &'static Row,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Result<Outcome, Failure> {
        if row.scope == Scope::None {
            return self.run(row, args, keys, scene);
        }
        let database = keys.database;
        let replaces = row.replaces(args.len());
        for at in row.keys.of(args.len()) {
            let loaded = keys.load(database, args[at], row.is(Flags::WRITE));
            // Damaged data can be replaced; where it cannot, the write fails.
            loaded.or_else(|why| if replaces && why.is_of_disk() { Ok(()) } else { Err(why) })?;
        }
        if let Some(pending) = keys.pending() {
            return Ok(pending);
        }
        if row.is(Flags::WRITE) && !keys.accept(row.frees)? {
            return Ok(Outcome::Busy);
        }
        self.run(row, args, keys, scene)
    }

    /// Executes a command whose keys are all loaded.
    pub(super) fn run<S>(
        &mut self,
        row: &'static Row,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Result<Outcome, Failure> {
        let reply = Reply::within(&mut *scene.out, self.connection.version, scene.reply_end_max);
        let connection = &mut self.connection;
        let mut call = Call { args, keys, connection, server: scene.server, reply };
        let outcome = table::handler(row)(&mut call)?;
        if call.reply.is_cut {
            return Err(TOO_MUCH_AT_ONCE);
        }
        if row.is(Flags::READONLY)
            && let Some(no_loop) = self.connection.tracking.remembers()
        {
            let (database, client) = (keys.database, self.connection.client.id);
            for at in row.keys.of(args.len()) {
                keys.remember(database, args[at], client, no_loop);
            }
        }
        Ok(outcome)
    }

    /// Notifies tracking clients of changes, and records the position that must become durable.
    fn settle(&mut self, keys: &mut Keyspace<'_>, server: &Server) {
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
