//! `BatchGetItem`: the items that it reads, a request for some of them, and the parts of replies.
//!
//! A reply lists the items of a table in any order and leaves out those that do not exist. It is
//! cut into one *part* for each key that was asked for; parts of replies and stored items make up
//! the answer to the whole request.
//!
//! ```text
//! part  := frame*
//! frame := kind(1) table(1) length(4) bytes     length: little-endian; table: its place
//! ```

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    item::read,
    projection::{self, Projection},
    value::{Attributes, Members, Names, Text, is_table, write_key, write_key_of},
};

/// Maximum number of keys of a request: that of the origin.
pub const KEYS_MAX: usize = 100;

/// What a frame has.
mod kind {
    /// An item that is known to be that of the key.
    pub(super) const ITEM: u8 = b'i';
    /// Nothing: there is no item with the key.
    pub(super) const ABSENT: u8 = b'a';
    /// Nothing: what the origin states of the key is not known, or it has not read it.
    pub(super) const UNKNOWN: u8 = b'u';
    /// An item of one of the keys of its table.
    pub(super) const SOME_ITEM: u8 = b's';
    /// The keys that the origin has not read, as the reply has them.
    pub(super) const UNPROCESSED: u8 = b'k';
    /// Nothing: the reply could not be read.
    pub(super) const UNREADABLE: u8 = b'x';
}

/// How an item that does not exist is stored; all others are objects of JSON.
const NO_ITEM: &[u8] = b"-";

/// `BatchGetItem`. What is not understood is an error of the reader, as for
/// [`super::item::GetItem`].
#[derive(Debug)]
pub struct BatchGetItem<'a> {
    /// The tables, in their order.
    pub tables: Vec<Table<'a>>,
    return_consumed_capacity: Option<Text<'a>>,
}

/// What is read of one table.
#[derive(Debug)]
pub struct Table<'a> {
    /// The table.
    pub name: Text<'a>,
    /// The keys, each as it is written.
    keys: Vec<&'a RawValue>,
    /// All members, each as it is written.
    members: Members<'a, &'a RawValue>,
    options: Options<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Options<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
    #[serde(default)]
    consistent_read: Option<bool>,
    #[serde(borrow, default)]
    projection_expression: Option<Text<'a>>,
    #[serde(borrow, default)]
    expression_attribute_names: Option<Members<'a, Text<'a>>>,
    #[serde(borrow, default)]
    attributes_to_get: Option<Vec<Text<'a>>>,
}

impl<'a> BatchGetItem<'a> {
    /// Reads the body of a request; `None` if it is not understood.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "PascalCase")]
        struct Body<'a> {
            #[serde(borrow)]
            request_items: Members<'a, &'a RawValue>,
            #[serde(borrow, default)]
            return_consumed_capacity: Option<Text<'a>>,
        }
        let Body { request_items, return_consumed_capacity } = read(body)?;
        let tables = request_items.0.into_iter().map(|(name, table)| {
            let mut options: Options<'_> = object(table)?;
            let keys = std::mem::take(&mut options.keys);
            Some(Table { name, keys, members: object(table)?, options })
        });
        let tables = tables.collect::<Option<_>>()?;
        Some(Self { tables, return_consumed_capacity })
    }

    /// Whether the reply has the capacity that the request consumed.
    #[must_use]
    pub fn wants_capacity(&self) -> bool {
        self.return_consumed_capacity.as_ref().is_some_and(|wanted| wanted.0 != "NONE")
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.tables.iter().map(|table| table.keys.len()).sum()
    }

    /// Appends the body of a request for those `keys` of this one alone, which are in its order.
    pub fn write_part<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, out: &mut Vec<u8>) {
        let mut keys = keys.peekable();
        let mut tables = Vec::new();
        let mut key = Vec::new();
        for table in &self.tables {
            let mut wanted: Vec<&str> = Vec::new();
            for place in 0..table.keys.len() {
                key.clear();
                if table.write_key(place, &mut key) && keys.next_if(|next| *next == key).is_some() {
                    wanted.extend(table.keys.get(place).map(|key| key.get()));
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let others = table.members.0.iter().filter(|(name, _)| name.0 != "Keys");
            // The names are those of `Options`.
            let others: String =
                others.map(|(name, value)| format!(",\"{}\":{}", name.0, value.get())).collect();
            // The name of a table has no character that is escaped.
            let name = &table.name.0;
            tables.push(format!("\"{name}\":{{\"Keys\":[{}]{others}}}", wanted.join(",")));
        }
        let body = format!("{{\"RequestItems\":{{{}}}}}", tables.join(","));
        out.extend_from_slice(body.as_bytes());
    }
}

impl Table<'_> {
    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether the reply must contain all writes that were acknowledged.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.options.consistent_read == Some(true)
    }

    /// Appends the key at a place in canonical form. Returns whether there is such a key: if not,
    /// `out` has any bytes after its former end.
    #[must_use]
    pub fn write_key(&self, place: usize, out: &mut Vec<u8>) -> bool {
        let key = self.keys.get(place).and_then(|key| object::<Attributes<'_>>(key));
        key.is_some_and(|key| write_key(&self.name.0, &key, out))
    }

    /// As [`super::item::GetItem::write_projection`].
    #[must_use]
    pub fn write_projection(&self, out: &mut Vec<u8>) -> Option<()> {
        let options = &self.options;
        let projection = Projection::of(
            options.projection_expression.as_ref(),
            options.expression_attribute_names.as_ref(),
            options.attributes_to_get.as_deref(),
        )?;
        projection::write(&projection, out)
    }
}

