//! Client Filter: the flow of each DynamoDB operation.

use std::{ops::Range, time::Duration};

use smallvec::SmallVec;
use wire::dynamodb::{
    Message,
    item::{self, GetItem, Which, Written},
    value::{Names, is_table, write_key, write_key_of},
};

use super::{
    DynamoDb, Tag,
    operation::{self, Effect},
};
use crate::{
    filter::{Flow, Read, Reply, Request, Scratch, Write},
    key::{Key, Namespace, Scope},
    principal::{Finding, Login, Proof, Standing},
    stats::WhyNot,
};

/// Maximum number of items of a write; one with more counts as a write to everything.
const ITEMS_MAX: usize = 256;
/// Longest name of a region, in bytes. The variant of a `GetItem` begins with its length.
const REGION_BYTES_MAX: usize = 64;

/// What a write touches; places are those of a key in the scratch space.
enum Touched {
    Key(Namespace, Range<usize>),
    Table(Namespace),
}

/// What a verified signature says of its request.
pub(super) struct Signed<'h> {
    /// The region that it is for, or the set of them.
    pub(super) region: &'h str,
    /// No other request can be signed in place of it.
    pub(super) by_key_pair: bool,
}

impl DynamoDb {
    /// Determines the flow of `message`; `whole` says whether its body is there.
    pub(super) fn name_flow<'m>(
        &mut self,
        message: &Message<'_>,
        whole: bool,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Request<'m, Tag> {
        self.asked_at = now;
        let mut tag = if message.request.method == "HEAD" { Tag::Head } else { Tag::Other };
        let keeps_alive = message.request.head.keeps_alive();
        let reply = if keeps_alive { Reply::Plain } else { Reply::Last };
        let is_usual = whole && message.is_usual();
        // Answers from storage have no coding.
        let is_plain = is_usual && keeps_alive && message.request.head.takes_identity();
        let (name, effect) = operation::of(message);
        let is_read = match effect {
            Effect::Get | Effect::GetMany => true,
            Effect::Queries => self.settings.caches_queries,
            _ => false,
        };
        if !is_read && whole && standing.login() != Login::Accepted {
            // A client that is known may send longer requests.
            self.identify(message, standing, now);
        }
        let flow = match effect {
            Effect::Get if is_plain => self.get(message, scratch, standing, now),
            Effect::GetMany if is_plain => {
                return self.get_many(message, scratch, standing, now);
            }
            Effect::Queries if is_read && is_plain => {
                tag = Tag::Page;
                self.query(name, message, scratch, standing, now)
            }
            Effect::Get | Effect::GetMany => Flow::Bypass(WhyNot::Option),
            Effect::Queries if is_read => Flow::Bypass(WhyNot::Option),
            Effect::Queries | Effect::Reads => Flow::Bypass(WhyNot::Command),
            Effect::Describes => Flow::Coordination,
            Effect::Executes if is_usual && item::only_selects(name, &message.body) => {
                Flow::Bypass(WhyNot::Command)
            }
            Effect::Writes if is_usual => self.write(name, &message.body, scratch, now),
            Effect::WritesTable if is_usual => {
                let table = item::table(&message.body).filter(|table| is_table(&table.0));
                let scope = table.map_or(self.namespace.whole_origin(), |table| {
                    Scope::Collection(self.table(table.0.as_bytes()))
                });
                self.write_to(name, SmallVec::from_iter([scope]), now)
            }
            Effect::Executes | Effect::Writes | Effect::WritesTable | Effect::Unknown => {
                let scope = self.namespace.whole_origin();
                self.write_to(name, SmallVec::from_iter([scope]), now)
            }
        };
        Request { reply, ..Request::new(flow, tag) }
    }

    /// A read of one item.
    fn get<'m>(
        &mut self,
        message: &Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Flow<'m> {
        let Some(Signed { region, .. }) = self.identify(message, standing, now) else {
            return Flow::Bypass(WhyNot::Unproven);
        };
        let Some(get) = GetItem::parse(&message.body) else {
            return Flow::Bypass(WhyNot::Option);
        };
        if get.consistent_read == Some(true) {
            return Flow::Bypass(WhyNot::ReadConcern);
        }
        if get.wants_capacity() {
            return Flow::Bypass(WhyNot::Option);
        }
        let table = &get.table_name.0;
        if !write_key(table, &get.key, scratch) {
            return Flow::Bypass(WhyNot::NotByKey);
        }
        if self.excludes(table, region) {
            return Flow::Bypass(WhyNot::Excluded);
        }
        let key_bytes = scratch.len();
        write_region(region, scratch);
        if get.write_projection(scratch).is_none() {
            return Flow::Bypass(WhyNot::Expression);
        }
        read_in(self.table(table.as_bytes()), scratch, key_bytes)
    }

    /// Verifies the signature of a whole request; `None` if it is not that of a known access key.
    pub(super) fn identify<'h>(
        &mut self,
        message: &Message<'h>,
        standing: &mut Standing,
        now: Duration,
    ) -> Option<Signed<'h>> {
        let credentials = &*self.credentials;
        if credentials.count() == 0 {
            return None;
        }
        let time = self.settings.clock + now;
        let Message { request, body } = message;
        let signer = self.verifier.verify(request, body, "dynamodb", credentials, time);
        let signer = signer.ok().filter(|signer| signer.region.len() <= REGION_BYTES_MAX);
        match signer {
            Some(signer) => {
                let name = Proof::Name(signer.holder.as_bytes());
                standing.settle(Finding::Proven(name), now);
                Some(Signed { region: signer.region, by_key_pair: signer.by_key_pair })
            }
            None => {
                standing.begin_again(Login::Unknown);
                None
            }
        }
    }

    /// A write of the items that `body` names.
    fn write<'m>(
        &self,
        name: &'static str,
        body: &[u8],
        scratch: &'m mut Scratch,
        now: Duration,
    ) -> Flow<'m> {
        let written = item::writes(name, body).unwrap_or_default();
        let is_named = |written: &Written<'_>| is_table(&written.table.0);
        if !(1..=ITEMS_MAX).contains(&written.len()) || !written.iter().all(is_named) {
            let everything = self.namespace.whole_origin();
            return self.write_to(name, SmallVec::from_iter([everything]), now);
        }
        let touched: SmallVec<[Touched; 1]> =
            written.iter().map(|one| self.touch(one, scratch)).collect();
        let scratch: &'m Scratch = scratch;
        let scopes = touched.into_iter().map(|touched| match touched {
            Touched::Table(table) => Scope::Collection(table),
            Touched::Key(table, place) => {
                Scope::Key(Key::new(table, scratch.get(place).unwrap_or_default()))
            }
        });
        self.write_to(name, scopes.collect(), now)
    }

    fn touch(&self, written: &Written<'_>, scratch: &mut Scratch) -> Touched {
        let name = &written.table.0;
        let table = self.table(name.as_bytes());
        let start = scratch.len();
        let is_key = match &written.item {
            Which::Key(key) => write_key(name, key, scratch),
            Which::Item(item) => {
                let found = |names: Names<'_>| write_key_of(name, names, item, scratch);
                self.settings.tables.see(table, found).unwrap_or_default()
            }
        };
        match is_key {
            true => Touched::Key(table, start..scratch.len()),
            false => Touched::Table(table),
        }
    }

    fn write_to<'m>(
        &self,
        name: &'static str,
        mut scopes: SmallVec<[Scope<'m>; 1]>,
        now: Duration,
    ) -> Flow<'m> {
        self.settings.write_to(&mut scopes, now);
        Flow::Write(Write { name, ..Write::to_all(scopes) })
    }

    /// The namespace of the items of a table.
    pub(super) fn table(&self, name: &[u8]) -> Namespace {
        self.settings.table(name)
    }

    /// Whether reads of a table, signed for this region, are not answered from storage: by the
    /// rules, or because the feed does not read its stream.
    pub(super) fn excludes(&self, table: &str, region: &str) -> bool {
        let is_allowed = self.rules.allow(table.as_bytes());
        let Some(streams) = &self.settings.streams else { return !is_allowed };
        if streams.region != region {
            return true;
        }
        if !is_allowed && self.rules.include(table.as_bytes()) {
            streams.wanted.note(table);
        }
        !is_allowed
    }
}

/// A read in `namespace`, whose key and variant are in the scratch space.
pub(super) fn read_in(namespace: Namespace, scratch: &[u8], key_bytes: usize) -> Flow<'_> {
    let (key, variant) = scratch.split_at_checked(key_bytes).unwrap_or_default();
    Flow::Read(Read { key: Key::new(namespace, key), variant, place: (table_of(key), "") })
}

/// The name of the table with which a key begins, behind its length.
pub(super) fn table_of(key: &[u8]) -> &str {
    let name = key.split_first().and_then(|(&length, rest)| rest.get(..length.into()));
    std::str::from_utf8(name.unwrap_or_default()).unwrap_or_default()
}

/// Begins a variant: DynamoDB Local has tables of its own for each region.
pub(super) fn write_region(region: &str, scratch: &mut Scratch) {
    // At most `REGION_BYTES_MAX`.
    scratch.push(region.len() as u8);
    scratch.extend_from_slice(region.as_bytes());
}
