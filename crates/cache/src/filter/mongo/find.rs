//! Recognizes finds that the cache answers: those of one record by key.

use wire::{
    Result,
    mongo::{
        bson::{Document, Element, Kind},
        key,
        request::{Namespace as Name, Request as Command},
    },
};

use super::{Mongo, Tag};
use crate::{
    filter::{Read, Scratch},
    key::Key,
    stats::WhyNot,
};

/// Longest projection that tells two answers of a key apart, in bytes.
const VARIANT_BYTES_MAX: usize = 4_096;

impl Mongo {
    /// Recognises a find of one record by key. The rules are those of `docs/protocols/mongodb.md`;
    /// a find with an unknown option is not cached.
    pub(super) fn find<'m>(
        &self,
        command: &Command<'m>,
        tag: &mut Tag,
        scratch: &'m mut Scratch,
    ) -> Result<Result<Read<'m>, WhyNot>> {
        let Name { database, collection: Some(collection) } = command.namespace else {
            return Ok(Err(WhyNot::NotByKey));
        };
        if is_internal(database, collection) {
            return Ok(Err(WhyNot::Command));
        }
        if !self.identity.is_followed() {
            return Ok(Err(WhyNot::Unsettled));
        }
        let mut options = Options::default();
        for element in command.body.elements().skip(1) {
            if let Err(reason) = options.read(&element?)? {
                return Ok(Err(reason));
            }
        }
        let full_name = || format!("{database}.{collection}");
        if self.rules.restrict() && !self.rules.allow(full_name().as_bytes()) {
            return Ok(Err(WhyNot::Excluded));
        }
        let Some((field, value)) =
            options.filter.map(|filter| equality(&filter)).transpose()?.flatten()
        else {
            return Ok(Err(WhyNot::NotByKey));
        };
        let mut namespace = self.namespace(database, collection);
        if field != b"_id" {
            let Some(index) = self.unique_field(&full_name(), field) else {
                return Ok(Err(WhyNot::NotByKey));
            };
            tag.field = Some(index);
            namespace = namespace.by_field(field);
        }
        key::append(&value, scratch)?;
        let key_bytes = scratch.len();
        scratch.extend_from_slice(&[options.read_concern, options.read_preference]);
        if let Some(projection) = options.projection {
            if projection.bytes().len() > VARIANT_BYTES_MAX {
                return Ok(Err(WhyNot::Option));
            }
            scratch.extend_from_slice(projection.bytes());
        }
        let (key, variant) = scratch.split_at(key_bytes);
        Ok(Ok(Read { key: Key::new(namespace, key), variant, place: (database, collection) }))
    }

    fn unique_field(&self, namespace: &str, field: &[u8]) -> Option<u16> {
        let fields = &self.settings.unique_fields;
        let place = fields
            .iter()
            .position(|unique| unique.namespace == namespace && unique.field.as_bytes() == field)?;
        u16::try_from(place).ok()
    }
}

/// Databases that servers write by themselves, or that contain data written elsewhere.
pub(super) fn is_internal(database: &str, collection: &str) -> bool {
    matches!(database, "admin" | "config" | "local") || collection.starts_with("system.")
}

/// The options of a find, besides its collection.
#[derive(Default)]
struct Options<'m> {
    filter: Option<Document<'m>>,
    projection: Option<Document<'m>>,
    read_concern: u8,
    read_preference: u8,
}

