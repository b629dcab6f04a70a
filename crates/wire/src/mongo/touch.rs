//! The documents that a request writes to.
//!
//! Every write is one of five cases. The caller decides whether a filter selects one key, and under
//! which collation strings are compared.

use super::bson::{Document, Element};
use super::command::{Effect, Scope};
use super::reader::malformed;
use super::request::{Namespace, Request};
use crate::Result;

#[cfg(test)]
mod tests;

/// One target of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch<'a> {
    /// A new document.
    Document {
        /// The namespace written to.
        namespace: Namespace<'a>,
        /// The document; without an `_id`, the server chooses one.
        document: Document<'a>,
    },
    /// All documents that the filter selects, and with an upsert the one that it describes.
    Filter {
        /// The namespace in which the filter selects.
        namespace: Namespace<'a>,
        /// The filter.
        filter: Document<'a>,
        /// The write's own entry, with its `collation`, `upsert` and so on.
        entry: Document<'a>,
    },
    /// A whole collection.
    Collection(Namespace<'a>),
    /// A whole database.
    Database(&'a str),
    /// Every database.
    Everything,
}

/// Calls `visit` for each target that `request` writes to; does not call it for a request that
/// writes nothing. A request inside a transaction writes only once that commits.
///
/// # Errors
/// When the request cannot be understood to its end. The visited targets are incomplete: the caller
/// must assume a write to everything.
pub fn touches<'a>(request: &Request<'a>, visit: &mut dyn FnMut(Touch<'a>)) -> Result<()> {
    let visit = &mut |touch| visit(widen(touch));
    match request.effect() {
        Effect::Pipeline => {
            if let Some(namespace) = output(request)? {
                visit(Touch::Collection(namespace));
            }
        }
        Effect::Write(scope) => write(request, scope, visit)?,
        Effect::Read { .. }
        | Effect::Cursor
        | Effect::TransactionEnd
        | Effect::Authentication
        | Effect::Handshake
        | Effect::Session
        | Effect::Other => {}
    }
    Ok(())
}

/// A collection that is not named (or by UUID) could be any of its database, and so could one that
/// a `system.` collection stands for: `system.views` defines views, `system.buckets.c` holds `c`.
pub(super) fn widen(touch: Touch<'_>) -> Touch<'_> {
    let (Touch::Document { namespace, .. }
    | Touch::Filter { namespace, .. }
    | Touch::Collection(namespace)) = touch
    else {
        return touch;
    };
    match namespace.collection {
        Some(name) if !name.starts_with("system.") => touch,
        _ => Touch::Database(namespace.database),
    }
}

/// Returns the namespace that an aggregation writes to with its stage `$out` or `$merge`.
///
/// # Errors
/// When the pipeline, or the stage, is malformed.
pub fn output<'a>(request: &Request<'a>) -> Result<Option<Namespace<'a>>> {
    let database = request.namespace.database;
    for stage in request.documents("pipeline") {
        for operator in stage?.elements() {
            let operator = operator?;
            let target = match operator.name() {
                b"$out" => Some(operator),
                b"$merge" => match operator.document() {
                    Some(options) => options.element("into")?,
                    None => Some(operator),
                },
                _ => continue,
            };
            let namespace = target.map(|target| named(&target, database)).transpose()?.flatten();
            return namespace.map(Some).ok_or_else(|| {
                malformed(operator.offset(), "a stage naming a collection", "another value")
            });
        }
    }
    Ok(None)
}

/// `"collection"`, or `{db: "database", coll: "collection"}`.
fn named<'a>(target: &Element<'a>, database: &'a str) -> Result<Option<Namespace<'a>>> {
    let Some(document) = target.document() else {
        return Ok(target.str().map(|name| Namespace { database, collection: Some(name) }));
    };
    let mut namespace = Namespace { database, collection: None };
    for element in document.elements() {
        let element = element?;
        match (element.name(), element.str()) {
            (b"db", Some(name)) => namespace.database = name,
            (b"coll", Some(name)) => namespace.collection = Some(name),
            _ => {}
        }
    }
    Ok(namespace.collection.is_some().then_some(namespace))
}

fn write<'a>(request: &Request<'a>, scope: Scope, visit: &mut dyn FnMut(Touch<'a>)) -> Result<()> {
    let namespace = request.namespace;
    match scope {
        Scope::Documents { list } => {
            for document in request.documents(list) {
                visit(Touch::Document { namespace, document: document? });
            }
        }
        Scope::Filters { list, filter } => {
            for entry in request.documents(list) {
                visit(selected(namespace, entry?, filter)?);
            }
        }
        // Without its filter the command selects by `sort` alone, so it may be any document.
        Scope::Filter { filter } => visit(selected(namespace, request.body, filter)?),
        Scope::Operations { list, namespaces } => operations(request, list, namespaces, visit)?,
        Scope::Collection => visit(Touch::Collection(namespace)),
        Scope::Rename { to } => {
            visit(Touch::Collection(namespace));
            let to = request.body.element(to)?.and_then(|element| element.str());
            visit(to.map_or(Touch::Everything, |to| Touch::Collection(Namespace::parse(to))));
        }
        Scope::Database => visit(Touch::Database(namespace.database)),
        Scope::Everything => visit(Touch::Everything),
    }
    Ok(())
}

fn selected<'a>(namespace: Namespace<'a>, entry: Document<'a>, filter: &str) -> Result<Touch<'a>> {
    Ok(match entry.element(filter)?.and_then(|element| element.document()) {
        Some(filter) => Touch::Filter { namespace, filter, entry },
        None => Touch::Collection(namespace),
    })
}

/// `bulkWrite`: each operation begins with its verb and the index of its namespace.
fn operations<'a>(
    request: &Request<'a>,
    list: &str,
    namespaces: &str,
    visit: &mut dyn FnMut(Touch<'a>),
) -> Result<()> {
    // Collected once, since operations may count into it in any order; no longer than the frame.
    let mut known = Vec::new();
    for entry in request.documents(namespaces) {
        let name = entry?.element("ns")?.and_then(|element| element.str());
        known.push(name.map(Namespace::parse));
    }
    for entry in request.documents(list) {
        let entry = entry?;
        let Some(verb) = entry.elements().next().transpose()? else {
            return Err(malformed(entry.offset(), "an operation", "an empty document"));
        };
        let index = verb.integer().and_then(|index| usize::try_from(index).ok());
        let Some(&Some(namespace)) = index.and_then(|index| known.get(index)) else {
            return Err(malformed(verb.offset(), "the index of a namespace", "another value"));
        };
        visit(match verb.name() {
            b"insert" => match entry.element("document")?.and_then(|element| element.document()) {
                Some(document) => Touch::Document { namespace, document },
                None => Touch::Collection(namespace),
            },
            b"update" | b"delete" => selected(namespace, entry, "filter")?,
            _ => Touch::Collection(namespace),
        });
    }
    Ok(())
}
