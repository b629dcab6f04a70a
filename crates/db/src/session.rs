//! The session of one connection: its state, and its commands.
//!
//! [`Session::execute`] takes one command and writes its answer. It never waits: a command that
//! needs the disk returns [`Step::Wait`], and must be executed again once
//! [`Client::is_ready`](crate::clients::Client::is_ready).

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use smallvec::SmallVec;
use store::elastic::Position;

use crate::{
    clients::Client,
    connection::{Connection, Progress, ReplyMode},
    failure::Failure,
    keyspace::Shards,
    reply::Reply,
    row::{Flags, Row, Scope},
    server::Server,
};

mod admission;
mod execution;
mod footprint;
mod hearing;
mod selection;
mod transaction;
mod waiting;

use waiting::Waiting;

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The answer is written.
    Done,
    /// Execute the command again once the client is ready: data is being read from disk.
    Wait,
    /// Execute it again after other clients were served.
    Again,
    /// Execute it again a little later: earlier writes are not on disk yet.
    Busy,
    /// The answer is written, and is to be sent after this time.
    Sleep(Duration),
}

/// State of one connection.
pub struct Session {
    connection: Connection,
    /// The last command: the next one is mostly the same.
    last: Option<&'static Row>,
    /// The running command looks up keys, and only reads.
    looks_up: bool,
    /// State kept for a command that waits for the disk.
    waiting: Waiting,
    unsynced: SmallVec<[(usize, Position); 2]>,
}

/// Context of one execution.
struct Scene<'s, S> {
    server: &'s Server,
    shards: &'s S,
    out: &'s mut Vec<u8>,
    /// Maximum length of `out` that the running command may reach, in bytes.
    reply_end_max: usize,
    /// The command may wait for the disk now, or already does.
    may_wait: bool,
    now: Duration,
}

impl Session {
    /// A conversation with `client`, which is not authenticated yet.
    pub fn new(client: Arc<Client>, server: &Server) -> Self {
        Self {
            connection: Connection::new(client, &server.acl),
            last: None,
            looks_up: false,
            waiting: Waiting::default(),
            unsynced: SmallVec::new(),
        }
    }

    /// The database it has selected.
    pub fn database(&self) -> u8 {
        self.connection.database
    }

    /// The client at the other end.
    pub fn client(&self) -> &Arc<Client> {
        &self.connection.client
    }

    /// Whether the connection is to be closed once the output is sent.
    pub fn is_closing(&self) -> bool {
        self.connection.closing || self.client().is_killed()
    }

    /// Takes the positions written since the last call, by shard: replies may be sent once these
    /// are durable.
    #[inline]
    pub fn take_unsynced(&mut self) -> impl Iterator<Item = (usize, Position)> {
        self.unsynced.drain(..)
    }

    /// Whether the last command looks up keys and only reads.
    pub fn has_looked_up(&self) -> bool {
        self.looks_up
    }

    /// Memory used by the commands that MULTI has queued, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.connection.transaction.queue.as_ref().map_or(0, |queue| queue.bytes)
    }

    /// Returns the shards whose disks the command waits for.
    pub fn waiting_on(&self, shard: impl FnMut(usize)) {
        self.waiting.shards().for_each(shard);
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
        let mode = self.connection.reply_mode;
        let reply_end_max = start + server.parameters.command_bytes_max();
        let mut scene = Scene { server, shards, out, reply_end_max, may_wait: true, now };
        let step = self.attempt(args, &mut scene);
        match step {
            Step::Wait | Step::Again | Step::Busy => out.truncate(start),
            Step::Done | Step::Sleep(_) => {
                let silent = match (mode, self.connection.reply_mode) {
                    (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
                        self.connection.reply_mode = ReplyMode::On;
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
        let mut before = std::mem::take(&mut self.waiting);
        scene.may_wait = before.has_begun() || scene.server.turns.may_begin();
        let step = self.dispatch(args, scene);
        if matches!(step, Step::Wait | Step::Busy) && self.connection.progress.walk.is_none() {
            self.waiting.keep(&mut before);
        }
        before.end(self.client(), scene.server, scene.shards);
        if matches!(step, Step::Done | Step::Sleep(_)) {
            self.connection.progress = Progress::default();
        }
        step
    }

    fn dispatch<S: Shards>(&mut self, args: &[&[u8]], scene: &mut Scene<'_, S>) -> Step {
        self.looks_up = false;
        let row = match self.admit(args, scene.server) {
            Ok(row) => row,
            Err(failure) => {
                self.refuse_admission(args, &failure, scene);
                return Step::Done;
            }
        };
        let connection = &mut self.connection;
        connection.client.active(row, scene.now.as_millis() as u64);
        if let Some(queue) = &mut connection.transaction.queue {
            if !row.unqueued {
                queue.push(row, args);
                connection.client.details.lock().queued = Some(queue.commands.len());
                scene.out.extend_from_slice(b"+QUEUED\r\n");
                return Step::Done;
            }
            if row.name() == "exec" {
                return self.execute_transaction(scene);
            }
        }
        self.looks_up = row.scope == Scope::Keys && row.is(Flags::READONLY);
        let step = self.perform(row, args, scene);
        if matches!(step, Step::Done | Step::Sleep(_)) && row.name() != "client|caching" {
            self.connection.tracking.caching = None;
        }
        step
    }

    /// Writes the error of a refused command. If a transaction is being queued, EXEC will fail; if
    /// the command is EXEC itself, it fails now.
    fn refuse_admission<S>(&mut self, args: &[&[u8]], failure: &Failure, scene: &mut Scene<'_, S>) {
        if args[0].eq_ignore_ascii_case(b"EXEC") {
            self.connection.leave_transaction();
            let why = failure.0.trim_start_matches("ERR ");
            let aborted = format!("EXECABORT Transaction discarded because of: {why}");
            return self.refuse(&Failure::new(aborted), scene);
        }
        if let Some(queue) = &mut self.connection.transaction.queue {
            queue.failed = true;
        }
        self.refuse(failure, scene);
    }

    fn refuse<S>(&mut self, failure: &Failure, scene: &mut Scene<'_, S>) {
        scene.server.stats.errors.fetch_add(1, Relaxed);
        Reply::new(scene.out, self.connection.version).error(&failure.0);
    }

    /// The waiting command will not be repeated for a while: its tickets and its place in the disk
    /// queue are released.
    pub fn let_go<S: Shards>(&mut self, server: &Server, shards: &S) {
        std::mem::take(&mut self.waiting).end(self.client(), server, shards);
    }

    /// Ends the session of a closed connection.
    pub fn close<S: Shards>(&mut self, server: &Server, shards: &S) {
        self.let_go(server, shards);
        let client = self.client().id;
        if self.connection.tracking.broadcasts() {
            for index in 0..shards.count() {
                shards.lock(index).tracking.forget(client);
            }
        }
        server.clients.leave(client);
    }
}
