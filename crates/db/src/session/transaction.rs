//! MULTI, EXEC and WATCH.
//!
//! WATCH remembers each key's version; EXEC compares. All shards of the transaction are held from
//! the comparison to the last command, so it is one step to everybody else; to the disk what it
//! writes to one shard is.

use smallvec::SmallVec;

use super::{Scene, Session, Step, execution::spread};
use crate::{
    command::Command,
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
        let loaded = self.load_transaction(&transaction, &mut keys);
        if loaded.is_err() {
            keys.release_missing();
        }
        if !keys.missing.is_empty() {
            let step = self.park(&mut keys, scene);
            self.transaction = Some(transaction);
            return step;
        }
        if keys.crowded {
            self.transaction = Some(transaction);
            return self.queue(scene.server);
        }
        if keys.busy {
            self.transaction = Some(transaction);
            return Step::Busy;
        }
        let changed = self.watched.iter().any(|watched| {
            keys.get_of(watched.database, &watched.key).map(|entry| entry.version)
                != watched.version
        });
        self.leave_transaction();
        if let Err(failure) = loaded {
            self.refuse(&failure, scene);
        } else if changed {
            Reply::new(scene.out, self.version).null_array();
        } else {
            Reply::new(scene.out, self.version).array(transaction.commands.len());
            self.reply_end_max = scene.out.len() + scene.server.parameters.command_bytes_max();
            // What asks from here on is refused, see below.
            keys.may_wait = true;
            let (entries, bytes) = transaction.entries_written();
            keys.held().for_each(|shard| shard.store.begin_step(entries, bytes));
            for queued in &transaction.commands {
                queued.with_args(|args| self.run_queued(queued.command, args, &mut keys, scene));
            }
            keys.held().for_each(|shard| shard.store.end_step());
            self.tracking.caching = None;
        }
        self.settle(&mut keys, scene.server);
        Step::Done
    }

    fn run_queued<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) {
        let start = scene.out.len();
        // A command before it in the transaction may have changed users, or logged in as another one.
        self.refresh(scene.server);
        let mut outcome = self.permit_queued(command, args);
        loop {
            // SELECT inside the transaction.
            keys.database = self.database;
            outcome = outcome.and_then(|()| self.run(command, args, keys, scene));
            // The shards are held: there is nobody to make room for.
            if !std::mem::take(&mut self.again) {
                break;
            }
        }
        if keys.release_missing() {
            (self.walk, self.draw) = (None, None);
            outcome = Err(Failure::new(format!(
                "TRYAGAIN '{}' inside MULTI needs keys that lie on disk; use it outside",
                command.name()
            )));
        }
        if let Err(failure) = outcome {
            scene.out.truncate(start);
            self.refuse(&failure, scene);
        }
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

    fn load_transaction(
        &self,
        transaction: &Transaction,
        keys: &mut Keyspace<'_>,
    ) -> Result<(), Failure> {
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
        if writes && !keys.must_wait() {
            keys.accept(only_frees)?;
        }
        Ok(())
    }

    /// Nothing is queued and nothing watched any more.
    pub(crate) fn leave_transaction(&mut self) {
        self.transaction = None;
        self.watched.clear();
        self.client.details.lock().queued = None;
    }
}
