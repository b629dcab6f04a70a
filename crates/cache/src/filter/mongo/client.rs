//! Client Filter: effect of a MongoDB command on the cache.

use smallvec::SmallVec;
use wire::{
    Result,
    mongo::{
        bson::{Document, Element},
        change,
        command::Effect,
        frame::{Body, Frame},
        key,
        request::{Namespace as Name, Request as Command},
        touch::{self, Touch},
    },
};

use super::{Mongo, Tag, find::is_comparable, greeting, identity::Step, transaction::Extent};
use crate::{
    filter::{Flow, Reply, Request, Scratch, Write},
    key::{Key, Namespace, Scope},
    principal::{Login, Standing},
    stats::WhyNot,
};

/// A write that names more keys drops their collections instead.
const KEYS_MAX: usize = 1_024;

impl Mongo {
    /// Names the flow of `command`.
    ///
    /// # Errors
    /// The command cannot be read to its end.
    pub(super) fn name_flow<'m>(
        &mut self,
        command: &Command<'m>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
    ) -> Result<Request<'m, Tag>> {
        let mut tag = Tag {
            request_id: command.header.request_id,
            legacy: command.legacy,
            exhaust: command.flags.exhaust_allowed(),
            waits: command.effect() == Effect::Handshake
                && !matches!(command.body.element("maxAwaitTimeMS"), Ok(None)),
            ..Tag::default()
        };
        let acknowledged = command.acknowledged();
        let mut reply = if acknowledged { Reply::Plain } else { Reply::Never };
        let reads = !matches!(command.effect(), Effect::Pipeline | Effect::Write(_));
        let harmless = reads && command.effect() != Effect::TransactionEnd;
        if standing.login() != Login::Accepted && (!harmless || in_transaction(command)) {
            return Ok(Request { reply, ..Request::new(Flow::NeedsLogin, tag) });
        }
        if reads && in_transaction(command) {
            self.settings.transactions.note(command, self.user(), &Extent::default());
        }
        let mut flow = match command.effect() {
            Effect::Read { .. } if command.name == "find" && acknowledged => {
                match self.find(command, &mut tag, scratch)? {
                    Ok(read) => Flow::Read(read),
                    Err(reason) => Flow::Bypass(reason),
                }
            }
            Effect::Read { .. } => Flow::Bypass(WhyNot::NotByKey),
            Effect::Pipeline | Effect::Write(_) => self.written(command, scratch),
            Effect::Cursor if command.name == "getMore" => Flow::Bypass(WhyNot::Cursor),
            Effect::TransactionEnd if command.name != "abortTransaction" => {
                let extent = self.settings.transactions.published(command, self.user());
                Flow::Write(Write::to_all(extent.scopes(self.origin)))
            }
            Effect::Authentication | Effect::Handshake => {
                let handshake = command.effect() == Effect::Handshake;
                let seen = if handshake { Reply::Rewritten } else { Reply::Observed };
                tag.step = if handshake { Step::inside(command) } else { Step::of(command) };
                tag.greets = if handshake { greeting::form(command) } else { None };
                match (tag.step.is_some(), acknowledged) {
                    (true, true) => self.identity.begin(),
                    (true, false) => {
                        self.identity.lose_track();
                        standing.begin_again(Login::Unknown);
                    }
                    (false, _) => {}
                }
                if acknowledged {
                    reply = seen;
                }
                Flow::Coordination
            }
            Effect::Cursor | Effect::TransactionEnd | Effect::Session | Effect::Other => {
                Flow::Coordination
            }
        };
        if let Flow::Write(write) = &mut flow {
            write.name = command.command.map_or("", |row| row.name);
            tag.stated = write.states.as_ref().map(|states| states.len());
        }
        Ok(Request { reply, ..Request::new(flow, tag) })
    }

    /// The collection that `command` is about, as the scopes of a write.
    pub(super) fn collection_of<'m>(&self, command: &Command<'_>) -> SmallVec<[Scope<'m>; 1]> {
        static NO_KEYS: Scratch = Scratch::new();
        let mut touched = Touched::default();
        touched.visit(self, Touch::Collection(command.namespace), &mut Scratch::new());
        touched.scopes(self.origin, &NO_KEYS)
    }

    /// Scopes that an event of a change stream reports as written, and whether the stream
    /// continues.
    ///
    /// # Errors
    /// The event is malformed.
    pub(crate) fn reported<'m>(
        &self,
        event: &Document<'_>,
        scratch: &'m mut Scratch,
    ) -> Result<(SmallVec<[Scope<'m>; 1]>, bool)> {
        let mut touched = Touched::default();
        let goes_on = change::touches(event, &mut |touch| touched.visit(self, touch, scratch))?;
        Ok((touched.scopes(self.origin, scratch), goes_on))
    }

    /// The flow of a command that may write.
    fn written<'m>(&self, command: &Command<'m>, scratch: &'m mut Scratch) -> Flow<'m> {
        let mut touched = Touched::default();
        let visit = &mut |touch| touched.visit(self, touch, scratch);
        if touch::touches(command, visit).is_err() {
            touched.everything = true;
        }
        if in_transaction(command) {
            // It is invisible before the commit.
            self.settings.transactions.note(command, self.user(), &touched.extent());
            return Flow::Write(Write::to_all(SmallVec::new()));
        }
        if matches!(command.effect(), Effect::Pipeline) && touched.is_empty() {
            return Flow::Bypass(WhyNot::NotByKey);
        }
        let scopes = touched.scopes(self.origin, scratch);
        let states = self.stated_by(command, &scopes);
        Flow::Write(Write { states, ..Write::to_all(scopes) })
    }
}

