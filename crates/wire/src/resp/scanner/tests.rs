use proptest::prelude::*;

use super::*;
use crate::resp::frame;

/// One reply of each type, with its kind.
pub(crate) const REPLIES: &[(&[u8], Kind)] = &[
    (b"+OK\r\n", Kind::Simple),
    (b"+a\rb\nc\r\n", Kind::Simple),
    (b"-ERR no\r\n", Kind::Error),
    (b":-42\r\n", Kind::Integer),
    (b"$-1\r\n", Kind::Bulk),
    (b"$0\r\n\r\n", Kind::Bulk),
    (b"$5\r\na\r\nbc\r\n", Kind::Bulk),
    (b"$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n", Kind::Bulk),
    (b"*-1\r\n", Kind::Array),
    (b"*0\r\n", Kind::Array),
    (b"*2\r\n*1\r\n+a\r\n*0\r\n", Kind::Array),
    (b"*?\r\n:1\r\n*?\r\n.\r\n.\r\n", Kind::Array),
    (b"_\r\n", Kind::Null),
    (b"#t\r\n", Kind::Boolean),
    (b",1.5\r\n", Kind::Double),
    (b",inf\r\n", Kind::Double),
    (b"(3492890328409238509324850943850943825024385\r\n", Kind::BigNumber),
    (b"!5\r\nERR x\r\n", Kind::BulkError),
    (b"=7\r\ntxt:abc\r\n", Kind::Verbatim),
    (b"%1\r\n+k\r\n$1\r\nv\r\n", Kind::Map),
    (b"%?\r\n+k\r\n:1\r\n.\r\n", Kind::Map),
    (b"~2\r\n:1\r\n:2\r\n", Kind::Set),
    (b"|1\r\n+ttl\r\n:9\r\n:7\r\n", Kind::Integer),
    (b"|0\r\n|1\r\n+a\r\n*1\r\n:1\r\n*1\r\n|1\r\n+b\r\n:2\r\n:3\r\n", Kind::Array),
    (b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n", Kind::Push),
];

/// The ends of all whole replies, and the error, if any.
fn ends(bytes: &[u8], sizes: &[usize], limits: &Limits) -> (Vec<(usize, Kind)>, Option<Error>) {
    let mut scanner = Scanner::new(limits);
    let mut ends = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut sizes = sizes.iter().cycle();
    while end < bytes.len() {
        end = (end + sizes.next().unwrap()).min(bytes.len());
        while start < end {
            match scanner.advance(&bytes[start..end]) {
                Ok(progress) => {
                    start += progress.consumed;
                    if progress.complete {
                        ends.push((start, progress.kind.unwrap()));
                    }
                }
                Err(error) => return (ends, Some(error)),
            }
        }
    }
    (ends, None)
}

#[test]
fn finds_the_end_of_every_type() {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (reply, kind) in REPLIES {
        bytes.extend_from_slice(reply);
        expected.push((bytes.len(), *kind));
    }
    for size in [1, 2, 3, 7, 1000] {
        assert_eq!(ends(&bytes, &[size], &Limits::default()), (expected.clone(), None));
    }
}

#[test]
fn every_proper_prefix_is_incomplete() {
    for (reply, _) in REPLIES {
        for end in 0..reply.len() {
            let progress = Scanner::new(&Limits::default()).advance(&reply[..end]).unwrap();
            assert_eq!((progress.consumed, progress.complete), (end, false));
        }
    }
}

#[test]
fn tells_the_kind_from_the_first_byte() {
    let mut scanner = Scanner::new(&Limits::default());
    assert_eq!(scanner.advance(b"").unwrap().kind, None);
    assert_eq!(scanner.advance(b">").unwrap().kind, Some(Kind::Push));
    let mut scanner = Scanner::new(&Limits::default());
    assert_eq!(scanner.advance(b"|1\r\n+a\r\n:1\r\n").unwrap().kind, None);
    assert_eq!(scanner.advance(b"$").unwrap().kind, Some(Kind::Bulk));
}

#[test]
fn streams_more_than_it_could_hold() {
    let mut scanner = Scanner::new(&Limits::default());
    scanner.advance(b"$1000000000000\r\n").unwrap();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..3 {
        let progress = scanner.advance(&chunk).unwrap();
        assert_eq!((progress.consumed, progress.complete), (chunk.len(), false));
    }
}

#[test]
fn refuses_what_is_no_reply() {
    let broken: &[&[u8]] = &[
        b"x",
        b"GET k\r\n",
        b".\r\n",
        b"$x",
        b"$-2\r\n",
        b"$1\r\nab\r\n",
        b"$1\r\na\n",
        b"*-2\r\n",
        b"%-1\r\n",
        b"!-1\r\n",
        b"=?\r\n",
        b"$?\r\n$1\r\n",
        b"$?\r\n;-1\r\n",
        b"*1\r\n>1\r\n+a\r\n",
        b"%9999999999999999999",
    ];
    for bytes in broken {
        let found = Scanner::new(&Limits::default()).advance(bytes);
        assert!(found.is_err(), "{}: {found:?}", bytes.escape_ascii());
    }
}

/// Regression found by random input: the error had the offset of its last chunk.
#[test]
fn an_error_stands_at_the_same_offset_in_any_chunking() {
    for bytes in [&b"+a\r\n!?\r\n$0"[..], b"*1\r\n=-17\r\nxx", b"*?\r\n%-1\r\n", b"$?\r\n;-3\r\n"] {
        let whole = ends(bytes, &[usize::MAX], &Limits::default());
        assert!(whole.1.is_some());
        for size in 1..bytes.len() {
            assert_eq!(ends(bytes, &[size], &Limits::default()), whole);
        }
    }
}

#[test]
fn bounds_nesting() {
    let limits = Limits { nesting_max: 3, ..Limits::default() };
    assert!(frame::decode(b"*1\r\n*1\r\n*1\r\n:1\r\n", &limits).unwrap().is_some());
    let error = frame::decode(b"*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", &limits).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 3, offset: 16, .. }), "{error:?}");
}