impl<'m> Options<'m> {
    /// Takes one field of the command; the inner error is why the find is not cached.
    fn read(&mut self, element: &Element<'m>) -> Result<Result<(), WhyNot>> {
        let refused_if = |refused: bool, reason| if refused { Err(reason) } else { Ok(()) };
        Ok(match element.name() {
            b"filter" => {
                self.filter = element.document();
                Ok(())
            }
            b"projection" => {
                self.projection = element.document().filter(|projection| !projection.is_empty());
                match self.projection {
                    Some(projection) if !is_plain(&projection)? => Err(WhyNot::Expression),
                    _ => Ok(()),
                }
            }
            // At most one record is found, so these change nothing.
            b"limit" | b"singleBatch" | b"sort" => Ok(()),
            b"batchSize" => refused_if(element.integer() == Some(0), WhyNot::Cursor),
            b"skip" => refused_if(element.integer() != Some(0), WhyNot::Option),
            b"lsid" | b"$clusterTime" | b"$db" | b"comment" | b"maxTimeMS" => Ok(()),
            b"readConcern" => self.read_concern(element)?,
            b"$readPreference" => self.read_preference(element)?,
            b"txnNumber" | b"autocommit" | b"startTransaction" => Err(WhyNot::Transaction),
            b"tailable"
            | b"awaitData"
            | b"noCursorTimeout"
            | b"allowPartialResults"
            | b"oplogReplay" => refused_if(element.is_true(), WhyNot::Cursor),
            b"allowDiskUse" => Ok(()),
            b"returnKey" | b"showRecordId" => refused_if(element.is_true(), WhyNot::Option),
            _ => Err(WhyNot::Option),
        })
    }

    fn read_concern(&mut self, element: &Element<'m>) -> Result<Result<(), WhyNot>> {
        let Some(concern) = element.document() else { return Ok(Err(WhyNot::ReadConcern)) };
        for field in concern.elements() {
            let field = field?;
            match (field.name(), field.str()) {
                (b"level", Some("local")) => self.read_concern = 1,
                (b"level", Some("available")) => self.read_concern = 2,
                // `majority` can also lag behind a write that was answered, and a stored answer
                // would keep that lag.
                (b"afterClusterTime", _) => return Ok(Err(WhyNot::Causal)),
                _ => return Ok(Err(WhyNot::ReadConcern)),
            }
        }
        Ok(Ok(()))
    }

    /// A driver that is connected to one server directly sends `primaryPreferred` with every read.
    fn read_preference(&mut self, element: &Element<'m>) -> Result<Result<(), WhyNot>> {
        let Some(preference) = element.document() else {
            return Ok(Err(WhyNot::ReadPreference));
        };
        for field in preference.elements() {
            let field = field?;
            match (field.name(), field.str()) {
                (b"mode", Some("primary")) => self.read_preference = 0,
                (b"mode", Some("primaryPreferred")) => self.read_preference = 1,
                _ => return Ok(Err(WhyNot::ReadPreference)),
            }
        }
        Ok(Ok(()))
    }
}

/// Returns field and value of a filter that is one equality.
pub(super) fn equality<'m>(filter: &Document<'m>) -> Result<Option<(&'m [u8], Element<'m>)>> {
    let mut elements = filter.elements();
    let (Some(first), None) = (elements.next().transpose()?, elements.next()) else {
        return Ok(None);
    };
    let operator = |element: &Element<'_>| element.name().first() == Some(&b'$');
    if operator(&first) || first.name().contains(&b'.') {
        return Ok(None);
    }
    let value = match first.document() {
        Some(document) => {
            let mut inner = document.elements();
            match (inner.next().transpose()?, inner.next()) {
                (Some(equals), None) if equals.name() == b"$eq" => equals,
                (Some(other), _) if operator(&other) => return Ok(None),
                _ => first,
            }
        }
        None => first,
    };
    Ok(is_comparable(&value).then_some((first.name(), value)))
}

/// Whether equality with the value selects exactly that value. A pattern matches many values, an
/// array matches its members, and null matches absent fields.
pub(super) fn is_comparable(value: &Element<'_>) -> bool {
    !matches!(
        value.kind(),
        Kind::Regex | Kind::Array | Kind::Null | Kind::Undefined | Kind::MinKey | Kind::MaxKey
    )
}

/// Whether the projection only names fields to include or exclude.
fn is_plain(projection: &Document<'_>) -> Result<bool> {
    for element in projection.elements() {
        let element = element?;
        let named = element.name().first() != Some(&b'$')
            && matches!(element.kind(), Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double);
        if !named {
            return Ok(false);
        }
    }
    Ok(true)
}
