//! MULTI, EXEC and WATCH.
//!
//! WATCH remembers each key's version; EXEC compares. All shards of the transaction are held from
//! the comparison to the last command, so it is one step to everybody else; to the disk what it
//! writes to one shard is.

use std::time::Duration;

use smallvec::SmallVec;

use super::{Scene, Session, Step, execution::spread};
use crate::{
    command::{Command, Outcome},
    failure::Failure,
    keyspace::{Held, Keyspace, Shards, shard_of},
    reply::Reply,
    row::{Flags, Scope},
    shard::COUNTS_BYTES,
};

/// A key that must not change before EXEC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) database: u8,
    pub(crate) key: Box<[u8]>,
    /// `None`: it was not there.
    pub(crate) version: Option<u64>,
}

/// Commands queued by MULTI.
#[derive(Default)]
pub(crate) struct Transaction {
    pub(crate) commands: Vec<Queued>,
    /// One of them was refused: EXEC will refuse all.
    pub(crate) failed: bool,
    /// What they take in memory, about.
    pub(crate) bytes: usize,
}

pub(crate) struct Queued {
    command: &'static Command,
    args: Vec<Box<[u8]>>,
}

/// What an argument takes beside itself: pointer, length, the allocator's own.
const ARGUMENT_BYTES: usize = 32;

impl Transaction {
    pub(crate) fn queue(&mut self, command: &'static Command, args: &[&[u8]]) {
        self.bytes += args.iter().map(|argument| argument.len() + ARGUMENT_BYTES).sum::<usize>();
        let args: Vec<Box<[u8]>> = args.iter().map(|&argument| argument.into()).collect();
        self.commands.push(Queued { command, args });
    }

    /// About how many entries its commands write or remove, and bytes of what they carry.
    fn entries_written(&self) -> (usize, usize) {
        let writes = self.commands.iter().filter(|queued| queued.command.row.is(Flags::WRITE));
        writes.fold((0, 0), |(entries, bytes), Queued { args, .. }| {
            let carried: usize = args.iter().map(|argument| argument.len()).sum();
            // Each may change the counts of the databases, too.
            (entries + args.len() + 1, bytes + carried + COUNTS_BYTES)
        })
    }
}

impl Queued {
    fn with_args<T>(&self, act: impl FnOnce(&[&[u8]]) -> T) -> T {
        let args: SmallVec<[&[u8]; 8]> = self.args.iter().map(|argument| &**argument).collect();
        act(&args)
    }
}

impl Session {
    pub(super) fn execute_transaction<S: Shards>(&mut self, scene: &mut Scene<'_, S>) -> Step {
        let Some(transaction) = self.transaction.take() else { return Step::Done };
        if transaction.failed {
            self.leave_transaction();
            let failure =
                Failure("EXECABORT Transaction discarded because of previous errors.".into());
            self.refuse(&failure, scene);
            return Step::Done;
        }
        let count = scene.shards.count();
        let wanted = self.shards_of(&transaction, count);
        let mut guards: Vec<S::Guard<'_>> =
            wanted.iter().map(|&index| scene.shards.lock(index)).collect();
        let held = Held::Many(spread(&mut guards, &wanted, count));
        let mut keys = self.keyspace(held, scene);
        let (outcome, pause) = match self.load_transaction(&transaction, &mut keys) {
            Ok(None) => self.run_transaction(&transaction, &mut keys, scene),
            Ok(Some(again)) => {
                self.transaction = Some(transaction);
                (again, Duration::ZERO)
            }
            Err(failure) => {
                keys.release_missing();
                self.leave_transaction();
                self.refuse(&failure, scene);
                (Outcome::Done, Duration::ZERO)
            }
        };
        let step = self.end(outcome, &mut keys, scene.server);
        if pause.is_zero() { step } else { Step::Sleep(pause) }
    }

