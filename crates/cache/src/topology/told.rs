//! What the operator is told of a deployment.

use std::fmt;

use crate::monitor;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Another server is used from now on.
    Follows {
        /// What it is, for example "the primary of the replica set `rs`".
        role: String,
        /// The server.
        server: String,
        /// The one of before.
        before: Option<String>,
    },
    /// The server in use is no longer what it should be, and no other one is.
    Left {
        /// What it was.
        role: String,
        /// The server.
        server: String,
        /// What it says.
        found: String,
    },
    /// No server is what is wanted.
    Absent {
        /// What is wanted.
        role: String,
        /// The servers that were asked.
        asked: Vec<String>,
    },
    /// A server is of no use now.
    Trouble {
        /// The server.
        server: String,
        /// Why.
        why: String,
    },
}

impl monitor::Told for Told {
    fn is_warning(&self) -> bool {
        !matches!(self, Self::Follows { before: None, .. })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Follows { role, server, before } => {
                write!(out, "{role} is {server}")?;
                before.as_ref().map_or(Ok(()), |before| {
                    write!(
                        out,
                        "; before it was {before}: connections to it are ended and all entries \
                         are dropped"
                    )
                })
            }
            Self::Left { role, server, found } => write!(
                out,
                "{server} is no longer {role}: {found}; connections to it are ended, all entries \
                 are dropped, and requests wait for the next one"
            ),
            Self::Absent { role, asked } => {
                write!(out, "{role} is not found among {}; asking again", asked.join(", "))
            }
            Self::Trouble { server, why } => {
                write!(out, "{server} cannot be used: {why}; asking again")
            }
        }
    }
}
