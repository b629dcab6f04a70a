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
    acl::{Access, DEFAULT, Rules},
    clients::{Client, Message},
    command::{Call, Command, Flags, Scope, Tracking, Walk, table},
    failure::{Failure, NO_AUTH},
    keyspace::{Held, Keyspace, Shards, shard_of},
    reply::Reply,
    server::Server,
    shard::Shard,
};

mod transaction;

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
    pub(crate) authenticated: bool,
    rules: Arc<Rules>,
    generation: u64,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) tracking: Tracking,
    pub(crate) channels: BTreeSet<Box<[u8]>>,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) closing: bool,
    /// Everything was dropped by the running command.
    pub(crate) flushed: bool,
    /// The running command wants its next portion.
    pub(crate) again: bool,
    pub(crate) sleep: Option<Duration>,
    pub(crate) walk: Option<Walk>,
    pub(crate) draw: Option<u64>,
    /// What is being loaded, or is loaded, for the command that waits.
    tickets: Vec<(usize, Ticket)>,
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
    /// A conversation with `client`, which nobody has authenticated yet.
    pub fn new(client: Arc<Client>, server: &Server) -> Self {
        let rules = server.acl.find(DEFAULT).unwrap_or_else(|| Arc::new(Rules::nothing()));
        Self {
            client,
            version: Version::Resp2,
            database: 0,
            user: DEFAULT.to_owned(),
            authenticated: rules.needs_no_password(),
            rules,
            generation: server.acl.generation(),
            transaction: None,
            watched: Vec::new(),
            tracking: Tracking::default(),
            channels: BTreeSet::new(),
            reply_mode: ReplyMode::On,
            closing: false,
            flushed: false,
            again: false,
            sleep: None,
            walk: None,
            draw: None,
            tickets: Vec::new(),
            unsynced: SmallVec::new(),
        }
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
    pub fn take_unsynced(&mut self) -> SmallVec<[(usize, Position); 2]> {
        std::mem::take(&mut self.unsynced)
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
        let step = self.dispatch(args, scene);
        if matches!(step, Step::Wait | Step::Busy) && self.walk.is_none() {
            self.tickets.extend(before);
        } else {
            release(before, scene.shards);
        }
        if matches!(step, Step::Done | Step::Sleep(_)) {
            scene.server.stats.commands.fetch_add(1, Relaxed);
            if std::mem::take(&mut self.flushed) {
                scene.server.clients.invalidate_all();
            }
        }
        step
    }

    fn dispatch<S: Shards>(&mut self, args: &[&[u8]], scene: &mut Scene<'_, S>) -> Step {
        let command = match self.admit(args, scene.server) {
            Ok(command) => command,
            Err(failure) => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.failed = true;
                }
                self.refuse(&failure, scene);
                return Step::Done;
            }
        };
        self.client.active(command, scene.now.as_millis() as u64);
        if let Some(transaction) = &mut self.transaction
            && !command.flags.has(Flags::UNQUEUED)
        {
            transaction.queue(command, args);
            let queued = Some(transaction.commands.len());
            self.client.details.lock().queued = queued;
            scene.out.extend_from_slice(b"+QUEUED\r\n");
            return Step::Done;
        }
        if command.name == "exec" && self.transaction.is_some() {
            return self.execute_transaction(scene);
        }
        let step = self.perform(command, args, scene);
        if matches!(step, Step::Done | Step::Sleep(_)) && command.name != "client|caching" {
            self.tracking.caching = None;
        }
        step
    }

    fn refuse<S>(&mut self, failure: &Failure, scene: &mut Scene<'_, S>) {
        scene.server.stats.errors.fetch_add(1, Relaxed);
        Reply { out: scene.out, version: self.version }.error(&failure.0);
    }

    /// The row of the command, if it may be executed by this client now.
    fn admit(&mut self, args: &[&[u8]], server: &Server) -> Result<&'static Command, Failure> {
        let command = resolve(args)?;
        if self.generation != server.acl.generation() {
            self.refresh(server);
        }
        if !self.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err(NO_AUTH);
        }
        self.permit(command, args)?;
        let subscribed = !self.channels.is_empty() && self.version == Version::Resp2;
        if subscribed
            && !matches!(command.name, "ping" | "subscribe" | "unsubscribe" | "quit" | "reset")
        {
            return Err(Failure::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                command.name
            )));
        }
        Ok(command)
    }

    fn permit(&self, command: &'static Command, args: &[&[u8]]) -> Result<(), Failure> {
        match self.rules.access(command, args) {
            Access::Allowed => Ok(()),
            Access::NoCommand => Err(Failure::new(format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name
            ))),
            Access::NoKey(_) => Err(Failure(
                "NOPERM this user has no permissions to access one of the keys used as arguments".into(),
            )),
            Access::NoChannel => Err(Failure(
                "NOPERM this user has no permissions to access one of the channels used as arguments".into(),
            )),
        }
    }

    /// Looks up again what its user may do.
    fn refresh(&mut self, server: &Server) {
        self.generation = server.acl.generation();
        match server.acl.find(&self.user) {
            Some(rules) => {
                self.authenticated |= self.user == DEFAULT && rules.needs_no_password();
                self.rules = rules;
            }
            None => {
                self.rules = Arc::new(Rules::nothing());
                self.authenticated = false;
                self.closing = true;
            }
        }
    }

    /// It is `user` from now on.
    pub(crate) fn become_user(&mut self, user: &str, rules: Arc<Rules>) {
        self.user = user.to_owned();
        self.rules = rules;
        self.authenticated = true;
        self.client.details.lock().user = user.to_owned();
    }

    /// Executes an admitted command with the shards it needs.
    fn perform<S: Shards>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        scene: &mut Scene<'_, S>,
    ) -> Step {
        let count = scene.shards.count();
        let mut wanted = SmallVec::<[usize; 8]>::new();
        match command.scope {
            Scope::None => {}
            Scope::All => wanted.extend(0..count),
            Scope::Keys => {
                for at in command.keys.of(args.len()) {
                    let index = shard_of(self.database, args[at], count);
                    if !wanted.contains(&index) {
                        wanted.push(index);
                    }
                }
            }
        }
        if let [index] = *wanted {
            let mut shard = scene.shards.lock(index);
            let keys = self.keyspace(Held::One(index, &mut shard), count, scene.now);
            return self.with_keys(command, args, keys, scene);
        }
        wanted.sort_unstable();
        let mut guards: SmallVec<[S::Guard<'_>; 16]> =
            wanted.iter().map(|&index| scene.shards.lock(index)).collect();
        let keys = self.keyspace(Held::Many(spread(&mut guards, &wanted, count)), count, scene.now);
        self.with_keys(command, args, keys, scene)
    }

    fn keyspace<'k>(&self, held: Held<'k>, count: usize, now: Duration) -> Keyspace<'k> {
        let (database, client) = (self.database, self.client.id);
        Keyspace { held, count, database, client, now, missing: SmallVec::new(), busy: false }
    }

    fn with_keys<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        mut keys: Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Step {
        let start = scene.out.len();
        let outcome = self.load_and_run(command, args, &mut keys, scene);
        if !keys.missing.is_empty() {
            return self.park(&mut keys, scene);
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
        self.settle(&mut keys, scene.server);
        self.sleep.take().map_or(Step::Done, Step::Sleep)
    }

    /// Waits for what is missing. The shards are still held, so nothing can arrive unnoticed.
    fn park<S>(&mut self, keys: &mut Keyspace<'_>, scene: &Scene<'_, S>) -> Step {
        self.client.wait_for(keys.missing.len());
        self.tickets.extend(keys.missing.drain(..));
        scene.server.stats.waits.fetch_add(1, Relaxed);
        Step::Wait
    }

    fn load_and_run<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Result<(), Failure> {
        if command.scope == Scope::None {
            return self.run(command, args, keys, scene);
        }
        let database = keys.database;
        for at in command.keys.of(args.len()) {
            keys.load(database, args[at], command.flags.has(Flags::WRITE))?;
        }
        if !keys.missing.is_empty() {
            return Ok(());
        }
        if command.flags.has(Flags::WRITE) && !keys.accept_writes()? {
            return Ok(());
        }
        self.run(command, args, keys, scene)
    }

    /// Runs a command all of whose keys are loaded.
    fn run<S>(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        keys: &mut Keyspace<'_>,
        scene: &mut Scene<'_, S>,
    ) -> Result<(), Failure> {
        let reply = Reply { out: &mut *scene.out, version: self.version };
        let mut call =
            Call { args, keys, session: self, server: scene.server, reply, now: scene.now };
        (command.handler)(&mut call)?;
        if command.flags.has(Flags::READONLY)
            && let Some(no_loop) = self.tracking.remembers()
        {
            let (database, client) = (keys.database, self.client.id);
            for at in command.keys.of(args.len()) {
                keys.remember(database, args[at], client, no_loop);
            }
        }
        Ok(())
    }

    /// Tells others what has changed, and notes what is to become durable.
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

    /// Writes what others had to say to this client.
    #[inline]
    pub fn hear(&mut self, out: &mut Vec<u8>) {
        for message in self.client.take_messages() {
            let mut reply = Reply { out, version: self.version };
            let resp3 = self.version == Version::Resp3;
            match message {
                Message::RedirectBroken(target) if resp3 => {
                    reply.push(2);
                    reply.text("tracking-redir-broken");
                    reply.integer(target as i64);
                }
                Message::Stale { keys, .. } if resp3 => {
                    reply.push(2);
                    reply.text("invalidate");
                    stale(&mut reply, keys.as_deref());
                }
                Message::Stale { keys, redirected: true, .. } if !self.channels.is_empty() => {
                    reply.array(3);
                    reply.text("message");
                    reply.text("__redis__:invalidate");
                    stale(&mut reply, keys.as_deref());
                }
                _ => {}
            }
        }
    }

    /// The connection is gone.
    pub fn close<S: Shards>(&mut self, server: &Server, shards: &S) {
        release(std::mem::take(&mut self.tickets), shards);
        if self.tracking.broadcasts() {
            for index in 0..shards.count() {
                shards.lock(index).tracking.forget(self.client.id);
            }
        }
        server.clients.leave(self.client.id);
    }
}

