//! `Query` and `Scan`: pages of a table, stored by the exact parameters of the request.
//!
//! Any write to the table can change any page of it or of its indexes. Pages are in a namespace
//! beside that of the items, which each such write closes.

use std::time::Duration;

use wire::dynamodb::{Message, query::Query, value::is_table};

use super::{
    DynamoDb,
    client::{Signed, read_in, write_region},
};
use crate::{
    filter::{Flow, Scratch},
    key::{Key, Namespace, Scope},
    principal::Standing,
    stats::WhyNot,
};

impl DynamoDb {
    /// A read of a page by the operation `name`.
    pub(super) fn query<'m>(
        &mut self,
        name: &str,
        message: &Message<'_>,
        scratch: &'m mut Scratch,
        standing: &mut Standing,
        now: Duration,
    ) -> Flow<'m> {
        let Some(Signed { region, .. }) = self.identify(message, standing, now) else {
            return Flow::Bypass(WhyNot::Unproven);
        };
        let Some(query) = Query::parse(&message.body) else {
            return Flow::Bypass(WhyNot::Option);
        };
        if query.is_consistent() {
            return Flow::Bypass(WhyNot::ReadConcern);
        }
        if query.wants_capacity() {
            return Flow::Bypass(WhyNot::Option);
        }
        let Some(table) = query.table().filter(|table| is_table(&table.0)) else {
            return Flow::Bypass(WhyNot::NotByKey);
        };
        if self.excludes(&table.0, region) {
            return Flow::Bypass(WhyNot::Excluded);
        }
        let table = table.0.as_bytes();
        // As the key of an item begins. At most `TABLE_BYTES_MAX`.
        scratch.push(table.len() as u8);
        scratch.extend_from_slice(table);
        scratch.extend_from_slice(name.as_bytes());
        if query.write(scratch).is_none() {
            return Flow::Bypass(WhyNot::Option);
        }
        let key_bytes = scratch.len();
        write_region(region, scratch);
        read_in(pages(self.table(table)), scratch, key_bytes)
    }
}

/// The namespace of the pages of a table.
fn pages(table: Namespace) -> Namespace {
    table.by_field(b"pages")
}

/// The pages that a write to `scopes` can change, but those that are in `scopes` already.
pub(super) fn pages_in<'s>(scopes: &[Scope<'_>]) -> impl Iterator<Item = Scope<'s>> + use<'s> {
    let table = |scope: &Scope<'_>| match *scope {
        Scope::Key(Key { namespace, .. }) | Scope::Collection(namespace) => Some(pages(namespace)),
        Scope::Database { .. } | Scope::Origin(_) => None,
    };
    let mut tables: Vec<Namespace> = scopes.iter().filter_map(table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.into_iter().map(Scope::Collection)
}
