//! Documents that writes state: with population `on-write` they are stored when the origin has
//! accepted them.

use smallvec::SmallVec;
use wire::mongo::{
    bson::{Document, Element, Kind, Writer},
    request::{Namespace as Name, Request as Command},
};

use super::{
    Mongo,
    find::{equality, is_comparable, is_internal},
};
use crate::{filter::States, key::Scope};

/// The variants of finds by `_id` without read concern and projection: with the read preferences
/// `primary` and `primaryPreferred`, one of which drivers use by default, depending on how they
/// are connected.
const VARIANTS: [&[u8]; 2] = [&[0, 0], &[0, 1]];

impl Mongo {
    /// The documents that a command gives to `scopes`, in their order; `None` unless it states all
    /// of them as a find by `_id` would return them.
    pub(super) fn stated_by<'m>(
        &self,
        command: &Command<'m>,
        scopes: &[Scope<'m>],
    ) -> Option<Box<[States<'m>]>> {
        let Name { database, collection: Some(collection) } = command.namespace else {
            return None;
        };
        if !self.settings.on_write
            || command.legacy
            || is_internal(database, collection)
            || !self.identity.is_followed()
            || !self.options_change_nothing(command)
        {
            return None;
        }
        let name = format!("{database}.{collection}");
        if self.rules.restrict() && !self.rules.allow(name.as_bytes()) {
            return None;
        }
        let documents: Vec<_> = match command.name {
            "insert" => {
                command.documents("documents").map(|whole| inserted(&whole.ok()?)).collect()
            }
            "update" => command.documents("updates").map(|entry| replaced(&entry.ok()?)).collect(),
            _ => return None,
        };
        if documents.len() != scopes.len() {
            return None;
        }
        let states = documents.into_iter().zip(scopes).map(|(document, scope)| {
            let Scope::Key(key) = *scope else { return None };
            let variants = SmallVec::from_slice(&VARIANTS);
            let answer = found(&name, &document?);
            Some(States { key, place: (database, collection), variants, answer, lives: None })
        });
        states.collect()
    }

    /// Whether the options of a write do not change what it stores, and its reply shows whether it
    /// was executed now. An origin that knows a retried write answers it as the first time, and
    /// says so (`retriedStmtIds`) if it is recent enough.
    fn options_change_nothing(&self, command: &Command<'_>) -> bool {
        let mut options = command.body.elements().skip(1);
        options.all(|option| match option.as_ref().map(Element::name) {
            Ok(
                b"documents"
                | b"updates"
                | b"ordered"
                | b"writeConcern"
                | b"lsid"
                | b"$clusterTime"
                | b"$db"
                | b"comment"
                | b"maxTimeMS"
                | b"bypassDocumentValidation"
                | b"apiVersion"
                | b"apiStrict"
                | b"apiDeprecationErrors",
            ) => true,
            Ok(b"txnNumber") => self.tells_retries,
            _ => false,
        })
    }
}

/// A new document. Drivers put its `_id` first; MongoDB does that too, but not every server.
fn inserted(document: &Document<'_>) -> Option<Vec<u8>> {
    let id = document.elements().next()?.ok()?;
    let is_whole = id.name() == b"_id" && is_comparable(&id) && is_stored_unchanged(document);
    is_whole.then(|| document.bytes().to_vec())
}

/// The document of an entry of `update` that replaces one with this `_id`, or inserts it.
fn replaced(entry: &Document<'_>) -> Option<Vec<u8>> {
    let (mut filter, mut document) = (None, None);
    for element in entry.elements() {
        let element = element.ok()?;
        match element.name() {
            b"q" => filter = element.document(),
            b"u" => document = element.document(),
            b"upsert" => {}
            b"multi" if !element.is_true() => {}
            _ => return None,
        }
    }
    let (name, id) = equality(&filter?).ok()??;
    let document = document?;
    // Values of these types are equal only if they have the same bytes: the stored one may be.
    let is_exact = matches!(
        id.kind(),
        Kind::ObjectId | Kind::String | Kind::Binary | Kind::Bool | Kind::DateTime
    );
    let first = document.elements().next().transpose().ok()?;
    let has_own = first.is_some_and(|first| first.name() == b"_id");
    let is_other = |own: Element<'_>| own.kind() != id.kind() || own.value() != id.value();
    let differs = match document.element("_id").ok()? {
        Some(own) => !has_own || is_other(own),
        None => false,
    };
    // An operator instead of a field: a modification.
    let modifies = first.is_some_and(|first| first.name().first() == Some(&b'$'));
    if name != b"_id" || !is_exact || differs || modifies || !is_stored_unchanged(&document) {
        return None;
    }
    Some(if has_own { document.bytes().to_vec() } else { with_id(&id, &document) })
}

/// Whether the server stores the fields as they are: it sets an empty timestamp to its time.
fn is_stored_unchanged(document: &Document<'_>) -> bool {
    document.elements().all(|element| element.is_ok_and(|element| element.timestamp() != Some(0)))
}

fn with_id(id: &Element<'_>, document: &Document<'_>) -> Vec<u8> {
    let mut whole = Vec::with_capacity(document.bytes().len() + id.value().len() + 5);
    Writer::write(&mut whole, |whole| {
        whole.value("_id", id);
        document.elements().flatten().for_each(|element| whole.element(&element));
    });
    whole
}

/// The body of the reply to a find that finds this document.
fn found(namespace: &str, document: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(document.len() + namespace.len() + 64);
    Writer::write(&mut body, |body| {
        body.nested("cursor", |cursor| {
            cursor.array("firstBatch", |batch| {
                if let Ok(document) = Document::parse(document) {
                    batch.document(document);
                }
            });
            cursor.i64("id", 0);
            cursor.str("ns", namespace);
        });
        body.f64("ok", 1.0);
    });
    body
}
