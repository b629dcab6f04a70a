//! Client Filter: effect of a Redis command on the cache.

use smallvec::SmallVec;
use wire::resp::{
    Command, Request as Message, Version,
    command::{self, Effect, Flags, Keys, Split},
};

use super::{Expiry, FEED_DATABASES, Resp, Scripts, Tag, Topology, message::form, shebang};
use crate::{
    filter::{Answers, Ends, Flow, Hush, Read, ReadMany, Reply, Request, Scratch, Write},
    key::{Key, Scope},
    principal::{Login, Standing},
    stats::WhyNot,
};

/// Longest option list that tells two answers of a key apart, in bytes.
const VARIANT_BYTES_MAX: usize = 1_024;
/// A command with more keys is not split: the read is forwarded, the write drops its whole
/// database.
const KEYS_MAX: usize = 1_024;

impl Resp {
    /// Names the flow of `message`.
    ///
    /// A read of one key on a connection in no special state is handled here: a request that is
    /// returned from several branches is copied, which costs 20 ns each.
    #[inline]
    pub(super) fn name_flow<'m>(
        &mut self,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
    ) -> wire::Result<Request<'m, Tag>> {
        let command = command::find(message);
        if let Some(command) = command
            && command.effect == Effect::Read
            && command.accepts(message.len())
            && !command.flags.contains(Flags::BLOCKING)
            && !self.caching
            && self.why_not(self.asking).is_none()
        {
            self.between = false;
            if let Ok(key) = self.single(command, message, scratch) {
                let read = Read { key, variant: scratch, place: ("", "") };
                return Ok(Request::new(Flow::Read(read), Tag::Plain));
            }
            scratch.clear();
        }
        self.name_any(command, message, scratch, standing)
    }

    /// Names the flow of any request; never fails, and returns what the caller does.
    #[inline(never)]
    #[allow(clippy::unnecessary_wraps, reason = "wrapped by the caller, it would be copied")]
    fn name_any<'m>(
        &mut self,
        command: Option<&Command>,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
    ) -> wire::Result<Request<'m, Tag>> {
        if standing.login() != Login::Accepted
            && let Some(held) = self.held(command, message, message.len())
        {
            return Ok(held);
        }
        if self.must_wait(command, standing) {
            return Ok(plain(Flow::NeedsReplies));
        }
        let asking = self.proceed();
        let Some(command) = command else { return Ok(self.unknown()) };
        // Every server refuses the call before it touches a key.
        if !command.accepts(message.len()) {
            return Ok(plain(Flow::Coordination));
        }
        if command.name == "reset" {
            // The user then depends on the origin's default user.
            standing.begin_again(Login::Unknown);
        }
        let mut request = self.flow_of(command, message, asking, scratch);
        self.doubt(command, &mut request.tag, standing);
        if command.flags.contains(Flags::BLOCKING) {
            request.tag = Tag::Blocking;
        }
        Ok(request)
    }

    fn flow_of<'m>(
        &mut self,
        command: &Command,
        message: &'m Message<'_>,
        asking: bool,
        scratch: &'m mut Scratch,
    ) -> Request<'m, Tag> {
        match command.effect {
            Effect::Read | Effect::ReadMany(_) | Effect::ReadUncacheable => {
                match self.why_not(asking) {
                    Some(reason) => plain(Flow::Bypass(reason)),
                    None => self.read(command, message, scratch),
                }
            }
            Effect::Write
                if command.name == "eval"
                    && message.argument(1).is_some_and(shebang::forbids_writes) =>
            {
                plain(Flow::Bypass(self.why_not(asking).unwrap_or(WhyNot::Command)))
            }
            Effect::Write | Effect::WriteDatabase | Effect::WriteEverything | Effect::Access => {
                let write = self.written(command, message);
                self.write(command, write)
            }
            Effect::Transaction => self.transaction(command),
            Effect::Connection => self.connection(command, message),
            Effect::PubSub => self.stream(command, message),
            // A configuration can change rights.
            Effect::Other if command.name == "config|set" => {
                self.write(command, Write::to(self.namespace.whole_origin()))
            }
            Effect::Other => match Topology::of(command.name) {
                Some(topology) => {
                    with_reply(Flow::Coordination, Tag::Topology(topology), Reply::Rewritten)
                }
                None => plain(Flow::Coordination),
            },
        }
    }

    /// Returns the reason why no read of this connection is answered from storage now.
    #[inline]
    fn why_not(&self, asking: bool) -> Option<WhyNot> {
        if self.unsettled > 0 || self.lost_track {
            Some(WhyNot::Unsettled)
        } else if self.may_queue() {
            Some(WhyNot::Transaction)
        } else if self.watched || self.tracked {
            Some(WhyNot::Watched)
        } else if self.replica_reads || asking {
            Some(WhyNot::ReadPreference)
        } else if self.settings.feed && self.database >= FEED_DATABASES {
            Some(WhyNot::Excluded)
        } else if self.is_unreported() {
            Some(WhyNot::WritePending)
        } else if self.blind && self.settings.unknown_expiry == Expiry::NotStored {
            Some(WhyNot::Expiry)
        } else {
            None
        }
    }

    /// Whether the origin is a node of a cluster whose feed is down.
    #[inline]
    fn is_unreported(&self) -> bool {
        self.settings.feed && self.settings.clustered && !self.settings.node.reports()
    }

    fn read<'m>(
        &self,
        command: &Command,
        message: &'m Message<'_>,
        scratch: &'m mut Scratch,
    ) -> Request<'m, Tag> {
        if command.name == "mget" {
            return match command.keys(message) {
                Ok(keys) => self.read_many(keys),
                Err(_) => plain(Flow::Bypass(WhyNot::Command)),
            };
        }
        match self.single(command, message, scratch) {
            Ok(key) => plain(Flow::Read(Read { key, variant: scratch, place: ("", "") })),
            Err(why) => plain(Flow::Bypass(why)),
        }
    }

    /// The one key that a command reads, and in `scratch` which of its answers; or why storage does
    /// not answer it.
    #[inline]
    fn single<'m>(
        &self,
        command: &Command,
        message: &'m Message<'_>,
        scratch: &mut Scratch,
    ) -> Result<Key<'m>, WhyNot> {
        let one_key = match command.effect {
            Effect::Read => matches!(command.keys, Keys::Range { first: 1, last: 1, .. }),
            Effect::ReadMany(Split::Sum) => message.len() == 2,
            _ => false,
        };
        // Name, key, options: the options of every such command stand behind its key.
        let Some(key) = message.argument(1).filter(|_| one_key) else {
            return Err(WhyNot::Command);
        };
        if !self.rules.allow(key) {
            return Err(WhyNot::Excluded);
        }
        self.variant(command.name, scratch);
        if message.len() > 2 {
            for option in message.arguments().skip(2) {
                scratch.extend_from_slice(&(option.len() as u32).to_le_bytes());
                scratch.extend_from_slice(option);
            }
        }
        if scratch.len() > VARIANT_BYTES_MAX {
            return Err(WhyNot::Option);
        }
        Ok(Key::new(self.namespace, key))
    }

    fn read_many<'m>(&self, keys: impl Iterator<Item = &'m [u8]>) -> Request<'m, Tag> {
        let answers = Answers::Same { variant: b"", restricted: b"mget" };
        let mut read = ReadMany { keys: Vec::new(), answers };
        for key in keys {
            if !self.rules.allow(key) {
                return plain(Flow::Bypass(WhyNot::Excluded));
            }
            if read.keys.len() == KEYS_MAX {
                return plain(Flow::Bypass(WhyNot::Option));
            }
            read.keys.push(Key::new(self.namespace, key));
        }
        with_reply(Flow::ReadMany(read), Tag::Many, Reply::Plain)
    }

    /// Begins a variant: protocol version, command. GET, by which most keys are read, has the empty
    /// variant: its answers are the same in both versions, and the variant is stored with every
    /// such key.
    fn variant(&self, command: &str, scratch: &mut Scratch) {
        if command == "get" {
            return;
        }
        scratch.push(match self.version {
            Version::Resp2 => 2,
            Version::Resp3 => 3,
        });
        scratch.extend_from_slice(command.as_bytes());
    }

    /// Returns the scopes that a write can touch.
    fn written<'m>(&self, command: &Command, message: &'m Message<'_>) -> Write<'m> {
        let databases = self.databases();
        if databases.is_empty() || self.leaves_its_keys(command, message) {
            return Write::to(self.namespace.whole_origin());
        }
        let whole = || Write::to_all(databases.iter().copied().map(Scope::Collection).collect());
        match command.effect {
            Effect::Write => {}
            Effect::WriteDatabase => return whole(),
            _ => return Write::to(self.namespace.whole_origin()),
        }
        let Ok(keys) = command.keys(message) else {
            return Write::to(self.namespace.whole_origin());
        };
        let mut write = Write::to_all(SmallVec::new());
        for key in keys {
            if write.scopes.len() >= KEYS_MAX {
                return whole();
            }
            let keys = databases.iter().map(|&database| Scope::Key(Key::new(database, key)));
            write.scopes.extend(keys);
        }
        if self.settings.on_write && databases.len() == 1 && !self.is_unreported() {
            write.states = self.stated_by(command, message);
        }
        write
    }

    /// Whether the command can write keys that it does not name, or to another database.
    fn leaves_its_keys(&self, command: &Command, message: &Message<'_>) -> bool {
        if command.flags.contains(Flags::SCRIPT) {
            return self.settings.scripts == Scripts::Everything;
        }
        // COPY without options stays in its database.
        command.flags.contains(Flags::OTHER_DATABASE)
            && !(command.name == "copy" && message.len() == 3)
    }

    /// A command that is not known may do anything.
    pub(super) fn unknown<'m>(&self) -> Request<'m, Tag> {
        Request::new(Flow::Write(Write::to(self.namespace.whole_origin())), Tag::Unknown)
    }

    pub(super) fn write<'m>(&self, command: &Command, write: Write<'m>) -> Request<'m, Tag> {
        let mut request = plain(Flow::Write(Write { name: command.name, ..write }));
        if command.flags.contains(Flags::SCRIPT) {
            request.tag = Tag::Script { doubted: None };
        }
        request
    }

    pub(super) fn transaction<'m>(&mut self, command: &Command) -> Request<'m, Tag> {
        let mut request = plain(Flow::Coordination);
        match command.name {
            "multi" => {
                self.in_transaction = true;
                self.beginnings += 1;
                return with_reply(Flow::Coordination, Tag::Multi, Reply::Observed);
            }
            "watch" => self.watched = true,
            "unwatch" => self.watched = self.may_queue() && self.watched,
            "exec" | "discard" => {
                self.in_transaction = false;
                self.endings += 1;
                self.watched = false;
                let executes = command.name == "exec";
                (request.tag, request.ends) = match executes {
                    true => (Tag::Exec, Ends::Executes),
                    false => (Tag::Discard, Ends::Discards),
                };
            }
            _ => self.lost_track = true,
        }
        request
    }

    /// In RESP3 pushes are marked, so a subscription does not turn the connection into a stream.
    /// But another connection to the origin would not continue it.
    fn stream<'m>(&mut self, command: &Command, message: &Message<'_>) -> Request<'m, Tag> {
        let settled = self.unsettled == 0 && !self.lost_track && !self.may_queue();
        let channels = message.len() - 1;
        if command.name.ends_with("subscribe")
            && self.version == Version::Resp3
            && settled
            && channels > 0
        {
            // It stays true when the client unsubscribes.
            self.subscribed |= !command.name.contains("unsub");
            let reply = Reply::Confirmed(channels);
            return with_reply(Flow::Coordination, Tag::Subscribe(command.name), reply);
        }
        with_reply(Flow::Coordination, Tag::Plain, Reply::Stream)
    }

    fn connection<'m>(&mut self, command: &Command, message: &Message<'_>) -> Request<'m, Tag> {
        let argument = |index| message.argument(index).unwrap_or_default();
        let is = |index, word: &str| argument(index).eq_ignore_ascii_case(word.as_bytes());
        let tag = match command.name {
            "select" => {
                let database = std::str::from_utf8(argument(1)).ok();
                Tag::Select(database.and_then(|database| database.parse().ok()))
            }
            "auth" => Tag::Identify { version: None, user: Some(user(message, 0)), greets: None },
            "hello" => hello(message),
            "reset" => {
                // It ends a transaction at once, whatever was queued. What else it ends is settled
                // by its reply; until then nothing is answered from storage.
                self.in_transaction = false;
                (self.watched, self.tracked, self.subscribed) = (false, false, false);
                self.replica_reads = false;
                self.lost_track = false;
                Tag::Reset
            }
            "client|reply" => {
                let reply = hush(command, message).map_or(Reply::Plain, Reply::Hush);
                return with_reply(Flow::Coordination, Tag::Plain, reply);
            }
            "client|tracking" => {
                // Inside a transaction it may never take effect.
                self.tracked = !is(2, "OFF") || (self.tracked && self.may_queue());
                return plain(Flow::Coordination);
            }
            "readonly" | "readwrite" => {
                self.replica_reads =
                    command.name == "readonly" || (self.replica_reads && self.may_queue());
                return plain(Flow::Coordination);
            }
            "quit" => return with_reply(Flow::Coordination, Tag::Plain, Reply::Last),
            "client|caching" => {
                self.caching = true;
                return plain(Flow::Coordination);
            }
            "asking" => {
                self.asking = true;
                return plain(Flow::Coordination);
            }
            _ => return plain(Flow::Coordination),
        };
        if self.in_transaction || (self.queues && self.endings == 0 && self.unsettled == 0) {
            // It takes effect at EXEC, or never: the state is unknown after this.
            self.lost_track = true;
            return plain(Flow::Coordination);
        }
        self.unsettle(&tag);
        let mut request = with_reply(Flow::Coordination, tag, Reply::Observed);
        if command.name == "reset" {
            request.ends = Ends::Discards;
        }
        request
    }
}

