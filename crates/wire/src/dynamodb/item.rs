//! The bodies of requests on items: what they read, and which keys they write.

use serde::{Deserialize, de::IgnoredAny};

use super::{
    projection::{self, Projection},
    value::{Attributes, Members, Text},
};

/// `GetItem`.
///
/// An option that is not listed, a member that occurs twice, and anything that is no JSON of this
/// form are errors of the reader: such a request is not understood.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct GetItem<'a> {
    /// The table.
    #[serde(borrow)]
    pub table_name: Text<'a>,
    /// Key attributes of the item.
    #[serde(borrow)]
    pub key: Attributes<'a>,
    /// Whether the reply must contain all writes that were acknowledged.
    #[serde(default)]
    pub consistent_read: Option<bool>,
    #[serde(borrow, default)]
    projection_expression: Option<Text<'a>>,
    #[serde(borrow, default)]
    expression_attribute_names: Option<Members<'a, Text<'a>>>,
    #[serde(borrow, default)]
    attributes_to_get: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    return_consumed_capacity: Option<Text<'a>>,
}

impl<'a> GetItem<'a> {
    /// Reads the body of a request; `None` if it is not understood.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        read(body)
    }

    /// Whether the reply has the capacity that the request consumed.
    #[must_use]
    pub fn wants_capacity(&self) -> bool {
        self.return_consumed_capacity.as_ref().is_some_and(|wanted| wanted.0 != "NONE")
    }

    /// The attributes that the reply has, in canonical form; `None` if the origin refuses the
    /// request, or may.
    #[must_use]
    pub fn write_projection(&self, out: &mut Vec<u8>) -> Option<()> {
        let projection = Projection::of(
            self.projection_expression.as_ref(),
            self.expression_attribute_names.as_ref(),
            self.attributes_to_get.as_deref(),
        )?;
        projection::write(&projection, out)
    }
}

/// A key that a request writes.
#[derive(Debug)]
pub struct Written<'a> {
    /// The table.
    pub table: Text<'a>,
    /// Which item of it.
    pub item: Which<'a>,
}

/// How a write names its item.
#[derive(Debug)]
pub enum Which<'a> {
    /// By its key attributes alone.
    Key(Attributes<'a>),
    /// By all its attributes, of which some are the key.
    Item(Attributes<'a>),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Put<'a> {
    #[serde(borrow)]
    table_name: Text<'a>,
    #[serde(borrow)]
    item: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change<'a> {
    #[serde(borrow)]
    table_name: Text<'a>,
    #[serde(borrow)]
    key: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchWrite<'a> {
    #[serde(borrow)]
    request_items: Members<'a, Vec<BatchPart<'a>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct BatchPart<'a> {
    #[serde(borrow, default)]
    put_request: Option<PutPart<'a>>,
    #[serde(borrow, default)]
    delete_request: Option<DeletePart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutPart<'a> {
    #[serde(borrow)]
    item: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeletePart<'a> {
    #[serde(borrow)]
    key: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Transaction<'a> {
    #[serde(borrow)]
    transact_items: Vec<TransactionPart<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct TransactionPart<'a> {
    #[serde(default, rename = "ConditionCheck")]
    _condition: Option<IgnoredAny>,
    #[serde(borrow, default)]
    put: Option<Put<'a>>,
    #[serde(borrow, default)]
    update: Option<Change<'a>>,
    #[serde(borrow, default)]
    delete: Option<Change<'a>>,
}

impl<'a> From<Put<'a>> for Written<'a> {
    fn from(Put { table_name, item }: Put<'a>) -> Self {
        Self { table: table_name, item: Which::Item(item) }
    }
}

impl<'a> From<Change<'a>> for Written<'a> {
    fn from(Change { table_name, key }: Change<'a>) -> Self {
        Self { table: table_name, item: Which::Key(key) }
    }
}

/// The keys that the body of `PutItem`, `UpdateItem`, `DeleteItem`, `BatchWriteItem` or
/// `TransactWriteItems` writes; `None` if it is not understood.
#[must_use]
pub fn writes<'a>(operation: &str, body: &'a [u8]) -> Option<Vec<Written<'a>>> {
    match operation {
        "PutItem" => Some(vec![read::<Put<'_>>(body)?.into()]),
        "UpdateItem" | "DeleteItem" => Some(vec![read::<Change<'_>>(body)?.into()]),
        "BatchWriteItem" => {
            let BatchWrite { request_items } = read(body)?;
            let parts = request_items.0.into_iter().flat_map(|(table, parts)| {
                parts.into_iter().flat_map(move |BatchPart { put_request, delete_request }| {
                    let put = put_request.map(|PutPart { item }| Which::Item(item));
                    let deleted = delete_request.map(|DeletePart { key }| Which::Key(key));
                    let table = table.clone();
                    let items = put.into_iter().chain(deleted);
                    items.map(move |item| Written { table: table.clone(), item })
                })
            });
            Some(parts.collect())
        }
        "TransactWriteItems" => {
            let Transaction { transact_items } = read(body)?;
            let parts = transact_items.into_iter().flat_map(|part| {
                let changed = part.update.into_iter().chain(part.delete).map(Written::from);
                part.put.map(Written::from).into_iter().chain(changed)
            });
            Some(parts.collect())
        }
        _ => None,
    }
}

/// The table that the body of a request on a whole table names.
#[must_use]
pub fn table(body: &[u8]) -> Option<Text<'_>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct OfTable<'a> {
        #[serde(borrow)]
        table_name: Text<'a>,
    }
    read::<OfTable<'_>>(body).map(|of| of.table_name)
}

/// Whether every statement in the body of `ExecuteStatement`, `BatchExecuteStatement` or
/// `ExecuteTransaction` only reads.
#[must_use]
pub fn only_selects(operation: &str, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct One<'a> {
        #[serde(borrow)]
        statement: Text<'a>,
    }
    #[derive(Deserialize)]
    struct Several<'a> {
        #[serde(borrow, rename = "Statements", alias = "TransactStatements")]
        all: Vec<One<'a>>,
    }
    let selects = |One { statement }: &One<'_>| {
        let mut words = statement.0.split_ascii_whitespace();
        words.next().is_some_and(|word| word.eq_ignore_ascii_case("select"))
    };
    match operation {
        "ExecuteStatement" => read(body).is_some_and(|one| selects(&one)),
        _ => {
            let several = read::<Several<'_>>(body);
            several.is_some_and(|Several { all }| !all.is_empty() && all.iter().all(selects))
        }
    }
}

/// Reads an object. The reader of a structure would take an array in its place.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    let is_object = body.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice(body).ok()).flatten()
}
