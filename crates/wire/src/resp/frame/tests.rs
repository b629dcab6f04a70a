use proptest::prelude::*;

use super::*;
use crate::resp::scanner::tests::{REPLIES, near_misses};

#[test]
fn keeps_the_original_bytes() {
    for (reply, kind) in REPLIES {
        let behind = [reply, &b"+next\r\n"[..]].concat();
        let (frame, taken) = decode(&behind, &Limits::default()).unwrap().unwrap();
        assert_eq!((frame.bytes(), frame.kind(), taken), (*reply, *kind, reply.len()));
        assert_eq!(Kind::of(frame.value_bytes()[0]), Some(*kind));
    }
}

#[test]
fn bounds_the_whole_reply() {
    let limits = Limits { reply_bytes_max: 10, ..Limits::default() };
    assert!(decode(b"$4\r\nabcd\r\n", &limits).unwrap().is_some());
    for bytes in [&b"$5\r\nabcde\r\n"[..], b"$100\r\n", b"+abcdefghijk"] {
        let error = decode(bytes, &limits).unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 10, .. }), "{error:?}");
    }
}

/// Reads all parts of the frame.
fn walk(frame: &Frame<'_>) {
    let _ = (frame.error(), frame.integer(), frame.double(), frame.boolean(), frame.payload());
    assert!(frame.chunks().map(<[u8]>::len).sum::<usize>() <= frame.bytes().len());
    frame.elements().for_each(|element| walk(&element));
}

proptest! {
    #[test]
    fn whatever_decodes_can_be_read(bytes in near_misses()) {
        let mut rest = &bytes[..];
        while let Ok(Some((frame, taken))) = decode(rest, &Limits::default()) {
            prop_assert_eq!(frame.bytes(), &rest[..taken]);
            walk(&frame);
            rest = &rest[taken..];
        }
    }
}
