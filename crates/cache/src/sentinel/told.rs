//! Log lines about Sentinels and the primary.

use std::fmt;

use crate::monitor;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Another node is used from now on.
    Follows {
        /// Name of the primary at the Sentinels.
        name: String,
        /// The node.
        primary: String,
        /// The previous one.
        before: Option<String>,
        /// Number of Sentinels that name it.
        named_by: usize,
        /// Number of Sentinels that are listed.
        of: usize,
    },
    /// The named node does not report its role.
    Unverified {
        /// The node.
        address: String,
        /// Its error.
        why: String,
    },
    /// The named node is not a primary.
    NotPrimary {
        /// The node.
        address: String,
        /// Its role, or its error.
        found: String,
    },
    /// More, or fewer, than half of the Sentinels answer now.
    Answering {
        /// Number of Sentinels that answer.
        answer: usize,
        /// Number of Sentinels that are listed.
        of: usize,
        /// The primary in use.
        primary: Option<String>,
    },
    /// A Sentinel cannot be used now.
    Trouble {
        /// The Sentinel.
        sentinel: String,
        /// Why.
        why: String,
    },
}

impl monitor::Told for Told {
    fn is_warning(&self) -> bool {
        match self {
            Self::Follows { before, .. } => before.is_some(),
            Self::Answering { answer, of, .. } => 2 * answer <= *of,
            _ => true,
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Follows { name, primary, before, named_by, of } => {
                write!(out, "the primary of `{name}` is {primary}, named by {named_by} of {of} ")?;
                match before {
                    None => out.write_str("Sentinels"),
                    Some(before) => write!(
                        out,
                        "Sentinels; before it was {before}: connections to it are ended and all \
                         entries are dropped"
                    ),
                }
            }
            Self::Unverified { address, why } => write!(
                out,
                "{address} does not tell its role ({why}): it is used because more than half of \
                 the Sentinels name it; set a user that may run ROLE in `feed`"
            ),
            Self::NotPrimary { address, found } => write!(
                out,
                "Sentinels name {address}: expected the role master, found {found}; it is not used \
                 and is asked again"
            ),
            Self::Answering { answer, of, primary } => {
                write!(out, "{answer} of {of} Sentinels answer: ")?;
                match (2 * answer > *of, primary) {
                    (true, _) => out.write_str("a failover is followed again"),
                    (false, Some(primary)) => write!(
                        out,
                        "no failover can be followed until more than half of them do; the primary \
                         stays {primary}"
                    ),
                    (false, None) => out.write_str(
                        "no primary is known until more than half of them do; check their \
                         addresses",
                    ),
                }
            }
            Self::Trouble { sentinel, why } => {
                write!(out, "the Sentinel {sentinel} cannot be used: {why}; retrying")
            }
        }
    }
}
