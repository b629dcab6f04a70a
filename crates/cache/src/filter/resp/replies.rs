//! Replies as far as the filter looks into them.

use wire::resp::{Frame, Limits, Version, frame};

use crate::filter::Form;

/// A transaction that was thought to be over has queued the command instead of running it.
pub(super) fn is_queued(reply: &Frame<'_>) -> bool {
    reply.value_bytes() == b"+QUEUED\r\n"
}

/// Which of the two greetings belongs to a version.
pub(super) fn form(version: Version) -> Form {
    match version {
        Version::Resp2 => Form::Old,
        Version::Resp3 => Form::New,
    }
}

/// Is the line whole, or longer than any redirection?
pub(super) fn has_line(bytes: &[u8]) -> bool {
    const REDIRECTION_BYTES_MAX: usize = 512;
    bytes.len() > REDIRECTION_BYTES_MAX || bytes.windows(2).any(|end| end == b"\r\n")
}

/// The reply, if all of it is there.
pub(super) fn whole<'a>(reply: &'a [u8], limits: &Limits) -> Option<Frame<'a>> {
    frame::decode(reply, limits).ok().flatten().map(|(reply, _)| reply)
}