/// Concatenations of valid and broken fragments of the protocol.
pub(crate) fn near_misses() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => proptest::sample::select(REPLIES).prop_map(|(reply, _)| reply.to_vec()),
        4 => "[*%~|>$!=;][0-3?]\r\n".prop_map(String::into_bytes),
        2 => "[-+:.,(_#]{1,2}[a-z0-9]{0,3}\r\n".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..9),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_replies(
        bytes in near_misses(),
        sizes in proptest::collection::vec(1_usize..30, 1..9),
    ) {
        let limits = Limits { nesting_max: 5, ..Limits::default() };
        prop_assert_eq!(ends(&bytes, &sizes, &limits), ends(&bytes, &[usize::MAX], &limits));
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        ends(&bytes, &[7], &Limits::default());
    }
}

/// Arrays nested `levels` deep, with an attribute, a map and a set among them.
fn nested(levels: usize) -> Vec<u8> {
    let mut reply = Vec::new();
    for level in 0..levels {
        let part: &[u8] = match level % 5 {
            0 => b"*2\r\n:0\r\n",
            1 => b"%1\r\n+k\r\n",
            2 => b"|1\r\n+a\r\n*0\r\n~1\r\n",
            3 => b"*3\r\n*0\r\n$-1\r\n",
            _ => b"|1\r\n*1\r\n:1\r\n:2\r\n*1\r\n",
        };
        reply.extend_from_slice(part);
    }
    reply.extend_from_slice(b":7\r\n");
    reply
}

#[test]
fn passes_replies_of_any_depth() {
    for levels in [1, 5, 127, 128, 129, 4_000] {
        let mut bytes = nested(levels);
        let first = bytes.len();
        bytes.extend_from_slice(b"+OK\r\n");
        for size in [1, 3, 1_000, usize::MAX] {
            let mut scanner = Scanner::passing(&Limits::default());
            let mut found = Vec::new();
            let mut start = 0;
            while start < bytes.len() {
                let end = start.saturating_add(size).min(bytes.len());
                let progress = scanner.advance(&bytes[start..end]).unwrap();
                start += progress.consumed;
                assert!(scanner.levels.len() <= 2, "{levels}");
                found.extend(progress.complete.then_some(start));
            }
            assert_eq!(found, [first, bytes.len()], "{levels} levels in chunks of {size}");
        }
    }
    // The depth of aggregates without a length is still limited.
    let streamed = b"*?\r\n".repeat(129);
    assert!(Scanner::passing(&Limits::default()).advance(&streamed).is_err());
}

proptest! {
    #[test]
    fn passing_and_decoding_find_the_same_ends(bytes in near_misses()) {
        let limits = Limits::default();
        let (mut one, mut other) = (Scanner::new(&limits), Scanner::passing(&limits));
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let found = one.advance(rest);
            prop_assert_eq!(&found, &other.advance(rest));
            let Ok(progress) = found else { break };
            rest = &rest[progress.consumed..];
        }
    }
}
