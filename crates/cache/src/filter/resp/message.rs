//! What single requests and replies are.

use wire::resp::{Frame, Limits, Version, frame, request};

use super::Tag;
use crate::{
    filter::Form,
    key::{Key, Namespace},
};

/// A push that is longer confirms no subscription: that names a channel.
const CONFIRMATION_BYTES_MAX: usize = 64 << 10;

/// The hash of the key of the next request, and the length of the request. Its first argument is
/// nearly always a key; otherwise a prefetch is wasted.
pub(super) fn first_key(
    bytes: &[u8],
    namespace: Namespace,
    limits: &Limits,
) -> Option<(Option<u64>, usize)> {
    let (request, length) = request::decode(bytes, limits).ok()??;
    Some((request.argument(1).map(|key| Key::new(namespace, key).hash), length))
}

/// Whether `bytes` can be the beginning of a message that confirms the subscription of `tag`.
pub(super) fn begins_confirmation(tag: Option<&Tag>, bytes: &[u8], limits: &Limits) -> bool {
    matches!(tag, Some(Tag::Subscribe(_)))
        && bytes.first() == Some(&b'>')
        && bytes.len() < CONFIRMATION_BYTES_MAX
        && whole(bytes, limits).is_none()
}

/// Whether the push `message` confirms a subscription by the command `name`.
pub(super) fn confirms(name: &str, message: &[u8], limits: &Limits) -> bool {
    let kind = whole(message, limits).and_then(|push| push.elements().next());
    kind.and_then(|kind| kind.payload()) == Some(name.as_bytes())
}

/// A transaction that was thought to be over has queued the command instead of running it.
pub(super) fn is_queued(reply: &Frame<'_>) -> bool {
    reply.value_bytes() == b"+QUEUED\r\n"
}

/// Returns the form of greeting of a protocol version.
pub(super) fn form(version: Version) -> Form {
    match version {
        Version::Resp2 => Form::Old,
        Version::Resp3 => Form::New,
    }
}

/// Whether the line is complete, or longer than any redirection.
pub(super) fn has_line(bytes: &[u8]) -> bool {
    const REDIRECTION_BYTES_MAX: usize = 512;
    bytes.len() > REDIRECTION_BYTES_MAX || bytes.windows(2).any(|end| end == b"\r\n")
}

/// The reply, if all of it is there.
pub(super) fn whole<'a>(reply: &'a [u8], limits: &Limits) -> Option<Frame<'a>> {
    frame::decode(reply, limits).ok().flatten().map(|(reply, _)| reply)
}