/// Reads a value that is an object.
fn object<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    read(value.get().as_bytes())
}

/// The names of the tables of a request, in its order.
#[derive(Debug, Clone)]
pub struct TableNames(Vec<Box<str>>);

impl TableNames {
    /// Those of a request.
    #[must_use]
    pub fn of(request: &BatchGetItem<'_>) -> Self {
        Self(request.tables.iter().map(|table| table.name.0.as_ref().into()).collect())
    }

    /// The place of the table of a key.
    fn place(&self, key: &[u8]) -> Option<u8> {
        let (table, _) = Names::of_key(key)?;
        let place = self.0.iter().position(|name| name.as_bytes() == table)?;
        u8::try_from(place).ok()
    }

    /// Cuts the body of a reply into the parts for `keys`, which were asked for.
    #[must_use]
    pub fn split<'k>(&self, body: &[u8], keys: impl Iterator<Item = &'k [u8]>) -> Vec<Vec<u8>> {
        let keys: Vec<&[u8]> = keys.collect();
        self.read_parts(body, &keys).unwrap_or_else(|| unreadable(keys.len()))
    }

    fn read_parts(&self, body: &[u8], keys: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Body<'a> {
            #[serde(borrow)]
            responses: Members<'a, Vec<&'a RawValue>>,
            #[serde(borrow, default)]
            unprocessed_keys: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Unprocessed<'a> {
            #[serde(borrow)]
            keys: Vec<Attributes<'a>>,
        }
        let Body { responses, unprocessed_keys } = read(body)?;
        let mut asked = keys
            .iter()
            .map(|key| Some(Asked { key, table: self.place(key)?, found: None }))
            .collect::<Option<Vec<_>>>()?;
        let unprocessed = match unprocessed_keys {
            Some(all) => object::<Members<'_, Unprocessed<'_>>>(all)?,
            None => Members(Vec::new()),
        };
        for (table, Unprocessed { keys }) in &unprocessed.0 {
            for key in keys {
                // A key that was not asked for.
                let mut same =
                    asked.iter_mut().filter(|one| one.is_of(&table.0, key) == Some(true));
                same.next()?.set(Found::NotRead)?;
            }
        }
        let mut loose = Vec::new();
        for (table, items) in &responses.0 {
            // A table is there once.
            responses.one(table.0.as_bytes())?;
            let place = self.0.iter().position(|name| **name == *table.0)?;
            let place = u8::try_from(place).ok()?;
            if !assign(place, &table.0, items, &mut asked)? {
                loose.extend(items.iter().map(|item| (place, item)));
            }
        }
        let mut parts: Vec<Vec<u8>> = asked.iter().map(Asked::part).collect();
        let first = parts.first_mut()?;
        for (table, item) in loose {
            write_frame(kind::SOME_ITEM, table, item.get().as_bytes(), first);
        }
        if let Some(all) = unprocessed_keys.filter(|_| !unprocessed.0.is_empty()) {
            write_frame(kind::UNPROCESSED, 0, all.get().as_bytes(), first);
        }
        Some(parts)
    }

    /// Appends the part of a stored item with this `key`.
    pub fn write_stored(&self, key: &[u8], packed: &[u8], out: &mut Vec<u8>) {
        if packed != NO_ITEM
            && let Some(table) = self.place(key)
        {
            write_frame(kind::ITEM, table, packed, out);
        }
    }

    /// The body of a reply of these parts; `None` if one of them could not be read.
    #[must_use]
    pub fn combine(&self, parts: &[u8]) -> Option<Vec<u8>> {
        let mut items = vec![Vec::new(); self.0.len()];
        let mut unprocessed: &[u8] = b"{}";
        for Frame { kind, table, bytes } in frames(parts) {
            match kind {
                kind::ITEM | kind::SOME_ITEM => items.get_mut(usize::from(table))?.push(bytes),
                kind::UNPROCESSED => unprocessed = bytes,
                kind::ABSENT | kind::UNKNOWN => {}
                _ => return None,
            }
        }
        let mut body = b"{\"Responses\":{".to_vec();
        for (place, (name, items)) in self.0.iter().zip(items).enumerate() {
            let comma = if place == 0 { "" } else { "," };
            body.extend_from_slice(format!("{comma}\"{name}\":[").as_bytes());
            body.extend_from_slice(&items.join(&b','));
            body.push(b']');
        }
        body.extend_from_slice(b"},\"UnprocessedKeys\":");
        body.extend_from_slice(unprocessed);
        body.push(b'}');
        Some(body)
    }
}