pub(super) fn in_transaction(command: &Command<'_>) -> bool {
    !matches!(command.body.element("autocommit"), Ok(None))
}

/// The scopes that a write touches, while they are collected.
#[derive(Default)]
struct Touched {
    /// Namespace, name, and the canonical key's place in scratch.
    keys: Vec<(Namespace, std::ops::Range<usize>)>,
    /// Whole collections.
    collections: SmallVec<[Namespace; 4]>,
    databases: SmallVec<[u64; 2]>,
    everything: bool,
}

impl Touched {
    fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.collections.is_empty()
            && self.databases.is_empty()
            && !self.everything
    }

    fn visit(&mut self, mongo: &Mongo, touch: Touch<'_>, scratch: &mut Scratch) {
        match touch {
            Touch::Document { namespace, document } => {
                let id = document.element("_id");
                // Without an _id the server generates one that no client can have read before.
                if !matches!(id, Ok(None)) {
                    self.key(mongo, namespace, id.ok().flatten(), scratch);
                }
                self.unique(mongo, namespace);
            }
            Touch::Filter { namespace, filter, entry } => {
                let collated = !matches!(entry.element("collation"), Ok(None));
                let id = pinned(&filter).filter(|_| !collated);
                self.key(mongo, namespace, id, scratch);
                self.unique(mongo, namespace);
            }
            Touch::Collection(namespace) => {
                self.collection(mongo, namespace);
                self.unique(mongo, namespace);
            }
            Touch::Database(database) => {
                self.databases.push(mongo.namespace(database, "").database);
            }
            Touch::Everything => self.everything = true,
        }
    }

    /// Notes that the write touches the record `id` of the namespace, or any record if `id` is
    /// unknown.
    fn key(
        &mut self,
        mongo: &Mongo,
        name: Name<'_>,
        id: Option<Element<'_>>,
        scratch: &mut Scratch,
    ) {
        let start = scratch.len();
        let known = id.is_some_and(|id| key::append(&id, scratch).is_ok());
        match name.collection {
            Some(collection) if known && self.keys.len() < KEYS_MAX => {
                let namespace = mongo.namespace(name.database, collection);
                self.keys.push((namespace, start..scratch.len()));
            }
            _ => self.collection(mongo, name),
        }
    }

    fn collection(&mut self, mongo: &Mongo, name: Name<'_>) {
        let namespace = mongo.namespace(name.database, name.collection.unwrap_or_default());
        if !self.collections.contains(&namespace) {
            self.collections.push(namespace);
        }
    }

    /// A write by `_id` can change any other field, so entries found by other fields are dropped.
    fn unique(&mut self, mongo: &Mongo, name: Name<'_>) {
        let Some(collection) = name.collection else { return };
        for unique in &mongo.settings.unique_fields {
            if unique.namespace.split_once('.') == Some((name.database, collection)) {
                let namespace = mongo.namespace(name.database, collection);
                let namespace = namespace.by_field(unique.field.as_bytes());
                if !self.collections.contains(&namespace) {
                    self.collections.push(namespace);
                }
            }
        }
    }

    /// The same by collection, for use when the keys are no longer available.
    fn extent(self) -> Extent {
        let mut collections: SmallVec<[Namespace; 2]> = self.collections.into_iter().collect();
        for (namespace, _) in self.keys {
            if !collections.contains(&namespace) {
                collections.push(namespace);
            }
        }
        Extent { collections, databases: self.databases, everything: self.everything }
    }

    fn scopes<'m>(self, origin: u64, scratch: &'m Scratch) -> SmallVec<[Scope<'m>; 1]> {
        if self.everything {
            return SmallVec::from_iter([Scope::Origin(origin)]);
        }
        let keys = self.keys.into_iter().map(|(namespace, place)| {
            Scope::Key(Key::new(namespace, scratch.get(place).unwrap_or_default()))
        });
        let collections = self.collections.into_iter().map(Scope::Collection);
        let databases = self.databases.into_iter();
        let databases = databases.map(|database| Scope::Database { origin, database });
        keys.chain(collections).chain(databases).collect()
    }
}

