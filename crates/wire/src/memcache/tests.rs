use super::{
    Limits, Verb,
    command::{Written, written},
    frame::Frame,
    item::{Item, answer, question},
    reply::{Meta, Scanner, Shape, Value},
    request::{self, begin, decode},
};

fn keys(keys: &[&str]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.as_bytes().to_vec()).collect()
}

#[test]
fn what_packets_write() {
    for (packet, expected) in [
        ("get a b\r\n", &[][..]),
        ("set a 0 0 1\r\nx\r\n", &["a"]),
        ("set a 0 0 1 noreply\r\nx\r\nincr n 1\r\ntouch t 1\r\n", &["a", "n", "t"]),
        ("gat 10 a b\r\n", &["a", "b"]),
        ("gats 10 a\r\n", &["a"]),
        ("ms a 1 T9\r\nx\r\nmd b q\r\nma c\r\nmg d s\r\n", &["a", "b", "c", "d"]),
        ("cas  a 0 0 1 9\r\nx\r\n", &["a"]),
        ("tting a value\r\nversion\r\n", &[]),
        (" set a 0 0 1\r\nx\r\n    delete b\r\n  get c\r\n", &["a", "b"]),
    ] {
        assert_eq!(written(packet.as_bytes()), Written::Keys(keys(expected)), "{packet:?}");
    }
}

#[test]
fn packets_that_may_write_anything() {
    for packet in [
        "s",
        "se",
        "set",
        "set ",
        "set a",
        "x\r\nd",
        "delete ab",
        "flush_all\r\n",
        "flush_al",
        "ms YQ== 1 b\r\nx\r\n",
        "md YQ== q b\r\n",
        "gat 10 a",
        "gat 10",
        "set     a 0 0 1\r\n",
        "mg a v",
    ] {
        assert!(matches!(written(packet.as_bytes()), Written::Everything(_)), "{packet:?}");
    }
    assert!(matches!(written(&b"\n".repeat(33)), Written::Everything(_)));
    assert_eq!(written(&b"\n".repeat(32)), Written::Keys(Vec::new()));
}

#[test]
fn items() {
    assert_eq!(question(b"k", 26), b"mg k O1a t f v\r\n");
    let item = Item { flags: 7, lives_s: None, value: b"a\r\nb".to_vec() };
    assert_eq!(answer(b"VA 4 O1a t-1 f7\r\na\r\nb\r\n", 26), Ok(Some(item.clone())));
    assert_eq!(answer(b"EN\r\n", 26), Ok(None));
    assert_eq!(item.get_text(b"k"), b"VALUE k 7 4\r\na\r\nb\r\n");
    assert_eq!(item.meta_text(), b"VA 4\r\na\r\nb\r\n");
    for wrong in [
        "",
        "VA",
        "VA 4 O1a f7\r\nabcd\r\n",
        "VA 5 O1a t1 f7\r\nabcd\r\n",
        "VA 4 O1b t1 f7\r\nabcd\r\n",
        "VA 4 t1 f7\r\nabcd\r\n",
        "SERVER_ERROR x\r\n",
    ] {
        assert!(answer(wrong.as_bytes(), 26).is_err(), "{wrong:?}");
    }
}

#[test]
fn frames() {
    let frame = Frame::whole(0x1234, b"get k\r\n");
    assert_eq!(frame.bytes(), b"\x12\x34\0\0\0\x01\0\0get k\r\n");
    assert_eq!(Frame::decode(&frame.bytes()), Ok(frame));
    assert!(Frame::decode(b"1234567").is_err());
}

