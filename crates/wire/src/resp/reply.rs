//! Replies that own their bytes, for clients that use replies and do not forward them.

use super::{Frame, Kind};

/// A decoded reply. Types that RESP2 does not have are converted: a map is a list of alternating
/// keys and values, a double or a boolean is its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Null, of a string or of an array.
    Null,
    /// A status or a string.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// An array, set, map or push.
    List(Vec<Reply>),
    /// The command failed: a code in capitals, a blank, a sentence.
    Error(String),
}

impl Reply {
    /// A status or a string as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// The elements of a list; empty for any other reply.
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }
}

impl From<&Frame<'_>> for Reply {
    fn from(frame: &Frame<'_>) -> Self {
        if frame.is_null() {
            return Self::Null;
        }
        if let Some(text) = frame.error() {
            return Self::Error(String::from_utf8_lossy(text).into_owned());
        }
        if let Some(number) = frame.integer() {
            return Self::Integer(number);
        }
        match (frame.kind(), frame.payload()) {
            (kind, _) if kind.is_aggregate() => {
                Self::List(frame.elements().map(|element| Self::from(&element)).collect())
            }
            (_, Some(payload)) => Self::Bytes(payload.to_vec()),
            (Kind::Bulk, None) => Self::Bytes(frame.chunks().collect::<Vec<_>>().concat()),
            (_, None) => Self::Bytes(frame.line().unwrap_or_default().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Limits, frame, scanner::tests::REPLIES};

    fn read(bytes: &[u8]) -> Reply {
        Reply::from(&frame::decode(bytes, &Limits::default()).unwrap().unwrap().0)
    }

    #[test]
    fn each_kind_of_frame_becomes_the_reply_a_client_expects() {
        let bytes = |text: &str| Reply::Bytes(text.into());
        for (frame, reply) in [
            ("$-1\r\n", Reply::Null),
            ("*-1\r\n", Reply::Null),
            ("_\r\n", Reply::Null),
            ("+OK\r\n", bytes("OK")),
            ("$0\r\n\r\n", bytes("")),
            ("$4\r\na\r\nb\r\n", bytes("a\r\nb")),
            ("$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n", bytes("Hello")),
            (":-42\r\n", Reply::Integer(-42)),
            (":abc\r\n", bytes("abc")),
            (",1.5\r\n", bytes("1.5")),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            ("!5\r\nERR x\r\n", Reply::Error("ERR x".to_owned())),
            ("%1\r\n+k\r\n:1\r\n", Reply::List(vec![bytes("k"), Reply::Integer(1)])),
            ("*2\r\n*0\r\n$-1\r\n", Reply::List(vec![Reply::List(vec![]), Reply::Null])),
        ] {
            assert_eq!(read(frame.as_bytes()), reply, "{frame:?}");
        }
    }

    #[test]
    fn every_frame_becomes_a_reply() {
        for (bytes, kind) in REPLIES {
            let lists = !kind.is_aggregate() || matches!(read(bytes), Reply::List(_) | Reply::Null);
            assert!(lists, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn text_and_elements_are_those_of_strings_and_lists() {
        assert_eq!(read(b"+a\xff\r\n").text().as_deref(), Some("a\u{fffd}"));
        assert_eq!(read(b":1\r\n").text(), None);
        assert_eq!(read(b"*1\r\n:1\r\n").list(), [Reply::Integer(1)]);
        assert!(read(b":1\r\n").list().is_empty());
    }
}