/// What is stored of a part; `None` if it must not be.
#[must_use]
pub fn stored(part: &[u8]) -> Option<&[u8]> {
    match frames(part).next()? {
        Frame { kind: kind::ITEM, bytes, .. } => Some(bytes),
        Frame { kind: kind::ABSENT, .. } => Some(NO_ITEM),
        _ => None,
    }
}

/// Parts for this number of keys that stand for a reply that could not be read.
fn unreadable(keys: usize) -> Vec<Vec<u8>> {
    let mut part = Vec::new();
    write_frame(kind::UNREADABLE, 0, b"", &mut part);
    vec![part; keys]
}

/// A key that was asked for, and what the reply has of it.
struct Asked<'a> {
    key: &'a [u8],
    table: u8,
    found: Option<Found<'a>>,
}

#[derive(Clone, Copy)]
enum Found<'a> {
    Item(&'a RawValue),
    NotRead,
    /// The items of its table do not tell which keys they have.
    Unknown,
}

impl<'a> Asked<'a> {
    /// Whether the item or the key of `table` with these `attributes` is the one asked for; `None`
    /// if they do not tell.
    fn is_of(&self, table: &str, attributes: &Attributes<'_>) -> Option<bool> {
        let (_, names) = Names::of_key(self.key)?;
        let mut key = Vec::new();
        write_key_of(table, names, attributes, &mut key).then(|| key == self.key)
    }

    /// Notes what was found; `None` if something was before.
    fn set(&mut self, found: Found<'a>) -> Option<()> {
        self.found.replace(found).is_none().then_some(())
    }

    fn part(&self) -> Vec<u8> {
        let mut part = Vec::new();
        match self.found {
            Some(Found::Item(item)) => {
                write_frame(kind::ITEM, self.table, item.get().as_bytes(), &mut part);
            }
            Some(Found::NotRead | Found::Unknown) => write_frame(kind::UNKNOWN, 0, b"", &mut part),
            None => write_frame(kind::ABSENT, 0, b"", &mut part),
        }
        part
    }
}

/// Assigns the `items` of the table at `place` to the keys asked for. Returns whether that is
/// possible: a projection may leave out the key. `None` if an item was not asked for.
fn assign<'a>(
    place: u8,
    table: &str,
    items: &[&'a RawValue],
    asked: &mut [Asked<'a>],
) -> Option<bool> {
    let mut open: Vec<&mut Asked<'a>> =
        asked.iter_mut().filter(|one| one.table == place && one.found.is_none()).collect();
    if items.len() > open.len() {
        return None;
    }
    let is_only = items.len() == 1 && open.len() == 1;
    for item in items {
        let attributes = object::<Attributes<'_>>(item)?;
        let is_of = |one: &Asked<'a>| one.is_of(table, &attributes);
        let of_item = match open.iter().position(|one| is_of(one) == Some(true)) {
            None if open.iter().any(|one| is_of(one).is_some()) => return None,
            None if !is_only => {
                open.into_iter().for_each(|one| one.found = Some(Found::Unknown));
                return Some(false);
            }
            found => found.unwrap_or_default(),
        };
        open.get_mut(of_item)?.set(Found::Item(item))?;
    }
    Some(true)
}

struct Frame<'a> {
    kind: u8,
    table: u8,
    bytes: &'a [u8],
}

fn write_frame(kind: u8, table: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, table]);
    // A body is shorter than 4 GiB.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn frames(mut parts: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let (&[kind, table], rest) = parts.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        parts = rest;
        Some(Frame { kind, table, bytes })
    })
}

/// Whether all tables are named by plain names, no table twice.
#[must_use]
pub fn are_plain(tables: &[Table<'_>]) -> bool {
    tables.iter().enumerate().all(|(place, table)| {
        let is_same = |other: &Table<'_>| other.name == table.name;
        is_table(&table.name.0) && !tables.iter().take(place).any(is_same)
    })
}
