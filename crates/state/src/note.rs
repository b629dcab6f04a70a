//! The note among a slot's keys while it moves: a list that [`crate::scripts`] write and the placer
//! reads back (`docs/formats/state-reports.md`).

use std::fmt;

use crate::slot::Slot;

/// Maximum bytes of an invalid element in an error.
const SHOWN_BYTES: usize = 32;

/// The note's key.
#[must_use]
pub fn key(slot: Slot) -> String {
    format!("{{{}}}:enroute:moves", slot.tag())
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The current turn.
    pub turn: u64,
    /// The turn of the latest batch; `None` if nothing of it is to be dropped.
    pub batch: Option<u64>,
    /// Keys of that batch; at the source, those for which it is unknown whether the target has
    /// them.
    pub keys: Vec<Vec<u8>>,
}

/// A mistake in a list that should be a note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "note {key}, element {element} ({what}): expected {expected}, found {found}; it was not written by `enroute \
     state`: delete the key at that node (DEL {key}), then run `enroute state doctor`"
)]
pub struct Malformed {
    key: String,
    element: usize,
    what: &'static str,
    expected: String,
    found: Found,
}

/// An element as an error shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Nothing,
    Element(Vec<u8>),
    KeyOf(Vec<u8>, Slot),
}

impl Note {
    /// Reads the elements of the note of `slot`; `None` where there is no note, which is a list
    /// without elements.
    ///
    /// # Errors
    /// It is no note that a script of ours has written.
    pub fn read<'a>(
        slot: Slot,
        elements: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Self>, Malformed> {
        let mut elements = elements.into_iter();
        let wrong = |element, what, expected: &str, found| {
            let (key, expected) = (key(slot), expected.to_owned());
            Malformed { key, element, what, expected, found }
        };
        let Some(turn) = elements.next() else { return Ok(None) };
        let shown = |element: &[u8]| Found::Element(element.to_vec());
        let turn = number(turn).ok_or_else(|| wrong(0, "turn", NUMBER, shown(turn)))?;
        const BATCH: &str = "turn of the latest batch";
        let Some(batch) = elements.next() else {
            return Err(wrong(1, BATCH, NUMBER_OR_NOTHING, Found::Nothing));
        };
        let batch = match batch {
            b"" => None,
            batch => Some(
                number(batch).ok_or_else(|| wrong(1, BATCH, NUMBER_OR_NOTHING, shown(batch)))?,
            ),
        };
        let mut keys = Vec::new();
        for (at, key) in elements.enumerate() {
            let of = Slot::of(key);
            if of != slot {
                let expected = format!("a key of slot {}", slot.number());
                return Err(wrong(at + 2, "key", &expected, Found::KeyOf(key.to_vec(), of)));
            }
            keys.push(key.to_vec());
        }
        Ok(Some(Self { turn, batch, keys }))
    }

    /// Its elements, as scripts write them.
    #[must_use]
    pub fn elements(&self) -> Vec<Vec<u8>> {
        let batch = self.batch.map(|batch| batch.to_string()).unwrap_or_default();
        let ahead = [self.turn.to_string(), batch].map(String::into_bytes);
        ahead.into_iter().chain(self.keys.iter().cloned()).collect()
    }
}

const NUMBER: &str = "a number of at most 64 bits, in decimal digits";
const NUMBER_OR_NOTHING: &str =
    "a number of at most 64 bits, in decimal digits, or an empty string";

/// Scripts compare numbers as text, so each number has only one form.
fn number(element: &[u8]) -> Option<u64> {
    let number: u64 = str::from_utf8(element).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == element).then_some(number)
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |element: &[u8], formatter: &mut fmt::Formatter<'_>| {
            let shown = element.get(..SHOWN_BYTES).unwrap_or(element);
            let more = if shown.len() < element.len() { "…" } else { "" };
            write!(formatter, "\"{}{more}\"", shown.escape_ascii())
        };
        match self {
            Self::Nothing => formatter.write_str("the end of the list"),
            Self::Element(element) => quoted(element, formatter),
            Self::KeyOf(key, slot) => {
                quoted(key, formatter)?;
                write!(formatter, ", a key of slot {}", slot.number())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Slot {
        Slot::of(b"foo")
    }

    fn read(elements: &[&[u8]]) -> Result<Option<Note>, String> {
        Note::read(slot(), elements.iter().copied()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_note_is_read_as_scripts_write_it() {
        assert_eq!(read(&[]), Ok(None));
        let keys = vec![b"foo".to_vec(), b"{foo}\xff".to_vec()];
        for batch in [None, Some(u64::MAX)] {
            let note = Note { turn: 7, batch, keys: keys.clone() };
            let elements = note.elements();
            let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
            assert_eq!(read(&elements), Ok(Some(note)));
        }
    }

    #[test]
    fn an_error_says_where_what_was_expected_and_what_was_found() {
        let wrong = |elements: &[&[u8]]| read(elements).expect_err("it is no note");
        let said = wrong(&[b"7"]);
        assert!(said.starts_with(&format!("note {}, element 1 ", key(slot()))), "{said}");
        assert!(said.contains("expected a number") && said.contains("found the end"), "{said}");
        let said = wrong(&[b"", b"7"]);
        assert!(said.contains("element 0 (turn)") && said.contains("found \"\""), "{said}");
        for number in ["+7", "07", "7 ", "-1", "18446744073709551616", "x"] {
            let said = wrong(&[b"7", number.as_bytes()]);
            assert!(said.contains(&format!("found \"{number}\"")), "{said}");
        }
        let said = wrong(&[b"7", b"7", b"foo", b"bar"]);
        assert!(said.contains("element 3 (key)"), "{said}");
        assert!(said.contains("expected a key of slot 12182"), "{said}");
        assert!(said.contains("found \"bar\", a key of slot 5061"), "{said}");
        let said = wrong(&[&[0xff; 100], b"7"]);
        assert!(said.contains("\\xff…\""), "{said}");
    }
}