#[test]
fn requests_are_read_as_memcached_reads_them() {
    let limits = Limits::default();
    for (text, verb, words, value, quiet) in [
        ("get a  b\r\n", Verb::Get, 3, "", false),
        ("  mn\n", Verb::Line, 1, "", false),
        ("\r\n", Verb::Line, 0, "", false),
        ("GET a\r\n", Verb::Unknown, 2, "", false),
        ("get\ta\r\n", Verb::Unknown, 1, "", false),
        ("set a 0 -1 2\r\n\r\n\r\n", Verb::Set, 5, "\r\n", false),
        ("set a 0 0 01 noreply\nx\r\n", Verb::Set, 6, "x", true),
        ("set a 0 0 1 other\r\nx\r\n", Verb::Set, 6, "x", false),
        ("cas a 0 0 0 7\r\n\r\n", Verb::Cas, 6, "", false),
        ("ms a 1 T0 q\r\nx\r\n", Verb::MetaSet, 5, "x", true),
        ("ms a\r\n", Verb::MetaSet, 2, "", false),
        ("get a noreply\r\n", Verb::Get, 3, "", false),
        ("mg a v Oq\r\n", Verb::MetaGet, 4, "", false),
        ("flush_all noreply\r\n", Verb::FlushAll, 2, "", true),
    ] {
        let (request, taken) = decode(text.as_bytes(), &limits).unwrap().expect(text);
        assert_eq!((request.verb(), request.words().count()), (verb, words), "{text:?}");
        assert_eq!((request.value(), request.is_quiet()), (value.as_bytes(), quiet), "{text:?}");
        assert_eq!(taken, text.len(), "{text:?}");
        for cut in 0..text.len() {
            assert_eq!(decode(&text.as_bytes()[..cut], &limits), Ok(None), "{text:?} {cut}");
        }
    }
}

/// To memcached such a line is an unknown command; the value is the next one.
#[test]
fn a_line_without_all_words_of_its_command_has_no_value() {
    for text in ["set\r\n", "set a 0 0\r\n", "add a 0 x\n", "cas a 0 0 1\r\n", "cas a 0 0 1 \r\n"] {
        let with_value = format!("{text}x\r\n");
        let (request, taken) = decode(with_value.as_bytes(), &Limits::default()).unwrap().unwrap();
        assert_eq!((request.verb(), taken, request.value()), (Verb::Unknown, text.len(), &b""[..]));
        assert!(!request.is_quiet(), "{text:?}");
        assert_eq!(begin(with_value.as_bytes(), &Limits::default()), Ok(None), "{text:?}");
    }
}

/// memcached answers such a line with an error; depending on the mistake, it then parses the value
/// as commands or skips it.
#[test]
fn lines_behind_which_a_value_may_be_read_as_commands_are_refused() {
    let limits = Limits { value_bytes_max: 5, ..Limits::default() };
    let long = "k".repeat(251);
    for text in [
        "set a x 0 1\r\n",
        "set a 4294967296 0 1\r\n",
        "set a 0 1x 1\r\n",
        "set a 0 0 -1\r\n",
        "set a 0 0 +1\r\n",
        "set a 0 0 1x\r\n",
        "set a 0 0 6\r\n",
        "set a 0 0 1 noreply x\r\n",
        "set a b 0 0 1\r\n",
        "cas a 0 0 1 x\r\nx\r\n",
        "ms\r\n",
        "ms a x\r\n",
        "ms a S1\r\nx\r\n",
        "set a 0 0 1\r\nxy\r\n",
        "set a 0 0 1\r\nx\n\n",
        "get a\0b\r\n",
        &format!("set {long} 0 0 1\r\n"),
    ] {
        let refused = decode(text.as_bytes(), &limits).expect_err(text);
        assert!(request::error_line(&refused).ends_with(b"\r\n"), "{text:?}");
    }
    assert!(decode(&[b'a'; 70_000], &limits).is_err() && decode(&[b'a'; 100], &limits).is_ok());
}

#[test]
fn no_room_is_made_for_a_value_that_is_only_announced() {
    let line = format!("set a 0 0 {}\r\n", 1 << 30);
    assert_eq!(decode(line.as_bytes(), &Limits::default()), Ok(None));
    let (request, taken, mut rest) = begin(format!("{line}abc").as_bytes(), &Limits::default())
        .unwrap()
        .map(|b| (b.0.key().map(<[u8]>::to_vec), b.1, b.2))
        .expect("a line");
    assert_eq!((request.as_deref(), taken), (Some(&b"a"[..]), line.len() + 3));
    assert_eq!(rest.advance(&[0; 100]).map(|passed| (passed.bytes, passed.ends)), Ok((100, false)));
}