    /// Runs a transaction all of whose keys are loaded; how it ends, and how long its answer is kept
    /// back.
    fn run_transaction<S>(
        &mut self,
        transaction: &Transaction,
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> (Outcome, Duration) {
        let changed = self.watched.iter().any(|watched| {
            keys.get_of(watched.database, &watched.key).map(|entry| entry.version)
                != watched.version
        });
        self.leave_transaction();
        if changed {
            Reply::new(scene.out, self.version).null_array();
            return (Outcome::Done, Duration::ZERO);
        }
        Reply::new(scene.out, self.version).array(transaction.commands.len());
        self.reply_end_max = scene.out.len() + scene.server.parameters.command_bytes_max();
        // What asks from here on is refused, see below.
        keys.loads.allow();
        let (entries, bytes) = transaction.entries_written();
        keys.held().for_each(|shard| shard.store.begin_step(entries, bytes));
        let (mut outcome, mut pause) = (Outcome::Done, Duration::ZERO);
        for queued in &transaction.commands {
            let run = |args: &[&[u8]]| self.run_queued(queued.command, args, keys, scene);
            match queued.with_args(run) {
                Outcome::Sleep(more) => pause += more,
                Outcome::Flushed => outcome = Outcome::Flushed,
                _ => {}
            }
        }
        keys.held().for_each(|shard| shard.store.end_step());
        self.tracking.caching = None;
        (outcome, pause)
    }

    fn run_queued<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Outcome {
        let start = scene.out.len();
        // A command before it in the transaction may have changed users, or logged in as another one.
        self.refresh(scene.server);
        let permitted = self.permit_queued(command, args);
        let outcome = permitted.and_then(|()| loop {
            // SELECT inside the transaction.
            keys.database = self.database;
            match self.run(command, args, keys, scene)? {
                // The shards are held: there is nobody to make room for.
                Outcome::Again => {}
                Outcome::Wait | Outcome::Queue | Outcome::Busy => {
                    return Err(Failure::new(format!(
                        "TRYAGAIN '{}' inside MULTI needs keys that lie on disk; use it outside",
                        command.name()
                    )));
                }
                ended => return Ok(ended),
            }
        });
        (self.walk, self.draw) = (None, None);
        outcome.unwrap_or_else(|failure| {
            keys.release_missing();
            scene.out.truncate(start);
            self.refuse(&failure, scene);
            Outcome::Done
        })
    }

    fn shards_of(&self, transaction: &Transaction, count: usize) -> Vec<usize> {
        let mut wanted = vec![false; count];
        // SELECT inside the transaction decides where the keys behind it lie.
        let selects = transaction.commands.iter().any(|queued| queued.command.name() == "select");
        for queued in &transaction.commands {
            match queued.command.row.scope {
                Scope::All => wanted.fill(true),
                Scope::Keys if selects => wanted.fill(true),
                Scope::Keys => {
                    for at in queued.command.row.keys.of(queued.args.len()) {
                        wanted[shard_of(self.database, &queued.args[at], count)] = true;
                    }
                }
                Scope::None => {}
            }
        }
        for watched in &self.watched {
            wanted[shard_of(watched.database, &watched.key, count)] = true;
        }
        (0..count).filter(|&index| wanted[index]).collect()
    }

    /// Loads all keys of a transaction; how EXEC ends if it is to be given again for that.
    fn load_transaction(
        &self,
        transaction: &Transaction,
        keys: &mut Keyspace<'_>,
    ) -> Result<Option<Outcome>, Failure> {
        let mut database = self.database;
        let (mut writes, mut only_frees) = (false, true);
        for Queued { command, args } in &transaction.commands {
            if command.name() == "select" {
                database = crate::command::selected(&args[1]).unwrap_or(database);
            }
            if command.row.scope == Scope::None {
                continue;
            }
            let writes_now = command.row.is(Flags::WRITE);
            writes |= writes_now;
            only_frees &= !writes_now || command.row.frees;
            for at in command.row.keys.of(args.len()) {
                // A later command may write what this one reads.
                keys.load(database, &args[at], true)?;
            }
            if let Some(other) = crate::command::other_database(command, args) {
                keys.load(other, &args[if command.name() == "move" { 1 } else { 2 }], true)?;
            }
        }
        for watched in &self.watched {
            keys.load(watched.database, &watched.key, false)?;
        }
        if let Some(pending) = keys.pending() {
            return Ok(Some(pending));
        }
        let accepted = !writes || keys.accept(only_frees)?;
        Ok((!accepted).then_some(Outcome::Busy))
    }

    /// Nothing is queued and nothing watched any more.
    pub(crate) fn leave_transaction(&mut self) {
        self.transaction = None;
        self.watched.clear();
        self.client.details.lock().queued = None;
    }
}
