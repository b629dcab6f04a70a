//! Canonical form of a value for use in a cache key: equal values have equal bytes.
//!
//! Two values get the same bytes exactly if MongoDB compares them as equal under the simple
//! collation: `5`, `5.0` and `NumberDecimal("5.00")` are one value, `"5"` is another. The form is
//! prefix-free, so keys may be concatenated. It is not ordered, and cannot be converted back to
//! BSON.
//!
//! Use it where values are *compared*: an `_id`, a filter. In an aggregation expression the type of
//! a number can change the answer: distinguish such values by their raw bytes. Under another
//! collation different strings are equal: these keys are then too fine for invalidation.

use super::bson::{DEPTH_MAX, Document, Element, Kind, descend};
use crate::Result;
use number::Number;

mod number;
#[cfg(test)]
mod tests;

// Tags stand beside BSON's own type bytes, which every other value keeps as its tag.
const INTEGER: u8 = 0x20;
const DECIMAL: u8 = 0x21;
const NAN: u8 = 0x22;
const INFINITY: u8 = 0x23;
const INFINITY_NEGATIVE: u8 = 0x24;
/// Before each field of a document; its end is a zero, which is no tag.
const FIELD: u8 = 0x25;
const END: u8 = 0x00;

/// Appends the canonical bytes of `element`'s value; its name plays no part.
///
/// # Errors
/// When an embedded document is malformed or nests deeper than [`DEPTH_MAX`]; `out` is then
/// unchanged.
pub fn append(element: &Element<'_>, out: &mut Vec<u8>) -> Result<()> {
    undone_on_error(out, |out| value(element, DEPTH_MAX, out))
}

/// Appends the canonical bytes of a whole document, for example a filter. Field order matters, as
/// it does to MongoDB when it compares documents.
///
/// # Errors
/// As [`append`].
pub fn append_document(document: Document<'_>, out: &mut Vec<u8>) -> Result<()> {
    undone_on_error(out, |out| fields(document, DEPTH_MAX, out))
}

fn undone_on_error(
    out: &mut Vec<u8>,
    append: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    let appended = append(out);
    if appended.is_err() {
        out.truncate(start);
    }
    appended
}

fn value(element: &Element<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if let Some(number) = Number::of(element) {
        numeric(number, out);
    } else if let Some(document) = element.document() {
        fields(document, depth, out)?;
    } else if let Some(array) = element.array() {
        items(array, depth, out)?;
    } else {
        out.push(match element.kind() {
            // The deprecated symbol compares as the string it spells.
            Kind::Symbol => Kind::String as u8,
            kind => kind as u8,
        });
        out.extend_from_slice(element.value());
    }
    Ok(())
}

fn fields(document: Document<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let depth = descend(depth, document.offset())?;
    out.push(Kind::Document as u8);
    for element in document.elements() {
        let element = element?;
        out.push(FIELD);
        out.extend_from_slice(element.name());
        out.push(END);
        value(&element, depth, out)?;
    }
    out.push(END);
    Ok(())
}

/// An array's names are its indexes and are not compared.
fn items(array: Document<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let depth = descend(depth, array.offset())?;
    out.push(Kind::Array as u8);
    for element in array.elements() {
        value(&element?, depth, out)?;
    }
    out.push(END);
    Ok(())
}

fn numeric(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Integer(integer) => {
            out.push(INTEGER);
            out.extend_from_slice(&integer.to_le_bytes());
        }
        Number::Decimal { negative, coefficient, exponent } => {
            out.extend_from_slice(&[DECIMAL, u8::from(negative)]);
            out.extend_from_slice(&exponent.to_le_bytes());
            out.extend_from_slice(&coefficient.to_le_bytes());
        }
        Number::Nan => out.push(NAN),
        Number::Infinity { negative: false } => out.push(INFINITY),
        Number::Infinity { negative: true } => out.push(INFINITY_NEGATIVE),
    }
}
