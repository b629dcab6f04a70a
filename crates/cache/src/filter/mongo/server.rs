//! Server Filter: decides which replies may be stored, and in which form.

use wire::mongo::{bson::Document, frame::Limits, response::Response};

use super::{canonical, inflate, whole};
use crate::{lease::Character, stats::NotFilled};

/// Passes the reply to `look`, inflated if necessary; `None` if it is no valid reply.
pub(super) fn read<T>(
    reply: &[u8],
    limits: &Limits,
    look: impl FnOnce(&Response<'_>) -> T,
) -> Option<T> {
    let frame = whole(reply, limits).ok()?;
    let inflated = inflate(&frame, limits).ok()?;
    let frame = match &inflated {
        Some(inflated) => whole(inflated, limits).ok()?,
        None => frame,
    };
    Response::parse(&frame).ok().flatten().map(|response| look(&response))
}

/// Packs the reply to a find by `field`: the body, which is the same for every later caller.
pub(super) fn admit(
    reply: &[u8],
    field: &str,
    key: &[u8],
    limits: &Limits,
    packed: &mut Vec<u8>,
) -> Result<(), NotFilled> {
    read(reply, limits, |response| {
        if !response.ok || response.write_errors {
            return Err(NotFilled::ErrorReply);
        }
        let cursor = response.cursor.ok_or(NotFilled::Incomplete)?;
        let count = cursor.document_count().map_err(|_| NotFilled::Incomplete)?;
        if cursor.id != 0 || !cursor.first || cursor.partial_results || count > 1 {
            return Err(NotFilled::Incomplete);
        }
        if let Some(document) = cursor.document_first().map_err(|_| NotFilled::Incomplete)? {
            // A projection may omit the field; then the reply to the probe is decisive.
            let found = canonical(&document, field).map_err(|_| NotFilled::Incomplete)?;
            if found.is_some_and(|found| found != key) {
                return Err(NotFilled::OtherKey);
            }
        }
        packed.extend_from_slice(response.body.bytes());
        Ok(())
    })
    .unwrap_or(Err(NotFilled::Incomplete))
}

/// What was found, in a packed reply: the rest of the body tells times, and its order is the
/// server's.
pub(super) fn found(packed: &[u8]) -> Option<&[u8]> {
    let cursor = Document::parse(packed).ok()?.element("cursor").ok()??.document()?;
    Some(cursor.element("firstBatch").ok()??.value())
}

/// The number of documents that a write has inserted or found, if all were written now: a write
/// that is retried may have been executed before another write.
pub(super) fn has_written(body: &Document<'_>) -> Option<usize> {
    let retried = body.element("retriedStmtIds").ok()?;
    let written = body.element("n").ok()??.integer()?;
    usize::try_from(written).ok().filter(|_| retried.is_none())
}

/// Whether a handshake reply is of a server that names the statements it did not execute again.
pub(super) fn tells_retries(reply: &[u8], limits: &Limits) -> bool {
    /// MongoDB 6.0.
    const VERSION: i64 = 17;
    read(reply, limits, |greeting| {
        let version = greeting.body.element("maxWireVersion").ok()??.integer()?;
        (version >= VERSION).then_some(())
    })
    .flatten()
    .is_some()
}

/// Returns the character of one collection from a reply to `listCollections`.
pub(super) fn character(reply: &[u8], limits: &Limits) -> Result<Character, NotFilled> {
    read(reply, limits, |response| {
        let cursor = response.cursor.filter(|_| response.ok).ok_or(NotFilled::Refused)?;
        let listed = cursor.document_first().map_err(|_| NotFilled::Refused)?;
        // It does not exist: the first plain write makes it a plain collection.
        let Some(listed) = listed else { return Ok(Character::Plain) };
        let element = |name| listed.element(name).map_err(|_| NotFilled::Refused);
        let kind = element("type")?.and_then(|kind| kind.str());
        let options = element("options")?.and_then(|options| options.document());
        let derives = |name| options.is_some_and(|o| !matches!(o.element(name), Ok(None)));
        let plain = kind.is_none_or(|kind| kind == "collection");
        // A capped collection drops its oldest records with an insert that does not name them.
        if plain && !["viewOn", "collation", "timeseries", "capped"].into_iter().any(derives) {
            Ok(Character::Plain)
        } else {
            Err(NotFilled::Derived)
        }
    })
    .unwrap_or(Err(NotFilled::Refused))
}
