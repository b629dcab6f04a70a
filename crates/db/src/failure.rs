//! Error replies of commands, with the texts of Redis.

use std::borrow::Cow;

use store::elastic::Error;

/// An error reply: its code, a blank, a sentence; without type byte and line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub Cow<'static, str>);

impl Failure {
    /// An error made up at run time.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Cow::Owned(text.into()))
    }

    /// Translates an error of the shard called `name` for a client.
    pub(crate) fn of_store(name: &str, error: &Error) -> Self {
        match error {
            Error::ValueTooLong { .. } => TOO_LONG,
            Error::KeyTooLong { .. } => Failure::new(format!("ERR {error}")),
            Error::StepTooLong { got, limit } => Failure::new(format!(
                "EXECABORT Transaction discarded because it may write {got} bytes to {name}: expected at most {limit}, \
                 which fit into one segment of the log; divide it into smaller transactions"
            )),
            // They begin with the name of a file.
            Error::Damaged { .. } | Error::ReadFailed { .. } | Error::WriteFailed { .. } => {
                Failure::new(format!("MISCONF {name}/{error}"))
            }
            _ => Failure::new(format!("MISCONF {error}")),
        }
    }

    /// Whether it is a failure of the disk.
    pub(crate) fn is_of_disk(&self) -> bool {
        self.0.starts_with("MISCONF")
    }
}

impl From<acl::Error> for Failure {
    fn from(error: acl::Error) -> Self {
        Self::new(format!("ERR {error}"))
    }
}

const fn fixed(text: &'static str) -> Failure {
    Failure(Cow::Borrowed(text))
}

pub(crate) const SYNTAX: Failure = fixed("ERR syntax error");
pub(crate) const NOT_AN_INTEGER: Failure = fixed("ERR value is not an integer or out of range");
pub(crate) const NOT_A_FLOAT: Failure = fixed("ERR value is not a valid float");
pub(crate) const NO_SUCH_KEY: Failure = fixed("ERR no such key");
pub(crate) const OVERFLOW: Failure = fixed("ERR increment or decrement would overflow");
pub(crate) const TOO_LONG: Failure =
    fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub(crate) const TOO_MUCH_AT_ONCE: Failure = fixed(
    "ERR the command needs more memory than a command may use (half of maxmemory-clients): \
     request less at once",
);
pub(crate) const OFFSET_RANGE: Failure = fixed("ERR offset is out of range");
pub(crate) const DATABASE_RANGE: Failure = fixed("ERR DB index is out of range");
pub(crate) const NO_AUTH: Failure = fixed(acl::NO_AUTH);
pub(crate) const NO_CLIENT: Failure = fixed("ERR No such client");
pub(crate) const NOT_IN_TRANSACTION: Failure =
    fixed("ERR Command not allowed inside a transaction");
