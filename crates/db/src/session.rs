//! One connection's conversation: what it has said about itself, and the commands it gives.
//!
//! [`Session::execute`] takes one command and writes its answer. It never waits: what needs the
//! disk ends in [`Step::Wait`], and the same command is to be given again once
//! [`Client::is_ready`](crate::clients::Client::is_ready).

use std::{collections::BTreeSet, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use smallvec::SmallVec;
use store::elastic::{Position, Ticket};
use wire::resp::Version;

use crate::{
    acl::{DEFAULT, User},
    clients::Client,
    command::{Command, Tracking, Walk},
    failure::Failure,
    keyspace::Shards,
    reply::Reply,
    row::{Flags, Scope},
    server::Server,
};

mod admission;
mod execution;
mod hearing;
mod transaction;

pub(crate) use admission::{find, wrong_count};
use execution::release;
pub(crate) use transaction::{Transaction, Watched};

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The answer is written.
    Done,
    /// Give the command again once the client is ready: the disk is asked.
    Wait,
    /// Give it again when others had their turn.
    Again,
    /// Give it again a little later: the disk is behind with what was written.
    Busy,
    /// The answer is written, and is to be sent after this time.
    Sleep(Duration),
}

/// Whether answers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// Not to the next command.
    SkipNext,
}

/// One connection's conversation.
pub struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) version: Version,
    pub(crate) database: u8,
    pub(crate) user: String,
    /// It has logged in, or came when the default user needed no password. That counts until it logs in
    /// as another user, resets or is closed.
    pub(crate) authenticated: bool,
    /// The default user needs no password now.
    is_open: bool,
    rights: User,
    /// As of which change of any user it knows all this.
    generation: u64,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) tracking: Tracking,
    pub(crate) channels: BTreeSet<Box<[u8]>>,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) closing: bool,
    pub(crate) walk: Option<Walk>,
    pub(crate) draw: Option<u64>,
    /// The running command looks up keys, and only reads.
    looks_up: bool,
    /// What it gave last: mostly it gives that again.
    last: Option<&'static Command>,
    /// How long the output may become by the running command, in bytes.
    reply_end_max: usize,
    /// What is being loaded, or is loaded, for the command that waits.
    tickets: Vec<(usize, Ticket)>,
    /// What they keep in memory, in bytes.
    awaited_bytes: usize,
    /// It is its turn to wait for the disk, or it does already.
    may_wait: bool,
    /// It waits for its turn, or was told that it has come.
    is_queued: bool,
    unsynced: SmallVec<[(usize, Position); 2]>,
}

/// One execution's surroundings.
struct Scene<'s, S> {
    server: &'s Server,
    shards: &'s S,
    out: &'s mut Vec<u8>,
    now: Duration,
}

impl Session {
    /// A conversation with `client`, which is not authenticated yet.
    pub fn new(client: Arc<Client>, server: &Server) -> Self {
        let generation = server.acl.generation();
        let rights = server.acl.find(DEFAULT).unwrap_or_else(|| server.acl.nobody());
        let is_open = rights.rules.needs_no_password();
        Self {
            client,
            version: Version::Resp2,
            database: 0,
            user: DEFAULT.to_owned(),
            authenticated: is_open,
            is_open,
            rights,
            generation,
            transaction: None,
            watched: Vec::new(),
            tracking: Tracking::default(),
            channels: BTreeSet::new(),
            reply_mode: ReplyMode::On,
            closing: false,
            walk: None,
            draw: None,
            looks_up: false,
            last: None,
            reply_end_max: usize::MAX,
            tickets: Vec::new(),
            awaited_bytes: 0,
            may_wait: true,
            is_queued: false,
            unsynced: SmallVec::new(),
        }
    }

    /// The database it has selected.
    pub fn database(&self) -> u8 {
        self.database
    }

    /// The client at the other end.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Is the connection to be closed once what is written is sent?
    pub fn is_closing(&self) -> bool {
        self.closing || self.client.is_killed()
    }

    /// What was written since the last call, by shard: answers may leave once it is durable.
    #[inline]
    pub fn take_unsynced(&mut self) -> impl Iterator<Item = (usize, Position)> {
        self.unsynced.drain(..)
    }

    /// Was the last command one that looks up keys and only reads?
    pub fn has_looked_up(&self) -> bool {
        self.looks_up
    }

