//! Why a feed's connection ends, and whether its stream can be resumed.

use wire::mongo::response::Response;

use super::Step;

/// Reason why a connection cannot continue.
pub(super) struct Ended {
    pub(super) error: wire::Error,
    /// The stream can be resumed where it was.
    pub(super) resumable: bool,
}

impl From<wire::Error> for Ended {
    fn from(error: wire::Error) -> Self {
        Self { error, resumable: false }
    }
}

pub(super) fn refused(expected: &'static str, got: &str) -> wire::Error {
    wire::Error::Malformed { protocol: "mongodb", offset: 0, expected, got: got.to_string() }
}

/// Errors after which a stream resumes, as the specification of change streams lists them.
const RESUMABLE: [i64; 17] =
    [6, 7, 43, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13435, 13436];

pub(super) fn failed(step: Step, reply: &Response<'_>) -> Ended {
    let failure = reply.failure;
    let expected = match step {
        Step::Greeting | Step::Position(_) => {
            "an origin that answers hello, since no other server reports how far it has come; remove \
             `feed` to cache with the bound `ttl`"
        }
        Step::Login => "an origin that lets the feed log in with SCRAM-SHA-256",
        Step::Open => {
            "an origin that opens a change stream of all databases (role `read` on any database)"
        }
        Step::Batch => "the next events of the change stream",
    };
    let got = format!("error {} {}: {}", failure.code, failure.code_name, failure.message);
    Ended { error: refused(expected, &got), resumable: RESUMABLE.contains(&failure.code) }
}
