//! What is wrong with the inputs of an experiment, and where.

use std::{fmt, ops::Range};

/// A value that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{}{what}: expected {expected}, got {found}", if place.is_empty() { "" } else { ": " })]
pub struct Mistake {
    /// `file:line` or `file:line:column`; empty for an option.
    pub place: String,
    /// The option, key or column.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
}

impl Mistake {
    /// An invalid option.
    pub fn new(what: &str, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self {
            place: String::new(),
            what: what.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// The same in a file.
    #[must_use]
    pub fn at(self, place: String) -> Self {
        Self { place, ..self }
    }
}

/// A text that is not TOML, or has other keys than it may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Syntax {
    /// `file:line:column`.
    pub place: String,
    /// What was expected, and what was found.
    pub message: String,
}

impl Syntax {
    /// An error of the parser; `place` names the position.
    pub fn new(error: &toml::de::Error, place: impl Fn(Option<Range<usize>>) -> String) -> Self {
        Self { place: place(error.span()), message: error.message().to_owned() }
    }
}

/// Where a sweep names the value that an error is about; the context of that error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(
    /// `file:line:column`, or the key.
    pub String,
);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
