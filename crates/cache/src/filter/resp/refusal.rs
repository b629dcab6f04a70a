//! Replies that prove that a write did nothing.
//!
//! A reply that is not listed counts as applied. A script can return any error after any write: an
//! error about missing rights counts only if the same command with an empty script, sent right
//! after it, is refused too. An unknown command may belong to a module, so only the server's own
//! errors for an unknown command and for a client that is not logged in count.

use super::Tag;
use crate::filter::Verdict;

/// Errors with which a server refuses a command before it changes anything.
const REFUSALS: [&[u8]; 21] = [
    b"-NOAUTH ",
    b"-NOPERM ",
    b"-WRONGPASS ",
    b"-WRONGTYPE ",
    b"-READONLY ",
    b"-MOVED ",
    b"-ASK ",
    b"-CLUSTERDOWN ",
    b"-CROSSSLOT ",
    b"-TRYAGAIN ",
    b"-MASTERDOWN ",
    b"-MISCONF ",
    b"-NOREPLICAS ",
    b"-OOM ",
    b"-LOADING ",
    b"-BUSY ",
    b"-DENIED ",
    b"-ERR unknown subcommand",
    b"-ERR wrong number of arguments",
    b"-ERR syntax error",
    b"-ERR Protocol error",
];
/// The same for a command that the server does not have.
const UNKNOWN: [&[u8]; 3] = [b"-ERR unknown command", b"-ERR unknown subcommand", b"-NOAUTH "];

/// Errors for a client that lacks the right to a command, or has not logged in.
const RIGHTS: [&[u8]; 2] = [b"-NOAUTH ", b"-NOPERM "];

/// Judges a write by `reply`; `queues` if the origin has answered MULTI but not the end of that
/// transaction.
pub(super) fn verdict(tag: &Tag, reply: &[u8], queues: bool) -> Verdict {
    let is = |start: &&[u8]| reply.starts_with(start);
    match tag {
        Tag::Exec => match reply.first() {
            // A watched key has changed.
            Some(b'*') if queues && reply.starts_with(b"*-1") => Verdict::Refused,
            Some(b'_') if queues => Verdict::Refused,
            Some(b'-') if queues && is(&b"-EXECABORT ".as_slice()) => Verdict::Refused,
            Some(b'*') => Verdict::Applied,
            _ => Verdict::Unclear,
        },
        Tag::Discard if queues && is(&b"+OK".as_slice()) => Verdict::Refused,
        Tag::Reset if is(&b"+RESET".as_slice()) => Verdict::Refused,
        Tag::Discard | Tag::Reset => Verdict::Unclear,
        _ if queues && reply == b"+QUEUED\r\n" => Verdict::Queued,
        // The origin queues commands: it has not executed anything.
        Tag::Script { .. } if queues && is(&b"-".as_slice()) => Verdict::Refused,
        Tag::Script { doubted: Some(_) } if RIGHTS.iter().any(is) => Verdict::Claimed,
        Tag::Script { .. } => Verdict::Applied,
        Tag::Proof if RIGHTS.iter().any(is) => Verdict::Refused,
        Tag::Proof => Verdict::Applied,
        Tag::Unknown if UNKNOWN.iter().any(is) => Verdict::Refused,
        Tag::Unknown => Verdict::Applied,
        _ if is(&b"-ERR unknown command".as_slice()) || REFUSALS.iter().any(is) => Verdict::Refused,
        _ => Verdict::Applied,
    }
}

#[cfg(test)]
mod tests {
    use super::{Tag, Verdict, verdict};

    #[test]
    fn only_what_proves_it_is_a_refusal() {
        let refused = Verdict::Refused;
        let script = Tag::Script { doubted: None };
        let doubted = Tag::Script { doubted: Some("eval") };
        let cases: [(Tag, &str, bool, Verdict); 22] = [
            (Tag::Plain, "+OK", false, Verdict::Applied),
            (Tag::Plain, "-NOPERM no", false, refused),
            (Tag::Plain, "-ERR value is not an integer or out of range", false, Verdict::Applied),
            (Tag::Plain, "-NOPERMISSION", false, Verdict::Applied),
            (Tag::Plain, "+QUEUED", true, Verdict::Queued),
            (Tag::Plain, "+QUEUED", false, Verdict::Applied),
            (script.clone(), "-NOPERM said after writing", false, Verdict::Applied),
            (script.clone(), "+QUEUED", false, Verdict::Applied),
            (script.clone(), "+QUEUED", true, Verdict::Queued),
            (script, "-NOPERM no", true, refused),
            (doubted.clone(), "-NOPERM no", false, Verdict::Claimed),
            (doubted, "-ERR of its own", false, Verdict::Applied),
            (Tag::Proof, "-NOPERM no", false, refused),
            (Tag::Proof, "$-1", false, Verdict::Applied),
            (Tag::Unknown, "-ERR unknown command 'FOO'", false, refused),
            (Tag::Unknown, "-NOPERM of a module", false, Verdict::Applied),
            (Tag::Exec, "*-1", true, refused),
            (Tag::Exec, "*1", true, Verdict::Applied),
            (Tag::Exec, "-EXECABORT Transaction discarded", true, refused),
            // MULTI was refused, so the commands after it were executed immediately.
            (Tag::Exec, "-EXECABORT Transaction discarded", false, Verdict::Unclear),
            (Tag::Exec, "-ERR EXEC without MULTI", false, Verdict::Unclear),
            (Tag::Discard, "-ERR DISCARD without MULTI", true, Verdict::Unclear),
        ];
        for (tag, reply, queues, expected) in cases {
            let found = verdict(&tag, format!("{reply}\r\n").as_bytes(), queues);
            assert_eq!(found, expected, "{tag:?} {reply} {queues}");
        }
    }
}
