//! `Query` and `Scan`: their parameters in canonical form.
//!
//! The form is JSON without blanks, the members of objects in the order of their names, strings
//! with as few escapes as possible, and numbers of attributes as [`number`] writes them. Two
//! requests with the same form have the same answer.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    item::read,
    value::{Members, Text, number},
};

/// Longest body of a request that is read.
pub const QUERY_BYTES_MAX: usize = 8 << 10;
/// Maximum depth of objects and lists in each other. Documents of DynamoDB have 32 levels, each
/// with its type.
const DEPTH_MAX: usize = 80;

/// Members that a request may have, and whether numbers of attributes occur in them.
const MEMBERS: [(&str, bool); 20] = [
    ("AttributesToGet", false),
    ("ConditionalOperator", false),
    ("ConsistentRead", false),
    ("ExclusiveStartKey", true),
    ("ExpressionAttributeNames", false),
    ("ExpressionAttributeValues", true),
    ("FilterExpression", false),
    ("IndexName", false),
    ("KeyConditionExpression", false),
    ("KeyConditions", true),
    ("Limit", false),
    ("ProjectionExpression", false),
    ("QueryFilter", true),
    ("ReturnConsumedCapacity", false),
    ("ScanFilter", true),
    ("ScanIndexForward", false),
    ("Segment", false),
    ("Select", false),
    ("TableName", false),
    ("TotalSegments", false),
];

/// The parameters of `Query` or `Scan`.
#[derive(Debug)]
pub struct Query<'a>(Members<'a, &'a RawValue>);

impl<'a> Query<'a> {
    /// Reads the body of a request; `None` if it is not understood: it is longer than
    /// [`QUERY_BYTES_MAX`], or has a member that is not known or occurs twice.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let is_short = body.len() <= QUERY_BYTES_MAX;
        let members: Members<'_, _> = is_short.then(|| read(body)).flatten()?;
        let all_known = members.0.iter().all(|(name, _)| of_member(&name.0).is_some());
        all_known.then_some(Self(members))
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> Option<Text<'a>> {
        serde_json::from_str(self.0.one(b"TableName")?.get()).ok()
    }

    /// Whether the reply must contain all writes that were acknowledged.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.0.one(b"ConsistentRead").is_some_and(|value| value.get() != "false")
    }

    /// Whether the reply has the capacity that the request consumed.
    #[must_use]
    pub fn wants_capacity(&self) -> bool {
        self.0.one(b"ReturnConsumedCapacity").is_some_and(|value| value.get() != "\"NONE\"")
    }

    /// Appends the parameters in canonical form. `None` if they are not understood: `out` has any
    /// bytes after its former end.
    #[must_use]
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        write_object(&self.0, out, |name, value, out| {
            write(value, of_member(name).unwrap_or_default(), DEPTH_MAX, out)
        })
    }
}

/// Whether a member has numbers of attributes; `None` if it is not known.
fn of_member(name: &str) -> Option<bool> {
    MEMBERS.iter().find(|(other, _)| *other == name).map(|&(_, has_numbers)| has_numbers)
}

/// Writes members in the order of their names; `None` if one occurs twice.
fn write_object(
    members: &Members<'_, &RawValue>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&str, &RawValue, &mut Vec<u8>) -> Option<()>,
) -> Option<()> {
    let mut sorted: Vec<(&str, &RawValue)> =
        members.0.iter().map(|(name, value)| (&*name.0, *value)).collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    if sorted.windows(2).any(|two| two.first().map(|one| one.0) == two.last().map(|one| one.0)) {
        return None;
    }
    for (place, (name, value)) in sorted.into_iter().enumerate() {
        out.push(if place == 0 { b'{' } else { b',' });
        write_text(name, out);
        out.push(b':');
        write(name, value, out)?;
    }
    if members.0.is_empty() {
        out.push(b'{');
    }
    out.push(b'}');
    Some(())
}

fn write(value: &RawValue, has_numbers: bool, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let text = value.get();
    let depth = depth.checked_sub(1)?;
    match text.as_bytes().first()? {
        b'{' => {
            let members: Members<'_, &RawValue> = read(text.as_bytes())?;
            let is_number = has_numbers && members.0.len() == 1;
            write_object(&members, out, |name, value, out| match spelled(value) {
                Some(Text(spelled)) if is_number && name == "N" => {
                    let canonical = number(&spelled).map_or(spelled, Cow::Owned);
                    write_text(&canonical, out);
                    Some(())
                }
                _ => write(value, has_numbers, depth, out),
            })
        }
        b'[' => {
            let values: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push(b'[');
            for (place, value) in values.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write(value, has_numbers, depth, out)?;
            }
            out.push(b']');
            Some(())
        }
        b'"' => {
            write_text(&spelled(value)?.0, out);
            Some(())
        }
        // A number as it is spelled, or a word.
        _ => {
            out.extend_from_slice(text.as_bytes());
            Some(())
        }
    }
}

fn spelled(value: &RawValue) -> Option<Text<'_>> {
    serde_json::from_str(value.get()).ok()
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    // A string can always be written to memory.
    let _ = serde_json::to_writer(out, text);
}