    /// What it keeps for commands yet to come, in bytes: those queued by MULTI.
    pub fn queued_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.bytes)
    }

    /// Names the shards whose disk the command waits for.
    pub fn waiting_on(&self, mut shard: impl FnMut(usize)) {
        self.tickets.iter().for_each(|&(index, _)| shard(index));
    }

    /// Executes one command, its name first.
    pub fn execute<S: Shards>(
        &mut self,
        args: &[&[u8]],
        server: &Server,
        shards: &S,
        out: &mut Vec<u8>,
        now: Duration,
    ) -> Step {
        let start = out.len();
        let mode = self.reply_mode;
        self.reply_end_max = start + server.parameters.command_bytes_max();
        let step = self.attempt(args, &mut Scene { server, shards, out, now });
        match step {
            Step::Wait | Step::Again | Step::Busy => out.truncate(start),
            Step::Done | Step::Sleep(_) => {
                let silent = match (mode, self.reply_mode) {
                    (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
                        self.reply_mode = ReplyMode::On;
                        true
                    }
                    (_, after) => after != ReplyMode::On,
                };
                if silent {
                    out.truncate(start);
                }
            }
        }
        step
    }

    fn attempt<S: Shards>(&mut self, args: &[&[u8]], scene: &mut Scene<'_, S>) -> Step {
        let before = std::mem::take(&mut self.tickets);
        let before_bytes = std::mem::take(&mut self.awaited_bytes);
        let (turns, parameters) = (&scene.server.turns, &scene.server.parameters);
        // It is given again when it is its turn.
        let was_queued = std::mem::take(&mut self.is_queued);
        self.may_wait = was_queued || !before.is_empty() || turns.may_begin();
        let step = self.dispatch(args, scene);
        if matches!(step, Step::Wait | Step::Busy) && self.walk.is_none() {
            self.tickets.extend(before);
            self.awaited_bytes += before_bytes;
        } else {
            release(before, scene.shards);
            turns.let_go(before_bytes, parameters.waiting_bytes_max());
        }
        if was_queued {
            turns.leave(&self.client, parameters.waiting_bytes_max());
        }
        if matches!(step, Step::Done | Step::Sleep(_)) {
            (self.walk, self.draw) = (None, None);
        }
        step
    }

    fn dispatch<S: Shards>(&mut self, args: &[&[u8]], scene: &mut Scene<'_, S>) -> Step {
        self.looks_up = false;
        let command = match self.admit(args, scene.server) {
            Ok(command) => command,
            Err(failure) => {
                self.refuse_admission(args, &failure, scene);
                return Step::Done;
            }
        };
        self.client.active(&command.row, scene.now.as_millis() as u64);
        if let Some(transaction) = &mut self.transaction
            && !command.row.unqueued
        {
            transaction.queue(command, args);
            let queued = Some(transaction.commands.len());
            self.client.details.lock().queued = queued;
            scene.out.extend_from_slice(b"+QUEUED\r\n");
            return Step::Done;
        }
        if command.name() == "exec" && self.transaction.is_some() {
            return self.execute_transaction(scene);
        }
        self.looks_up = command.row.scope == Scope::Keys && command.row.is(Flags::READONLY);
        let step = self.perform(command, args, scene);
        if matches!(step, Step::Done | Step::Sleep(_)) && command.name() != "client|caching" {
            self.tracking.caching = None;
        }
        step
    }

    /// What is refused while a transaction is queued makes EXEC fail; if it is EXEC itself, it has.
    fn refuse_admission<S>(&mut self, args: &[&[u8]], failure: &Failure, scene: &mut Scene<'_, S>) {
        if args[0].eq_ignore_ascii_case(b"EXEC") {
            self.leave_transaction();
            let why = failure.0.trim_start_matches("ERR ");
            let aborted = format!("EXECABORT Transaction discarded because of: {why}");
            return self.refuse(&Failure::new(aborted), scene);
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
        self.refuse(failure, scene);
    }

    fn refuse<S>(&mut self, failure: &Failure, scene: &mut Scene<'_, S>) {
        scene.server.stats.errors.fetch_add(1, Relaxed);
        Reply::new(scene.out, self.version).error(&failure.0);
    }

    /// The command that waits will not be given again for a while: what it keeps, and its turn, are
    /// others'.
    pub fn let_go<S: Shards>(&mut self, server: &Server, shards: &S) {
        release(std::mem::take(&mut self.tickets), shards);
        let bytes_max = server.parameters.waiting_bytes_max();
        server.turns.let_go(std::mem::take(&mut self.awaited_bytes), bytes_max);
        if std::mem::take(&mut self.is_queued) {
            server.turns.leave(&self.client, bytes_max);
        }
    }

    /// The connection is gone.
    pub fn close<S: Shards>(&mut self, server: &Server, shards: &S) {
        self.let_go(server, shards);
        if self.tracking.broadcasts() {
            for index in 0..shards.count() {
                shards.lock(index).tracking.forget(self.client.id);
            }
        }
        server.clients.leave(self.client.id);
    }
}
