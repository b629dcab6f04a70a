//! Groups of commands.

/// Group of a command, as in Redis's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    String,
    Bitmap,
    Generic,
    Connection,
    Transactions,
    Server,
    Pubsub,
}

impl Group {
    /// Name in COMMAND DOCS.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::Generic => "generic",
            Self::Connection => "connection",
            Self::Transactions => "transactions",
            Self::Server => "server",
            Self::Pubsub => "pubsub",
        }
    }
}