/// The `_id` that every record a filter selects must have; further conditions only select less.
fn pinned<'m>(filter: &Document<'m>) -> Option<Element<'m>> {
    let id = filter.element("_id").ok()??;
    let Some(document) = id.document() else { return is_comparable(&id).then_some(id) };
    match document.elements().next()?.ok()? {
        equals if equals.name() == b"$eq" => is_comparable(&equals).then_some(equals),
        other if other.name().first() == Some(&b'$') => None,
        _ => Some(id),
    }
}

/// Returns the kind of reply to a frame whose opcode is not answered.
pub(super) fn unanswered(opcode: i32) -> Reply {
    match opcode {
        // Legacy write opcodes: update, insert, delete.
        2001 | 2002 | 2006 => Reply::Never,
        _ => Reply::Unknown,
    }
}

/// A frame that is not a command: a legacy find, or an unknown opcode.
pub(super) fn opaque<'m>(frame: &Frame<'_>, origin: u64, login: Login) -> Request<'m, Tag> {
    const GET_MORE: i32 = 2005;
    const KILL_CURSORS: i32 = 2007;
    let header = frame.header();
    let request_id = header.request_id;
    let tag = Tag { request_id, legacy: true, ..Tag::default() };
    let reply = unanswered(header.opcode);
    match frame.body() {
        Body::Query(_) => Request::new(Flow::Bypass(WhyNot::Command), tag),
        _ if header.opcode == GET_MORE => Request::new(Flow::Bypass(WhyNot::Cursor), tag),
        _ if header.opcode == KILL_CURSORS => {
            Request { reply: Reply::Never, ..Request::new(Flow::Coordination, tag) }
        }
        _ => {
            let flow = match login {
                Login::Accepted => Flow::Write(Write::to(Scope::Origin(origin))),
                Login::Unknown | Login::Refused => Flow::NeedsLogin,
            };
            Request { reply, ..Request::new(flow, tag) }
        }
    }
}