/// Which replies `CLIENT REPLY` asks for.
pub(super) fn hush(command: &Command, message: &Message<'_>) -> Option<Hush> {
    let word = message.argument(2).filter(|_| command.name == "client|reply")?;
    let words = [("ON", Hush::Off), ("SKIP", Hush::Next), ("OFF", Hush::On)];
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    words.into_iter().find_map(|(name, hush)| is(name).then_some(hush))
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`.
fn hello(message: &Message<'_>) -> Tag {
    let version = match message.argument(1) {
        Some(b"2") => Some(Version::Resp2),
        Some(b"3") => Some(Version::Resp3),
        _ => None,
    };
    // Servers take the last of several, and a name of the connection may spell AUTH.
    let (mut place, mut identity) = (2, None);
    while let Some(option) = message.argument(place) {
        if option.eq_ignore_ascii_case(b"AUTH") {
            identity = Some(user(message, place));
            place += 3;
        } else {
            place += 2;
        }
    }
    let greets = version.filter(|_| message.len() == 2).map(form);
    Tag::Identify { version, user: identity, greets }
}

/// User of `AUTH [user] password` at argument `place`: without a name, the default user.
fn user(message: &Message<'_>, place: usize) -> Box<[u8]> {
    let named = place > 0 || message.len() > 2;
    message.argument(place + 1).filter(|_| named).unwrap_or(b"default").into()
}

#[inline]
fn plain<'m>(flow: Flow<'m>) -> Request<'m, Tag> {
    Request::new(flow, Tag::Plain)
}

pub(super) fn with_reply<'m>(flow: Flow<'m>, tag: Tag, reply: Reply) -> Request<'m, Tag> {
    Request { reply, ..Request::new(flow, tag) }
}
