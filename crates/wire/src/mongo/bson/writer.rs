//! Writes documents straight into an output buffer.

use super::{Document, Element, Kind};

/// Writes one document at the end of a buffer.
///
/// ```
/// use wire::mongo::bson::{Document, Writer};
/// let mut bytes = Vec::new();
/// Writer::write(&mut bytes, |document| {
///     document.nested("cursor", |cursor| {
///         cursor.array("firstBatch", |_| {});
///         cursor.i64("id", 0);
///     });
///     document.f64("ok", 1.0);
/// });
/// assert!(Document::parse(&bytes).is_ok());
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out` the document that `fill` describes.
    pub fn write(out: &'a mut Vec<u8>, fill: impl FnOnce(&mut Writer<'_>)) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        fill(&mut Writer { out });
        out.push(0);
        patch_length(out, start);
    }

    /// An int32.
    pub fn i32(&mut self, name: &str, value: i32) {
        self.fixed(Kind::Int32, name, &value.to_le_bytes());
    }

    /// An int64.
    pub fn i64(&mut self, name: &str, value: i64) {
        self.fixed(Kind::Int64, name, &value.to_le_bytes());
    }

    /// A double.
    pub fn f64(&mut self, name: &str, value: f64) {
        self.fixed(Kind::Double, name, &value.to_le_bytes());
    }

    /// A bool.
    pub fn bool(&mut self, name: &str, value: bool) {
        self.fixed(Kind::Bool, name, &[u8::from(value)]);
    }

    /// A timestamp, as [`Element::timestamp`] reads it.
    pub fn timestamp(&mut self, name: &str, value: u64) {
        self.fixed(Kind::Timestamp, name, &value.to_le_bytes());
    }

    /// A string.
    pub fn str(&mut self, name: &str, value: &str) {
        self.head(Kind::String, name.as_bytes());
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(0);
        let length = self.out.len() - start - 4;
        patch(self.out, start, length);
    }

    /// Binary data of subtype 0.
    pub fn binary(&mut self, name: &str, value: &[u8]) {
        self.head(Kind::Binary, name.as_bytes());
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 5]);
        self.out.extend_from_slice(value);
        patch(self.out, start, value.len());
    }

    /// An embedded document that exists already.
    pub fn document(&mut self, name: &str, value: Document<'_>) {
        self.fixed(Kind::Document, name, value.bytes());
    }

    /// Any value, copied as it stands.
    pub fn value(&mut self, name: &str, element: &Element<'_>) {
        self.fixed(element.kind(), name, element.value());
    }

    /// An element copied as it stands, under its own name.
    pub fn element(&mut self, element: &Element<'_>) {
        self.head(element.kind(), element.name());
        self.out.extend_from_slice(element.value());
    }

    /// An embedded document that `fill` describes.
    pub fn nested(&mut self, name: &str, fill: impl FnOnce(&mut Writer<'_>)) {
        self.head(Kind::Document, name.as_bytes());
        Writer::write(self.out, fill);
    }

    /// An array that `fill` describes.
    pub fn array(&mut self, name: &str, fill: impl FnOnce(&mut ArrayWriter<'_, '_>)) {
        self.head(Kind::Array, name.as_bytes());
        Writer::write(self.out, |writer| fill(&mut ArrayWriter { writer, length: 0 }));
    }

    /// A value of `kind`, by its bytes.
    pub(crate) fn fixed(&mut self, kind: Kind, name: &str, value: &[u8]) {
        self.head(kind, name.as_bytes());
        self.out.extend_from_slice(value);
    }

    /// A name ends at its first NUL, because BSON has no way to hold one.
    fn head(&mut self, kind: Kind, name: &[u8]) {
        self.out.push(kind as u8);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        self.out.extend_from_slice(name);
        self.out.push(0);
    }
}

/// Writes an array's items; each gets the next index for a name.
#[derive(Debug)]
pub struct ArrayWriter<'a, 'b> {
    writer: &'a mut Writer<'b>,
    length: usize,
}

impl ArrayWriter<'_, '_> {
    /// Appends one item; `write` is handed the name to write it under.
    pub fn push(&mut self, write: impl FnOnce(&mut Writer<'_>, &str)) {
        // Twenty digits hold any index.
        let mut digits = [0_u8; 20];
        let mut rest = self.length;
        let mut start = digits.len();
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10) as u8;
            start = at;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let name = digits.get(start..).and_then(|digits| std::str::from_utf8(digits).ok());
        write(self.writer, name.unwrap_or_default());
        self.length += 1;
    }

    /// Appends a string.
    pub fn str(&mut self, value: &str) {
        self.push(|writer, name| writer.str(name, value));
    }

    /// Appends a document that exists already.
    pub fn document(&mut self, value: Document<'_>) {
        self.push(|writer, name| writer.document(name, value));
    }
}

/// Writes the length of everything from `start` on into the four bytes at `start`.
pub(crate) fn patch_length(out: &mut [u8], start: usize) {
    let length = out.len() - start;
    patch(out, start, length);
}

fn patch(out: &mut [u8], start: usize, length: usize) {
    // Limits keep every frame far below 4 GiB; a longer one would be refused by its reader.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}