#[test]
fn replies_end_by_what_was_asked() {
    for (shape, text) in [
        (Shape::Line, "STORED\r\n"),
        (Shape::Values, "END\r\n"),
        (Shape::Values, "VALUE a 0 5\r\nEND\r\n\r\nVALUE b 1 0 9\r\n\r\nEND\r\n"),
        (Shape::Values, "SERVER_ERROR out of memory\r\n"),
        (Shape::Meta, "VA 4 f0\r\nEN\r\n\r\n"),
        (Shape::Meta, "HD\r\n"),
        (Shape::Keys, "key=a exp=-1\nEND\r\n"),
        (Shape::Keys, "BUSY\r\n"),
        (Shape::Fenced, "CLIENT_ERROR unauthenticated\r\n"),
    ] {
        let mut scanner = Scanner::default();
        let both = format!("{text}VERSION 1\r\n");
        let progress = scanner.advance(both.as_bytes(), shape, &Limits::default()).unwrap();
        assert_eq!((progress.consumed, progress.complete), (text.len(), true), "{text:?}");
    }
    for text in ["", "ERROR\r\n", "VA 9\r\nVERSION 1\r\n", "STAT a 1\r\nEND\r\n"] {
        let both = format!("{text}VERSION 1\r\n");
        let progress =
            Scanner::default().advance(both.as_bytes(), Shape::Fenced, &Limits::default());
        assert_eq!(progress.unwrap().consumed, text.len(), "{text:?}");
    }
    for wrong in ["VALUE a\r\n", "VALUE a 0 x\r\n", "VA\u{20}\r\n"] {
        let shape = if wrong.starts_with("VALUE") { Shape::Values } else { Shape::Meta };
        assert!(Scanner::default().advance(wrong.as_bytes(), shape, &Limits::default()).is_err());
    }
}

#[test]
fn replies_are_read() {
    let reply = b"VALUE a 7 2 99\r\n\r\n\r\nEND\r\n";
    let (value, taken) = Value::first(reply).expect("an item");
    assert_eq!((value.key, value.flags, value.unique), (&b"a"[..], &b"7"[..], Some(&b"99"[..])));
    assert_eq!((value.value, taken), (&b"\r\n"[..], reply.len() - 5));
    for cut in 0..taken {
        assert_eq!(Value::first(&reply[..cut]), None);
    }
    let meta = Meta::parse(b"VA 1 ka O12 t-1 W\r\nx\r\n").expect("a reply");
    assert_eq!((meta.code, meta.value), (&b"VA"[..], Some(&b"x"[..])));
    assert_eq!(
        (meta.flag(b't'), meta.flag(b'W'), meta.flag(b'X')),
        (Some(&b"-1"[..]), Some(&b""[..]), None)
    );
    let none = Meta::parse(b"EN\r\n").expect("a reply");
    assert_eq!((none.code, none.value, none.flags().count()), (&b"EN"[..], None, 0));
    for wrong in ["", "E", "EN\n", "EN\r\nx", "VA 2\r\nx\r\n", "VA\r\nx\r\n"] {
        assert_eq!(Meta::parse(wrong.as_bytes()), None, "{wrong:?}");
    }
}

#[test]
fn only_a_line_of_keys_may_be_long() {
    let limits = Limits { line_bytes_max: 20, keys_line_bytes_max: 40, ..Limits::default() };
    let line =
        |verb: &str, length: usize| format!("{verb} {}", "a".repeat(length - verb.len() - 1));
    for (verb, limit) in [("get", 40), (" gets", 40), ("mg", 20), ("getx", 20)] {
        let longest = format!("{}\n", line(verb, limit));
        assert!(decode(longest.as_bytes(), &limits).is_ok(), "{longest}");
        for more in [line(verb, limit + 1), format!("{}\n", line(verb, limit + 1))] {
            assert!(decode(more.as_bytes(), &limits).is_err(), "{more}");
        }
    }
}
