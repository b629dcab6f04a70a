//! One command for a node of the cluster, with the meaning of its reply.
//!
//! Each [`Query`] is defined beside the model of its result ([`crate::members`], [`crate::fence`],
//! [`crate::steps`], …). Tier 2 sends its words and passes the reply to it, and interprets no reply
//! itself.

use std::{borrow::Cow, fmt};

use wire::resp::Reply;

use crate::{note, scripts::FENCED, slot::Slot};

/// Maximum bytes of a reply in an error.
const SHOWN_BYTES: usize = 80;
/// Commands with a subcommand.
const CONTAINERS: [&[u8]; 3] = [b"CLUSTER", b"CLIENT", b"PUBSUB"];

/// A command whose reply is converted to a `T`.
pub struct Query<'a, T> {
    name: String,
    words: Vec<Word<'a>>,
    meaning: Meaning<'a, T>,
}

pub(crate) type Meaning<'a, T> = Box<dyn FnOnce(Reply) -> Result<T, Why> + 'a>;

impl<'a, T> Query<'a, T> {
    pub(crate) fn new(
        words: Vec<Word<'a>>,
        meaning: impl FnOnce(Reply) -> Result<T, Why> + 'a,
    ) -> Self {
        let shown = |word: &Word<'_>| String::from_utf8_lossy(word.as_ref()).into_owned();
        let is_container = |word: &Word<'_>| CONTAINERS.contains(&word.as_ref());
        let count = if words.first().is_some_and(is_container) { 2 } else { 1 };
        let name = words.iter().take(count).map(shown).collect::<Vec<_>>().join(" ");
        Self { name, words, meaning: Box::new(meaning) }
    }

    /// The same under the name of what the command executes.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The command, its name first.
    #[must_use]
    pub fn words(&self) -> &[Word<'a>] {
        &self.words
    }

    /// Parses the reply.
    ///
    /// # Errors
    /// The node refuses the command, or the reply is not one to this command.
    pub fn read(self, reply: Reply) -> Result<T, Error> {
        let why = match reply {
            Reply::Error(text) if text.starts_with(FENCED) => Why::Fenced(text),
            reply => match (self.meaning)(reply) {
                Ok(meaning) => return Ok(meaning),
                Err(why) => why,
            },
        };
        Err(Error { command: self.name, why })
    }
}

impl<T> fmt::Debug for Query<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Query").field(&self.name).finish()
    }
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word<'a>(Cow<'a, [u8]>);

impl AsRef<[u8]> for Word<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> From<&'a [u8]> for Word<'a> {
    fn from(word: &'a [u8]) -> Self {
        Self(Cow::Borrowed(word))
    }
}

impl<'a> From<&'a str> for Word<'a> {
    fn from(word: &'a str) -> Self {
        Self::from(word.as_bytes())
    }
}

impl From<String> for Word<'_> {
    fn from(word: String) -> Self {
        Self(Cow::Owned(word.into_bytes()))
    }
}

impl From<u64> for Word<'_> {
    fn from(number: u64) -> Self {
        Self::from(number.to_string())
    }
}

impl From<Slot> for Word<'_> {
    fn from(slot: Slot) -> Self {
        Self::from(slot.number() as u64)
    }
}

/// A command's words, which may be of different types.
macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$($crate::query::Word::from($word)),*] };
}
pub(crate) use words;

/// A command that did not give the requested result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command}: {why}")]
pub struct Error {
    command: String,
    why: Why,
}

impl Error {
    /// Whether the fence of the sender does not stand at the node.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self.why, Why::Fenced(_))
    }
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Why {
    #[error("the node refuses it: {0}")]
    Refused(String),
    #[error("the node refuses the step of a placer that was fenced off: {0}")]
    Fenced(String),
    #[error("expected {expected}, got {got}")]
    Unexpected { expected: &'static str, got: String },
    #[error(transparent)]
    Note(#[from] Box<note::Malformed>),
}

/// Something else than `expected`, or the refusal of the node.
pub(crate) fn unexpected(expected: &'static str, reply: &Reply) -> Why {
    if let Reply::Error(text) = reply {
        return Why::Refused(text.clone());
    }
    let mut got = match reply {
        Reply::Bytes(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        other => format!("{other:?}"),
    };
    if let Some((end, _)) = got.char_indices().nth(SHOWN_BYTES) {
        got.truncate(end);
        got.push('…');
    }
    Why::Unexpected { expected, got }
}

/// Anything but a refusal.
pub(crate) fn done(reply: Reply) -> Result<(), Why> {
    match reply {
        Reply::Error(text) => Err(Why::Refused(text)),
        _ => Ok(()),
    }
}

pub(crate) fn number(reply: &Reply) -> Result<u64, Why> {
    match reply {
        Reply::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| unexpected("a number of at least 0", reply))
}

pub(crate) fn text(reply: &Reply) -> Result<String, Why> {
    reply.text().ok_or_else(|| unexpected("a text", reply))
}

pub(crate) fn list(reply: Reply) -> Result<Vec<Reply>, Why> {
    match reply {
        Reply::List(list) => Ok(list),
        other => Err(unexpected("a list", &other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_command_and_what_the_node_said() {
        let said = |words: Vec<Word<'static>>, reply: Reply| {
            Query::new(words, |reply| number(&reply))
                .read(reply)
                .expect_err("it is no number")
                .to_string()
        };
        let refused = Reply::Error("NOPERM no".to_owned());
        assert_eq!(said(words!["DBSIZE"], refused), "DBSIZE: the node refuses it: NOPERM no");
        let count = || words!["CLUSTER", "COUNTKEYSINSLOT", 7];
        let negative = said(count(), Reply::Integer(-1));
        assert_eq!(
            negative,
            "CLUSTER COUNTKEYSINSLOT: expected a number of at least 0, got Integer(-1)"
        );
        let long = said(count(), Reply::Bytes(vec![0xff; 1000]));
        assert!(long.ends_with('…') && long.len() < 200, "{long}");
    }

    #[test]
    fn a_fence_that_does_not_stand_is_told_from_other_refusals() {
        let read = |text: &str| Query::new(words!["X"], done).read(Reply::Error(text.to_owned()));
        assert!(
            read("FENCED enroute:lease:1 does not stand here").expect_err("refused").is_fenced()
        );
        assert!(!read("ERR no").expect_err("refused").is_fenced());
    }
}
