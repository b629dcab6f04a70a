//! MULTI, EXEC and WATCH.
//!
//! WATCH remembers each key's version; EXEC compares. All shards of the transaction are held from
//! the comparison to the last command, so it is atomic to other clients; on disk it is atomic per
//! shard.

use std::time::Duration;

use super::{
    Scene, Session, Step,
    execution::spread,
    footprint::Footprint,
    selection::{Selection, changes_rights},
};
use crate::{
    command,
    connection::{Progress, Queue, Queued},
    failure::Failure,
    keyspace::{Held, Keyspace, Shards, shard_of},
    outcome::Outcome,
    reply::Reply,
    row::{Flags, Row, Scope},
};

impl Session {
    pub(super) fn execute_transaction<S: Shards>(&mut self, scene: &mut Scene<'_, S>) -> Step {
        let Some(queue) = self.connection.transaction.queue.take() else { return Step::Done };
        if queue.failed {
            self.connection.leave_transaction();
            let failure =
                Failure("EXECABORT Transaction discarded because of previous errors.".into());
            self.refuse(&failure, scene);
            return Step::Done;
        }
        let count = scene.shards.count();
        let wanted = self.shards_of(&queue, count);
        let mut guards: Vec<S::Guard<'_>> =
            wanted.iter().map(|&index| scene.shards.lock(index)).collect();
        let held = Held::Many(spread(&mut guards, &wanted, count));
        let mut keys = self.keyspace(held, scene);
        let (outcome, pause) = match self.load_transaction(&queue, &mut keys) {
            Ok(None) => self.run_transaction(&queue, &mut keys, scene),
            Ok(Some(again)) => {
                self.connection.transaction.queue = Some(queue);
                (again, Duration::ZERO)
            }
            Err(failure) => {
                keys.release_missing();
                self.connection.leave_transaction();
                self.refuse(&failure, scene);
                (Outcome::Done, Duration::ZERO)
            }
        };
        let step = self.end(outcome, &mut keys, scene.server);
        if pause.is_zero() { step } else { Step::Sleep(pause) }
    }

    /// Executes a transaction whose keys are all loaded; returns how it ended and how long its
    /// answer is delayed.
    fn run_transaction<S>(
        &mut self,
        queue: &Queue,
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> (Outcome, Duration) {
        let changed = self.connection.transaction.watched.iter().any(|watched| {
            keys.get_of(watched.database, &watched.key).map(|entry| entry.version)
                != watched.version
        });
        self.connection.leave_transaction();
        if changed {
            Reply::new(scene.out, self.connection.version).null_array();
            return (Outcome::Done, Duration::ZERO);
        }
        Reply::new(scene.out, self.connection.version).array(queue.commands.len());
        scene.reply_end_max = scene.out.len() + scene.server.parameters.command_bytes_max();
        // What asks from here on is refused, see below.
        keys.loads.allow();
        keys.held().for_each(|shard| shard.store.begin_step());
        let (mut outcome, mut pause) = (Outcome::Done, Duration::ZERO);
        for queued in &queue.commands {
            let run = |args: &[&[u8]]| self.run_queued(queued.row, args, keys, scene);
            match queued.with_args(run) {
                Outcome::Sleep(more) => pause += more,
                Outcome::Flushed => outcome = Outcome::Flushed,
                _ => {}
            }
        }
        keys.held().for_each(|shard| shard.store.end_step());
        self.connection.tracking.caching = None;
        (outcome, pause)
    }

    fn run_queued<S>(
        &mut self,
        row: &'static Row,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Outcome {
        let start = scene.out.len();
        let permitted = self.permit_queued(row, args);
        let outcome = permitted.and_then(|()| loop {
            // SELECT inside the transaction.
            keys.database = self.connection.database;
            match self.run(row, args, keys, scene)? {
                // The shards are locked: no other command can run in between.
                Outcome::Again => {}
                Outcome::Wait | Outcome::Queue | Outcome::Busy => {
                    return Err(Failure::new(format!(
                        "TRYAGAIN '{}' inside MULTI needs keys that are on disk; use it outside of MULTI",
                        row.name()
                    )));
                }
                ended => return Ok(ended),
            }
        });
        self.connection.progress = Progress::default();
        if changes_rights(row) {
            self.connection.refresh(&scene.server.acl);
        }
        outcome.unwrap_or_else(|failure| {
            keys.release_missing();
            scene.out.truncate(start);
            self.refuse(&failure, scene);
            Outcome::Done
        })
    }

    fn shards_of(&self, queue: &Queue, count: usize) -> Vec<usize> {
        let mut wanted = vec![false; count];
        // SELECT inside the transaction changes the shards of the keys after it.
        let selects = queue.commands.iter().any(|queued| queued.row.name() == "select");
        for queued in &queue.commands {
            match queued.row.scope {
                Scope::All => wanted.fill(true),
                Scope::Keys if selects => wanted.fill(true),
                Scope::Keys => {
                    for at in queued.row.keys.of(queued.args.len()) {
                        wanted[shard_of(self.connection.database, &queued.args[at], count)] = true;
                    }
                }
                Scope::None => {}
            }
        }
        for watched in &self.connection.transaction.watched {
            wanted[shard_of(watched.database, &watched.key, count)] = true;
        }
        (0..count).filter(|&index| wanted[index]).collect()
    }

    /// Loads all keys of a transaction and reserves room for all that it writes, so that no command
    /// of it can fail halfway. Returns how EXEC ends if it has to be executed again for that.
    fn load_transaction(
        &self,
        queue: &Queue,
        keys: &mut Keyspace<'_>,
    ) -> Result<Option<Outcome>, Failure> {
        let mut selection = Selection::new(&self.connection);
        let (mut writes, mut only_frees) = (false, true);
        for queued in &queue.commands {
            let databases = selection.pass(queued);
            let Queued { row, args } = queued;
            if row.scope == Scope::None {
                continue;
            }
            if row.name() == "flushdb" {
                keys.load_counts()?;
            }
            let writes_now = row.is(Flags::WRITE);
            writes |= writes_now;
            only_frees &= !writes_now || row.frees;
            for &database in databases {
                for at in row.keys.of(args.len()) {
                    // A later command may write what this one reads.
                    keys.load(database, &args[at], true)?;
                }
            }
            if let Some(other) = command::other_database(row, args) {
                keys.load(other, &args[if row.name() == "move" { 1 } else { 2 }], true)?;
            }
        }
        for watched in &self.connection.transaction.watched {
            keys.load(watched.database, &watched.key, false)?;
        }
        if let Some(pending) = keys.pending() {
            return Ok(Some(pending));
        }
        if !writes {
            return Ok(None);
        }
        let selection = Selection::new(&self.connection);
        let accepted =
            keys.accept(only_frees)? && Footprint::new(queue, selection, keys).reserve(keys)?;
        Ok((!accepted).then_some(Outcome::Busy))
    }
}