fn stale(reply: &mut Reply<'_>, keys: Option<&[Box<[u8]>]>) {
    match keys {
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        None => reply.null(),
    }
}

fn release<S: Shards>(tickets: Vec<(usize, Ticket)>, shards: &S) {
    for (index, ticket) in tickets {
        shards.lock(index).release(ticket);
    }
}

/// The shards of `guards`, each at its index.
fn spread<'g, G: std::ops::DerefMut<Target = Shard>>(
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

/// The row of a request, if its number of arguments is acceptable.
pub(crate) fn resolve(args: &[&[u8]]) -> Result<&'static Command, Failure> {
    let Some(mut command) = table::lookup(args[0]) else { return Err(unknown(args)) };
    if !command.subcommands.is_empty() && args.len() > 1 {
        let found = table::subcommand(command, args[1]);
        command = found.ok_or_else(|| {
            let name = String::from_utf8_lossy(&args[1][..args[1].len().min(NAMED_BYTES_MAX)]);
            let container = command.name.to_ascii_uppercase();
            Failure::new(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
        })?;
    }
    if !command.accepts(args.len()) {
        return Err(Failure::new(format!(
            "ERR wrong number of arguments for '{}' command",
            command.name
        )));
    }
    Ok(command)
}

/// How much of an unknown command, and of its arguments, is repeated in the answer.
const NAMED_BYTES_MAX: usize = 128;

fn unknown(args: &[&[u8]]) -> Failure {
    let text = |bytes: &[u8], limit: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]).into_owned()
    };
    let mut shown = String::new();
    for argument in &args[1..] {
        if shown.len() >= NAMED_BYTES_MAX {
            break;
        }
        shown.push_str(&format!("'{}' ", text(argument, NAMED_BYTES_MAX - shown.len())));
    }
    let name = text(args[0], NAMED_BYTES_MAX);
    Failure::new(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}
